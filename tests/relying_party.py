"""A relying party and the browser of its user: the requests that they send, and their responses."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html.parser
import json
import urllib.parse
from typing import Any

import httpx

from identity.ids import new_id

REDIRECT_URI = "https://app.example.com/callback"
PASSWORD = "correct horse battery"
VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
CHEAP = {"encryptionScheme": "salted-hmac-sha256", "encryptionSchemeFactor": 1}
"""How a relying party's tenant keeps passwords, where the way is not what is tested: argon2id takes 35 ms each time."""
PKCE = {"code_challenge": CHALLENGE, "code_challenge_method": "S256"}


class _Page(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[dict[str, Any]] = []
        self.frames: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        if tag == "form":
            self.forms.append({"action": given.get("action", ""), "method": given.get("method", "get"), "fields": {}})
        elif tag == "input" and self.forms and given.get("type") != "checkbox":
            self.forms[-1]["fields"][given["name"]] = given.get("value", "")
        elif tag == "iframe":
            self.frames.append(given["src"])

    def handle_data(self, data: str) -> None:
        self.text += data


def page(answer: httpx.Response) -> _Page:
    """A page as a browser sees it: forms, frames, text."""
    parsed = _Page()
    parsed.feed(answer.text)
    return parsed


@dataclasses.dataclass
class RelyingParty:
    """An application, its tenant, and a user who knows a password."""

    tenant: dict[str, Any]
    application: dict[str, Any]
    user: dict[str, Any]
    api: httpx.AsyncClient

    @property
    def client_id(self) -> str:
        return str(self.application["id"])

    @property
    def secret(self) -> str:
        return str(self.application["oauthConfiguration"]["clientSecret"])

    @property
    def login_id(self) -> str:
        return str(self.user["email"])

    def query(self, **changes: str | None) -> dict[str, str]:
        """The parameters of an authorization request; None leaves one out."""
        usual = {
            "client_id": self.client_id,
            "redirect_uri": REDIRECT_URI,
            "response_type": "code",
            "scope": "openid offline_access",
            "state": "the-state",
        }
        merged = {**usual, **changes}
        return {name: value for name, value in merged.items() if value is not None}

    async def authorize(self, browser: httpx.AsyncClient, **changes: str | None) -> httpx.Response:
        """An authorization request by GET."""
        return await browser.get("/oauth2/authorize", params=self.query(**changes))

    async def submit(self, browser: httpx.AsyncClient, shown: httpx.Response, **fields: str) -> httpx.Response:
        """Send the login form of a page, with the right credentials unless others are given."""
        form = page(shown).forms[0]
        filled = {**form["fields"], "loginId": self.login_id, "password": PASSWORD, **fields}
        return await browser.post(form["action"], data=filled)

    async def log_in(self, browser: httpx.AsyncClient, **changes: str | None) -> dict[str, str]:
        """Log in at the page and return the parameters of the response."""
        shown = await self.authorize(browser, **changes)
        assert shown.status_code == 200, shown.headers.get("Location", shown.text)
        return response(await self.submit(browser, shown))

    async def log_in_by_api(self, client: httpx.AsyncClient, **members: Any) -> httpx.Response:
        """A login at `/api/login`, with the right credentials unless others are given; None leaves a member out."""
        body = {"loginId": self.login_id, "password": PASSWORD, "applicationId": self.client_id, **members}
        return await client.post("/api/login", json={name: value for name, value in body.items() if value is not None})

    async def code(self, browser: httpx.AsyncClient, **changes: str | None) -> str:
        """A fresh code, by the login page or by the session."""
        answer = await self.authorize(browser, **changes)
        if answer.status_code == 200:
            answer = await self.submit(browser, answer)
        return response(answer)["code"]

    async def token(self, http: httpx.AsyncClient, **form: str | None) -> httpx.Response:
        """A token request, by default with client_secret_post."""
        merged = {"client_id": self.client_id, "client_secret": self.secret, **form}
        return await http.post("/oauth2/token", data={k: v for k, v in merged.items() if v is not None})

    async def exchange(self, http: httpx.AsyncClient, code: str, **form: str | None) -> httpx.Response:
        """Exchange a code."""
        merged = {"grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT_URI, **form}
        return await self.token(http, **merged)

    async def refresh(self, http: httpx.AsyncClient, value: str, **form: str | None) -> httpx.Response:
        """Use a refresh token."""
        return await self.token(http, **{"grant_type": "refresh_token", "refresh_token": value, **form})

    async def tokens(
        self, http: httpx.AsyncClient, browser: httpx.AsyncClient, **changes: str | None
    ) -> dict[str, Any]:
        """The token response of a whole flow."""
        answer = await self.exchange(http, await self.code(browser, **changes))
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def configure(self, **oauth: Any) -> None:
        """Change the application's oauthConfiguration."""
        body = {"application": {"oauthConfiguration": oauth}}
        await self.patch(f"/api/application/{self.client_id}", body)

    async def configure_strict(self, **oauth: Any) -> None:
        """Give the application the profile strict, and a key for its ID tokens that the profile allows."""
        settings = await strict_tokens(self.api)
        wanted = {"profile": "strict", "proofKeyForCodeExchangePolicy": "Required", **oauth}
        body = {"application": {"oauthConfiguration": wanted, "jwtConfiguration": settings}}
        await self.patch(f"/api/application/{self.client_id}", body)

    async def configure_tenant(self, **members: Any) -> None:
        """Change the tenant."""
        await self.patch(f"/api/tenant/{self.tenant['id']}", {"tenant": members})

    async def patch(self, path: str, body: dict[str, Any]) -> None:
        """Change something by JSON Merge Patch."""
        headers = {"Content-Type": "application/merge-patch+json", "X-FusionAuth-TenantId": self.tenant["id"]}
        answer = await self.api.patch(path, content=json.dumps(body), headers=headers)
        assert answer.status_code == 200, answer.text


async def make_tenant(api: httpx.AsyncClient, **members: Any) -> dict[str, Any]:
    """A tenant with an issuer of its own, which signs with the key of the default tenant: generating one takes long."""
    keys = dict.fromkeys(("accessTokenKeyId", "idTokenKeyId"), await _default_key_id(api))
    wanted = {
        "name": f"Tenant {new_id()}",
        "issuer": f"https://{new_id()}.example.com",
        **members,
        "jwtConfiguration": {**keys, **members.get("jwtConfiguration", {})},
    }
    return await _made(api, "/api/tenant", {"tenant": wanted}, "tenant", None)


DEFAULT_KEY_IDS: dict[str, str] = {}
"""By the address of a service, which another may have after it."""


async def _default_key_id(api: httpx.AsyncClient) -> str:
    """The id of the signing key of a service, which every tenant may name and none may delete."""
    service = str(api.base_url)
    if service not in DEFAULT_KEY_IDS:
        answer = await api.get("/api/key/search", params={"name": "Default signing key"})
        DEFAULT_KEY_IDS[service] = answer.json()["keys"][0]["id"]
    return DEFAULT_KEY_IDS[service]


async def make(
    api: httpx.AsyncClient,
    *,
    tenant: dict[str, Any] | None = None,
    tokens: dict[str, Any] | None = None,
    **oauth: Any,
) -> RelyingParty:
    """A relying party in a tenant of its own, unless one is given; `tokens` is the application's jwtConfiguration."""
    if tenant is None:
        tenant = await make_tenant(api, passwordEncryptionConfiguration=CHEAP)
    configuration = {"authorizedRedirectURLs": [REDIRECT_URI], **oauth}
    wanted_application = {"name": f"Application {new_id()}", "oauthConfiguration": configuration}
    body = {"application": {**wanted_application, "jwtConfiguration": tokens or {"enabled": False}}}
    application = await _made(api, "/api/application", body, "application", tenant["id"])
    user = await make_user(api, tenant["id"], application["id"])
    return RelyingParty(tenant, application, user, api)


async def strict_tokens(api: httpx.AsyncClient) -> dict[str, Any]:
    """A jwtConfiguration that the profile strict allows."""
    key = await _made(api, "/api/key/generate", {"key": {"name": new_id(), "algorithm": "ES256"}}, "key", None)
    return {"enabled": True, "idTokenKeyId": key["id"], "refreshTokenUsagePolicy": "OneTimeUse"}


async def make_for_every_login(api: httpx.AsyncClient) -> RelyingParty:
    """A relying party whose users log in by page, API, password grant and code, and get refresh tokens."""
    found = await make(api, enabledGrants=["authorization_code", "password", "refresh_token"])
    members = {
        "loginConfiguration": {"generateRefreshTokens": True, "allowTokenRefresh": True},
        "passwordlessConfiguration": {"enabled": True},
    }
    await found.patch(f"/api/application/{found.client_id}", {"application": members})
    return found


async def make_user(
    api: httpx.AsyncClient, tenant_id: str, application_id: str | None = None, **members: Any
) -> dict[str, Any]:
    """A user with the usual password, registered where an application is given."""
    body: dict[str, Any] = {
        "user": {"email": f"{new_id()}@example.com", "password": PASSWORD, **members},
        "skipVerification": True,
    }
    if application_id is None:
        return await _made(api, "/api/user", body, "user", tenant_id)
    body["registration"] = {"applicationId": application_id}
    return await _made(api, "/api/user/registration", body, "user", tenant_id)


async def _made(
    api: httpx.AsyncClient, path: str, body: dict[str, Any], name: str, tenant_id: str | None
) -> dict[str, Any]:
    headers = {} if tenant_id is None else {"X-FusionAuth-TenantId": tenant_id}
    answer = await api.post(path, json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return dict(answer.json()[name])


def response(answer: httpx.Response) -> dict[str, str]:
    """The parameters of an authorization response, by redirect or by form."""
    if answer.status_code == 200:
        form = page(answer).forms[0]
        assert form["action"].startswith(REDIRECT_URI), answer.text
        return dict(form["fields"])
    assert answer.status_code == 302, (answer.status_code, answer.text)
    parts = urllib.parse.urlsplit(answer.headers["Location"])
    assert answer.headers["Location"].startswith(REDIRECT_URI)
    pairs = urllib.parse.parse_qsl(parts.query, keep_blank_values=True)
    pairs += urllib.parse.parse_qsl(parts.fragment, keep_blank_values=True)
    assert len(pairs) == len(dict(pairs))
    return dict(pairs)


def claims(token: str) -> dict[str, Any]:
    """The claims of a JWS, unverified."""
    return dict(json.loads(_decoded(token.split(".")[1])))


def header(token: str) -> dict[str, Any]:
    """The header of a JWS, unverified."""
    return dict(json.loads(_decoded(token.split(".", maxsplit=1)[0])))


def half_hash(text: str) -> str:
    """`at_hash` or `c_hash` with SHA-256, computed independently."""
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()[:16]).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
