"""What callers without an API key do: logins that their servers decide, and the pages of the tenant.

A connector and an identity provider assert an administrator; a registered client leads a person through its flows; each
may fill in the pages, as anybody may.
"""

from __future__ import annotations

import random
import urllib.parse
from collections.abc import Awaitable, Callable
from typing import Any, Final

import httpx

from identity.app import ADMINISTRATOR_APPLICATION_ID as CONSOLE
from identity.ids import new_id
from tests.boundary import forms
from tests.boundary.callers import Caller
from tests.boundary.world import DEFAULT_TENANT, PASSWORD, REDIRECT_URI, World, log_in
from tests.console.administrator import Page
from tests.fuzz.known_values import KnownValues

Document = dict[str, Any]

Flow = Callable[[Caller, World, KnownValues, random.Random], Awaitable[httpx.Response]]

_PAGES: Final = (
    "/oauth2/register", "/oauth2/authorize", "/password/forgot", "/account/edit", "/account/password",
    "/account/two-factor/enable", "/account/phone", "/account/passkeys/add", "/account/sessions", "/account/data",
)  # fmt: skip


def asserted(world: World, rng: random.Random) -> Document:
    """Return claims about a person: an administrator, the attacker's own, or a stranger, with roles of the console."""
    victim = world.victims.users[rng.choice(sorted(world.victims.users))]
    email = rng.choice(
        [victim["email"], victim["email"].upper(), world.attacker.person["email"], f"{new_id()}@example.com"]
    )
    found: Document = {"email": email, "email_verified": rng.choice([True, "true", False]), "username": email}
    if rng.random() < 0.5:
        found["id"] = rng.choice([victim["id"], world.attacker.person["id"], new_id()])
    if rng.random() < 0.5:
        application_id = rng.choice([CONSOLE, world.rp.client_id])
        found["registrations"] = [{"applicationId": application_id, "roles": [rng.choice(["admin", "staff"])]}]
    if rng.random() < 0.3:
        found["memberships"] = [{"groupId": world.planted["groupId"]}]
    return found


async def connector_login(caller: Caller, world: World, known: KnownValues, rng: random.Random) -> httpx.Response:
    """Log in at an application; the connector accepts every password for whom it likes."""
    del known
    policies = [{"connectorId": world.planted["connectorId"], "domains": ["*"], "migrate": rng.random() < 0.5}]
    await world.make(f"/api/tenant/{DEFAULT_TENANT}", {"tenant": {"connectorPolicies": policies}}, "PATCH")
    world.attacker.asserted = asserted(world, rng)
    login_id = rng.choice([world.attacker.asserted["email"], f"{new_id()}@example.com"])
    login = {
        "loginId": login_id,
        "password": "anything",
        "applicationId": rng.choice([CONSOLE, *[world.rp.client_id] * 4]),
    }
    return await caller.http.post("/api/login", json=login)


async def provider_login(caller: Caller, world: World, known: KnownValues, rng: random.Random) -> httpx.Response:
    """Log in through the provider by the API."""
    del known
    provider = world.attacker.provider
    provider.userinfo = {"sub": rng.choice(["linked", new_id()]), **asserted(world, rng)}
    login = {"applicationId": rng.choice([CONSOLE, *[world.rp.client_id] * 4]),
             "identityProviderId": world.planted["identityProviderId"],
             "data": {"code": "the-code", "redirect_uri": REDIRECT_URI}}  # fmt: skip
    return await caller.http.post("/api/identity-provider/login", json=login)


async def provider_page(caller: Caller, world: World, known: KnownValues, rng: random.Random) -> httpx.Response:
    """Log in through the provider at the login page."""
    del known
    world.attacker.provider.userinfo = {"sub": rng.choice(["linked", new_id()]), **asserted(world, rng)}
    caller.http.cookies.clear()
    left = await world.rp.authorize(caller.http, idp_hint=world.planted["identityProviderId"])
    location = left.headers.get("Location", "")
    state = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(location).query)).get("state", "")
    return await caller.http.get("/oauth2/callback", params={"code": "the-code", "state": state})


async def person_login(caller: Caller, world: World, known: KnownValues, rng: random.Random) -> httpx.Response:
    """Log in as the attacker's person at a client, by the API."""
    del known
    client_id = rng.choice([world.rp.client_id, CONSOLE, caller.credentials.get("client_id", world.rp.client_id)])
    login = {"loginId": world.attacker.person["email"], "password": PASSWORD, "applicationId": client_id}
    return await caller.anonymous.post("/api/login", json=login)


