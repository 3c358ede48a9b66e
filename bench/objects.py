"""The objects of the scenarios, created through the API and the login page."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html
import re
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from bench.instance import API_KEY, TENANT_ID
from bench.wrk import Request

REDIRECT_URI = "https://client.example.com/callback"
PASSWORD = "a password of the benchmarks"
VERIFIER = "a-code-verifier-of-the-benchmarks-0123456789-abc"
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
API = {"Authorization": API_KEY, "X-FusionAuth-TenantId": TENANT_ID}

PEOPLE = 48
_ES256_KEY = "e5256000-0000-4000-8000-000000000001"
_CHEAP = {"encryptionScheme": "salted-hmac-sha256", "factor": 1}
_POPULATE = "function populate(jwt, user, registration) { jwt.name = user.email; jwt.flags = ['a', 'b']; }"
_HIDDEN = re.compile(r'<input type="hidden" name="([^"]*)" value="([^"]*)">')


@dataclasses.dataclass(frozen=True, slots=True)
class Client:
    """An application as a client: its id, and the header with which it authenticates."""

    client_id: str
    authorization: str

    def request(self, scope: str) -> str:
        """The query of an authorization request."""
        return urllib.parse.urlencode(
            {
                "client_id": self.client_id,
                "redirect_uri": REDIRECT_URI,
                "response_type": "code",
                "scope": scope,
                "state": "a-state",
                "code_challenge": CHALLENGE,
                "code_challenge_method": "S256",
            }
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Person:
    """A user who has logged in: the session's cookie and an access token."""

    cookie: str
    access_token: str


@dataclasses.dataclass(frozen=True, slots=True)
class Entity:
    """An entity as a client: the header with which it authenticates, and the scope that it asks for."""

    authorization: str
    scope: str


@dataclasses.dataclass(frozen=True, slots=True)
class Objects:
    """Clients by name, entities by the algorithm of their tokens, and people with a session."""

    clients: Mapping[str, Client]
    people: Sequence[Person]
    entities: Mapping[str, Entity]


CODE_FORM = urllib.parse.urlencode(
    {"grant_type": "authorization_code", "redirect_uri": REDIRECT_URI, "code_verifier": VERIFIER}
)


async def prepare(url: str) -> Objects:
    """Create keys, applications and users, and log the users in."""
    async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as http:
        await _post(http, f"/api/key/generate/{_ES256_KEY}", {"key": {"name": "ES256", "algorithm": "ES256"}})
        clients = {
            "RS256": await _client(http, "RS256", {}),
            "ES256": await _client(http, "ES256", {"accessTokenKeyId": _ES256_KEY, "idTokenKeyId": _ES256_KEY}),
            "one-time": await _client(http, "one-time", {"refreshTokenUsagePolicy": "OneTimeUse"}),
            "lambda": await _client(http, "lambda", {"accessTokenKeyId": _ES256_KEY}, await _lambda_id(http)),
        }
        names = [f"user-{index}@example.com" for index in range(PEOPLE)]
        for name in names:
            await create_user(http, name, _CHEAP)
        people = [await _person(http, clients["RS256"], name) for name in names]
        entities = {
            "RS256": await _entity(http, "RS256", {}),
            "ES256": await _entity(http, "ES256", {"enabled": True, "accessTokenKeyId": _ES256_KEY}),
        }
    return Objects(clients, people, entities)


async def create_user(http: httpx.AsyncClient, email: str, password: Mapping[str, Any]) -> None:
    """Create a user whose password is hashed with the given scheme."""
    await _post(http, "/api/user", {"user": {"email": email, "password": PASSWORD, **password}})


async def login_requests(url: str, client: Client, names: Sequence[str]) -> list[Request]:
    """The login form requests of these users, each from a separate browser."""
    requests = []
    for name in names:
        async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as http:
            page = await http.get(f"/oauth2/authorize?{client.request('openid')}")
            fields = {**_hidden(page), "loginId": name, "password": PASSWORD}
            cookie = "; ".join(f"{key}={value}" for key, value in http.cookies.items())
        requests.append(Request({**FORM, **({"Cookie": cookie} if cookie else {})}, urllib.parse.urlencode(fields)))
    return requests


async def refresh_tokens(url: str, client: Client, people: Sequence[Person]) -> list[str]:
    """A refresh token for each of these people, without openid: each use of one issues one token."""
    async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as http:
        answers = [await _tokens(http, client, person.cookie, "offline_access") for person in people]
    return [str(answer["refresh_token"]) for answer in answers]


