"""`/admin/applications/<id>/try` and `/admin/entities/<id>/try`: perform a grant, and see every message."""

from __future__ import annotations

import dataclasses
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from identity.call import Call, Document
from identity.domain.clients.oauth_settings import client_id_of
from identity.errors import OAuth2Error
from identity.ids import unbase64url
from identity.operations.grants import client_credentials, device_code, password, refresh_token
from identity.operations.pages import trial_logins
from identity.operations.pages.trial_logins import Trial
from identity.web import internal_requests
from identity.web.base_handlers import Route
from identity.web.console.handlers import LOGIN_COOKIE
from identity.web.console.resource_handlers import ResourceHandler
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.oauth2.oauth_handlers import error_body

_SCOPE: Final = "openid profile email offline_access"
_RESPONSE: Final = ("code", "error", "error_reason", "error_description", "iss", "state", "userState")
_TOKENS: Final = frozenset({"access_token", "code", "code_verifier", "device_code", "id_token", "refresh_token"})
_CREDENTIALS: Final = frozenset({"client_secret", "password"})
_SHOWN_CHARACTERS: Final = 24


_TOKEN: Final = "/oauth2/token"  # noqa: S105 (a path)


@dataclasses.dataclass(frozen=True, slots=True)
class GrantInput:
    """A parameter that the administrator enters."""

    name: str
    label: str
    kind: str = "text"
    value: str = ""
    help: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class TrialGrant:
    """A grant: its value, its title, its inputs, and its endpoint. `is_start`: it begins a flow of several requests."""

    grant_type: str
    title: str
    inputs: Sequence[GrantInput]
    path: str = _TOKEN
    is_start: bool = False
    is_follow_up: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Exchange:
    """A request of the client and its response."""

    path: str
    form: Mapping[str, str]
    status: int
    response: Mapping[str, Any]

    @property
    def pending_device_code(self) -> str:
        """The device code of a request that the user has not approved yet; empty otherwise."""
        is_pending = self.response.get("error") in {"authorization_pending", "slow_down"}
        return self.form.get("device_code", "") if is_pending else ""


_SCOPES: Final = GrantInput("scope", "Scopes", value="openid offline_access")
_START: Final = f"{device_code.grant_type}#start"
_OF_APPLICATIONS: Final = (
    TrialGrant(
        password.grant_type,
        "Password",
        (GrantInput("loginId", "Login id"), GrantInput("password", "Password", "password"), _SCOPES),
    ),
    TrialGrant(_START, "Device", (_SCOPES,), "/oauth2/device_authorize", is_start=True),
    TrialGrant(refresh_token.grant_type, "Refresh", (GrantInput("refresh_token", "Refresh token"),)),
    TrialGrant(device_code.grant_type, "Device code", (GrantInput("device_code", "Device code"),), is_follow_up=True),
)
_OF_ENTITIES: Final = (
    TrialGrant(
        client_credentials.grant_type,
        "Client credentials",
        (
            GrantInput(
                "scope",
                "Scopes",
                help="target-entity:<id> for an entity that granted permissions to this one, optionally :<permission>.",
            ),
        ),
    ),
)


def find_grant(grant_type: str) -> TrialGrant | None:
    """Return a grant by its value."""
    return next((grant for grant in (*_OF_APPLICATIONS, *_OF_ENTITIES) if grant.grant_type == grant_type), None)


def offered_grants(document: Document) -> list[tuple[TrialGrant, bool]]:
    """Return the grants of a client, and whether the client enables each; a disabled one shows how it is refused."""
    if "oauthConfiguration" not in document:
        return [(grant, True) for grant in _OF_ENTITIES]
    enabled = document["oauthConfiguration"]["enabledGrants"]
    grants = (grant for grant in _OF_APPLICATIONS if not grant.is_follow_up)
    return [(grant, grant.grant_type.partition("#")[0] in enabled) for grant in grants]


def credentials_of(document: Document) -> dict[str, str]:
    """Return the credentials of a client, as parameters of a form."""
    oauth = document.get("oauthConfiguration")
    if oauth is None:
        return {"client_id": document["clientId"], "client_secret": document["clientSecret"]}
    secret = oauth.get("clientSecret") if oauth["clientAuthenticationPolicy"] != "NotRequired" else None
    return {"client_id": client_id_of(document), **({"client_secret": secret} if secret else {})}


class TryHandler(ResourceHandler):
    """The page with the button, and with the messages of the login that it started."""

    slug = "applications"
    section = "applications"

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer="text/html")
    async def get(self, call: Call, object_id: str) -> Reply:
        """Show the page; with a response of the login, its messages."""
        document = await self.load(object_id)
        given = {name: value for name in _RESPONSE if (value := self.parameter(name))}
        if "state" not in given:
            return self.try_page(document)
        try:
            trial = await trial_logins.complete(
                self.services, call, object_id, self.administrator.user["id"], self.cookie(LOGIN_COOKIE), given
            )
        except OAuth2Error as error:
            return self.try_page(document, failure=error_body(error))
        return self.try_page(document, trial=trial)

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer={303: None})
    async def post(self, call: Call, object_id: str) -> Reply:
        """Start the login."""
        document = await self.load(object_id)
        if not self.may_verb("update"):
            return self.forbidden()
        scope = self.field("scope").strip() or _SCOPE
        try:
            started = await trial_logins.begin(
                self.services, call, document, self.administrator.user["id"], self.cookie(LOGIN_COOKIE), scope
            )
        except OAuth2Error as error:
            return self.try_page(document, failure=error_body(error))
        cookie = self.new_cookie(LOGIN_COOKIE, started.browser_secret, started.ttl_seconds)
        return dataclasses.replace(self.redirect_to(started.location), cookies=[cookie])

    def try_page(
        self, document: Document, trial: Trial | None = None, failure: Mapping[str, Any] | None = None
    ) -> Reply:
        """Return the page."""
        steps = [] if trial is None else messages(trial)
        return self.object_page(
            "try_it.html",
            document,
            "Try it",
            steps=steps,
            failure=failure,
            scope=_SCOPE,
            grants=offered_grants(document),
            path=f"{self.screen_of(document['id'])}/try/grant",
            refresh_token="" if trial is None else trial.token_response.get("refresh_token", ""),
            device_code="",
            verification_uri="",
        )