async def code_flow(caller: Caller, world: World, known: KnownValues, rng: random.Random) -> httpx.Response:
    """Log in as the attacker's person at the page of a client, and redeem the code."""
    del known
    caller.anonymous.cookies.clear()
    client_id = caller.credentials.get("client_id", world.rp.client_id)
    scope = rng.choice(["openid", "openid offline_access", "openid profile email"])
    answer = await log_in(world, caller.anonymous, world.attacker.person["email"], client_id=client_id, scope=scope)
    parsed = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(answer.headers.get("Location", "")).query))
    if "code" not in parsed:
        return answer
    secret = caller.credentials.get("client_secret", world.rp.secret)
    form = {"grant_type": "authorization_code", "code": parsed["code"], "redirect_uri": REDIRECT_URI,
            "client_id": client_id, "client_secret": secret}  # fmt: skip
    return await caller.anonymous.post("/oauth2/token", data=form)


async def registration(caller: Caller, world: World, known: KnownValues, rng: random.Random) -> httpx.Response:
    """Read or replace the registration of the client."""
    del world, known
    own = caller.credentials
    path = f"/{DEFAULT_TENANT}/oauth2/register-client/{own['client_id']}"
    bearer = {"Authorization": f"Bearer {own['registration_access_token']}"}
    read = await caller.anonymous.get(path, headers=bearer)
    if rng.random() < 0.3 or not read.is_success:
        return read
    uris = [REDIRECT_URI, f"https://{new_id()}.thief.example.com/callback"]
    changes = {"redirect_uris": uris, "scope": rng.choice(["openid", "openid offline_access"]), "client_name": new_id()}
    dropped = (
        "registration_access_token",
        "registration_client_uri",
        "client_secret_expires_at",
        "client_id_issued_at",
    )
    body = {name: value for name, value in {**read.json(), **changes}.items() if name not in dropped}
    return await caller.anonymous.put(path, json=body, headers=bearer)


async def client_call(caller: Caller, world: World, known: KnownValues, rng: random.Random) -> httpx.Response:
    """Make a call of the client itself: pushed or device authorization, introspection, exchange, userinfo."""
    own = {name: caller.credentials[name] for name in ("client_id", "client_secret")}
    token = caller.http.headers["Authorization"].removeprefix("Bearer ")
    exchange = {"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": token,
                "subject_token_type": "urn:ietf:params:oauth:token-type:access_token", "audience": CONSOLE}  # fmt: skip
    calls: list[tuple[str, Document]] = [
        ("/oauth2/par", {"response_type": "code", "redirect_uri": REDIRECT_URI, "scope": "openid",
                         "login_hint": world.victims.admin["email"]}),
        ("/oauth2/introspect", {"token": token}),
        ("/oauth2/token", exchange),
        ("/oauth2/revoke", {"token": rng.choice([token, *known.of("refresh_token")])}),
        ("/oauth2/device_authorize", {"scope": "openid"}),
    ]  # fmt: skip
    if rng.random() < 0.3:
        return await caller.http.get("/oauth2/userinfo")
    path, form = rng.choice(calls)
    return await caller.anonymous.post(path, data={**form, **own})


async def page(caller: Caller, world: World, known: KnownValues, rng: random.Random) -> httpx.Response:
    """Fill in a page of the tenant as the attacker's person, or as nobody."""
    browser = caller.anonymous
    browser.cookies.clear()
    path = rng.choice(_PAGES)
    if path.startswith("/account"):
        await log_in(world, browser, world.attacker.person["email"])
    query = {**world.rp.query(), "client_id": rng.choice([world.rp.client_id, CONSOLE]), "tenantId": DEFAULT_TENANT}
    shown = await browser.get(path, params=query)
    found = [form for form in Page(shown).forms if form["method"].lower() == "post"]
    if not found:
        return shown
    form = rng.choice(found)
    attack = {"loginId": world.victims.admin["email"], "user.email": world.victims.admin["email"],
              "email": world.victims.admin["email"], "password": PASSWORD, "passwordConfirm": PASSWORD,
              "user.password": PASSWORD, "currentPassword": PASSWORD}  # fmt: skip
    data = {name: attack.get(name, forms.changed(name, value, known, rng)) for name, value in form["fields"].items()}
    return await browser.post(urllib.parse.urljoin(str(shown.url), form["action"] or str(shown.url)), data=data)


OF_CALLERS: Final[dict[str, list[Flow]]] = {
    "connector": [connector_login] * 4 + [person_login, page],
    "identity provider": [provider_login] * 2 + [provider_page] * 2 + [page],
    "registered client": [registration, client_call, code_flow, client_call, person_login, page],
}
"""The flows of each caller without an API key."""