async def _lambda_id(http: httpx.AsyncClient) -> str:
    """A typical lambda, which adds a few claims."""
    wanted = {"name": "Benchmark", "type": "JWTPopulate", "body": _POPULATE}
    return str((await _post(http, "/api/lambda", {"lambda": wanted}))["lambda"]["id"])


async def _client(http: httpx.AsyncClient, name: str, jwt: Mapping[str, Any], populate_id: str | None = None) -> Client:
    wanted = {
        "lambdaConfiguration": {} if populate_id is None else {"accessTokenPopulateId": populate_id},
        "name": f"Benchmark {name}",
        "jwtConfiguration": {"enabled": True, **jwt} if jwt else {},
        "oauthConfiguration": {"authorizedRedirectURLs": [REDIRECT_URI], "proofKeyForCodeExchangePolicy": "Required"},
    }
    made = (await _post(http, "/api/application", {"application": wanted}))["application"]
    credentials = f"{made['id']}:{made['oauthConfiguration']['clientSecret']}"
    return Client(made["id"], "Basic " + base64.b64encode(credentials.encode()).decode())


async def _entity(http: httpx.AsyncClient, name: str, jwt: Mapping[str, Any]) -> Entity:
    """An entity with two permissions on another one, of which it requests one."""
    jwt_configuration = {**jwt, "timeToLiveInSeconds": 3600} if jwt else {}
    permissions = [{"name": "read"}, {"name": "write"}]
    wanted = {"name": f"Benchmark {name}", "jwtConfiguration": jwt_configuration, "permissions": permissions}
    kind = (await _post(http, "/api/entity/type", {"entityType": wanted}))["entityType"]
    own = {"name": f"Benchmark {name}", "type": {"id": kind["id"]}}
    caller, target = [(await _post(http, "/api/entity", {"entity": own}))["entity"] for _ in range(2)]
    grant = {"grant": {"recipientEntityId": caller["id"], "permissions": ["read", "write"]}}
    granted = await http.post(f"/api/entity/{target['id']}/grant", json=grant, headers=API)
    if granted.status_code != 200:
        raise RuntimeError(f"the grant on {target['id']} failed with {granted.status_code}: {granted.text[:1000]}")
    credentials = f"{caller['clientId']}:{caller['clientSecret']}"
    basic = "Basic " + base64.b64encode(credentials.encode()).decode()
    return Entity(basic, f"target-entity:{target['id']}:read")


async def _person(http: httpx.AsyncClient, client: Client, name: str) -> Person:
    http.cookies.clear()
    page = await http.get(f"/oauth2/authorize?{client.request('openid offline_access')}")
    fields = {**_hidden(page), "loginId": name, "password": PASSWORD}
    answer = await http.post("/oauth2/authorize", data=fields)
    if answer.status_code != 302:
        raise RuntimeError(f"the login of {name} failed with {answer.status_code}: {answer.text[:2000]}")
    cookie = f"fusionauth.sso={http.cookies['fusionauth.sso']}"
    http.cookies.clear()
    tokens = await _exchanged(http, client, answer)
    return Person(cookie, tokens["access_token"])


async def _tokens(http: httpx.AsyncClient, client: Client, cookie: str, scope: str) -> dict[str, Any]:
    answer = await http.get(f"/oauth2/authorize?{client.request(scope)}", headers={"Cookie": cookie})
    http.cookies.clear()
    return await _exchanged(http, client, answer)


async def _exchanged(http: httpx.AsyncClient, client: Client, answer: httpx.Response) -> dict[str, Any]:
    place = urllib.parse.urlsplit(answer.headers.get("Location", ""))
    code = urllib.parse.parse_qs(place.query).get("code", [""])[0]
    headers = {**FORM, "Authorization": client.authorization}
    exchanged = await http.post("/oauth2/token", content=f"{CODE_FORM}&code={code}", headers=headers)
    return _checked(exchanged)


async def _post(http: httpx.AsyncClient, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    return _checked(await http.post(path, json=body, headers=API))


def _checked(answer: httpx.Response) -> dict[str, Any]:
    if answer.status_code != 200:
        raise RuntimeError(f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text[:1000]}")
    content: dict[str, Any] = answer.json()
    return content


def _hidden(page: httpx.Response) -> dict[str, str]:
    return {html.unescape(name): html.unescape(value) for name, value in _HIDDEN.findall(page.text)}