class TryGrantHandler(ResourceHandler):
    """A request of the client itself: to the token endpoint, or for a device code. Every message is shown."""

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer="text/html")
    async def get(self, call: Call, object_id: str) -> Reply:
        """Show the forms of an entity; an application has them on the page of the login."""
        return self.grants_page(await self.load(object_id))

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer="text/html")
    async def post(self, call: Call, object_id: str) -> Reply:
        """Send the request as the client, with its credentials."""
        document = await self.load(object_id)
        if not self.may_verb("update"):
            return self.forbidden()
        grant_type = self.field("grant_type")
        grant = find_grant(grant_type)
        if grant is None:
            return self.message_page(400, "The request is not valid", "There is no such grant.")
        values = {each.name: self.field(each.name).strip() for each in grant.inputs}
        form = {"grant_type": grant_type, **{name: value for name, value in values.items() if value}}
        path = grant.path
        if grant.is_start:
            del form["grant_type"]
        form |= {**credentials_of(document), "tenantId": document["tenantId"]}
        response = await internal_requests.post_form(self.application, self.request, path, form)
        return self.grants_page(document, Exchange(path, form, response.status, response.json()))

    def grants_page(self, document: Document, exchange: Exchange | None = None) -> Reply:
        """Return the page."""
        steps = [] if exchange is None else grant_messages(exchange)
        answer = {} if exchange is None else exchange.response
        return self.object_page(
            "try_grant.html",
            document,
            "Try it",
            steps=steps,
            grants=offered_grants(document),
            path=f"{self.screen_of(document['id'])}/{'try' if self.slug == 'entities' else 'try/grant'}",
            refresh_token=answer.get("refresh_token", ""),
            device_code=answer.get("device_code", "") or ("" if exchange is None else exchange.pending_device_code),
            verification_uri=answer.get("verification_uri_complete", ""),
        )


def grant_messages(exchange: Exchange) -> list[tuple[str, str]]:
    """Return the messages of a request with their titles; tokens and secrets are shortened."""
    response = {name: _short(name, value) for name, value in exchange.response.items()}
    claims = {name: claims_of(str(exchange.response.get(name, ""))) for name in ("access_token", "id_token")}
    return [
        ("1. Request, by the client", f"POST {exchange.path}\n{_lines(exchange.form)}"),
        (f"2. Response, status {exchange.status}", _json(response)),
        *((f"Claims of the {name}", _json(each)) for name, each in claims.items() if each),
    ]


def messages(trial: Trial) -> list[tuple[str, str]]:
    """Return the messages of a login with their titles; tokens and codes are shortened."""
    address, _, query = trial.authorization_request.partition("?")
    asked = "\n".join(f"  {name}={value}" for name, value in urllib.parse.parse_qsl(query))
    found = [
        ("1. Authorization request, by the browser", f"GET {address}?\n{asked}"),
        ("2. Authorization response, to the redirect URI", _lines(trial.authorization_response)),
    ]
    if not trial.token_response:
        return found
    response = {name: _short(name, value) for name, value in trial.token_response.items()}
    claims = {name: claims_of(str(trial.token_response.get(name, ""))) for name in ("access_token", "id_token")}
    return [
        *found,
        ("3. Token request, by the application", f"POST /oauth2/token\n{_lines(trial.token_request)}"),
        ("4. Token response", _json(response)),
        *((f"Claims of the {name}", _json(each)) for name, each in claims.items() if each),
        ("5. Userinfo, for the access token", f"GET /oauth2/userinfo\n\n{_json(trial.claims)}"),
    ]


def claims_of(token: str) -> Document:
    """Return the claims of a JWT without verifying it; none of anything else."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        found = orjson.loads(unbase64url(parts[1]))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _lines(parameters: Mapping[str, str]) -> str:
    return "\n".join(f"  {name}={_short(name, value)}" for name, value in parameters.items())


def _short(name: str, value: Any) -> Any:
    """Return a value, or the beginning of a secret one."""
    if name in _CREDENTIALS:
        return "…"
    is_secret = name in _TOKENS and isinstance(value, str)
    return f"{value[:_SHOWN_CHARACTERS]}… ({len(value)} characters)" if is_secret else value


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS).decode()


ROUTES = [
    Route("/admin/applications/{object_id}/try", TryHandler),
    Route(
        "/admin/applications/{object_id}/try/grant",
        TryGrantHandler,
        {"slug": "applications", "section": "applications"},
    ),
    Route("/admin/entities/{object_id}/try", TryGrantHandler, {"slug": "entities", "section": "entities"}),
]
