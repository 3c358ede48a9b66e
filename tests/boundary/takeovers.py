"""The takeover recipes: what an attacker tries after it has prepared a privileged tenant.

Each recipe uses only what the attacker has: its servers, its account, and the answers of its calls. Whether it worked
shows in the state of the administrators, in the attacker's mailbox, and in the console that its browser opens.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import re
import urllib.parse
from collections.abc import Awaitable, Callable
from typing import Any, Final

import httpx

from identity.app import ADMINISTRATOR_APPLICATION_ID as CONSOLE
from identity.ids import new_id
from identity.operations.sessions import sso_sessions
from tests import internals
from tests.boundary import victims
from tests.boundary.world import PASSWORD, REDIRECT_URI, World, log_in
from tests.conftest import DEFAULT_TENANT, MANAGER_KEY, SUPER_KEY
from tests.console import administrator
from tests.console.administrator import Browser, Page

Document = dict[str, Any]

_STOLEN_PASSWORDS: Final = ("another password of the thief", "anything")
_BACKGROUND_SECONDS: Final = 5
_SECRET: Final = re.compile(r"[A-Za-z0-9_\-.]{24,2000}")
_MAXIMUM_TRIED: Final = 6
_SESSIONS: Final = {sso_sessions.COOKIE, f"__Host-{sso_sessions.COOKIE}"}


@dataclasses.dataclass
class Attempt:
    """The recipes after one sequence; `loot` is the text of all answers of its calls."""

    world: World
    http: httpx.AsyncClient
    """A browser of the attacker, without credentials."""
    loot: str
    problems: list[str] = dataclasses.field(default_factory=list)

    @property
    def admin(self) -> Document:
        """The administrator that the recipes aim at."""
        return self.world.victims.admin

    async def run(self) -> list[str]:
        """Try every recipe; return what worked."""
        for recipe in RECIPES:
            self.http.cookies.clear()
            await recipe(self)
        self.http.cookies.clear()
        return self.problems

    async def enters(self) -> bool:
        """Return whether the browser, if it has any session, opens the console without credentials."""
        if not self.http.cookies.keys() & _SESSIONS:
            return False
        shown = await Browser(self.http).open(administrator.QUIET)
        return shown.status_code == 200 and shown.url.path == administrator.QUIET

    async def require_outside(self, recipe: str) -> None:
        """Record a recipe after which the browser opens the console."""
        if await self.enters():
            self.problems.append(f"{recipe}: opens the console")


async def mails(attempt: Attempt) -> None:
    """Request the mails that let a person in; none may go to the mail server of the tenant."""
    world, email = attempt.world, attempt.admin["email"]
    count = len(world.console_box.mails)
    login = {"loginId": email, "applicationId": world.rp.client_id}
    asked = [
        *[await _request_reset(attempt, client_id) for client_id in (world.rp.client_id, CONSOLE)],
        (await attempt.http.post("/api/user/forgot-password", json=login)).status_code == 200,
        (await attempt.http.post("/api/passwordless/send", json=login)).status_code == 200,
    ]
    await _wait_for(lambda: len(world.console_box.mails) - count >= sum(asked) or _misled(world))
    if stolen := _misled(world):
        attempt.problems.append(f"mails: the tenant's server received a mail to {stolen}")


async def _request_reset(attempt: Attempt, client_id: str) -> bool:
    """Request a reset at the page of an application; return whether it accepts the request."""
    query = {"client_id": client_id, "tenantId": DEFAULT_TENANT}
    shown = await attempt.http.get("/password/forgot", params=query)
    form = next((form for form in Page(shown).forms if "loginId" in form["fields"]), None)
    if form is None:
        return False
    data = {**form["fields"], "loginId": attempt.admin["email"]}
    answer = await attempt.http.post(
        urllib.parse.urljoin(str(shown.url), form["action"] or "/password/forgot"), data=data
    )
    return answer.status_code == 302


def _misled(world: World) -> set[str]:
    found = {address for mail in world.attacker.mailbox.mails for address in mail.recipients}
    return found & world.victims.addresses


async def _wait_for(condition: Callable[[], Any]) -> None:
    """Wait for a condition; it may never hold, because a sequence can limit the mails of the tenant."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_BACKGROUND_SECONDS):
            while not condition():
                await asyncio.sleep(0.005)


async def seen_secrets(attempt: Attempt) -> None:
    """Look for secrets of administrators in what the attacker saw."""
    text = attempt.loot + attempt.world.attacker.seen()
    secrets = await secrets_of(attempt.world)
    attempt.problems.extend(f"the attacker saw {name}" for name, value in secrets.items() if value in text)


async def secrets_of(world: World) -> dict[str, str]:
    """Return the secrets of the administrators by what they are, those in their mails included."""
    administrators = world.victims
    found = {"a key": SUPER_KEY, "the key of a key manager": MANAGER_KEY, "a password": victims.PASSWORD,
             "a session": administrators.session_secret, "a refresh token": administrators.token}  # fmt: skip
    users = internals.store(world.service, "users")
    for role in ("admin", "by group"):
        user = await users.find(DEFAULT_TENANT, world.victims.users[role]["id"])
        if user is None:
            continue
        found[f"password hash of {role}"] = user["private"]["password"]["hash"]
        found |= {
            f"secret of {role}": method["secret"] for method in user["twoFactor"]["methods"] if "secret" in method
        }
        found |= {f"recovery code of {role}": code for code in user["twoFactor"]["recoveryCodes"]}
    for mail in world.console_box.mails[-4:]:
        links = re.findall(r"/(?:password/change|oauth2/passwordless)/([\w-]+)", mail.part("plain"))
        found |= {f"id of a mail: {link}": link for link in links}
    return found


async def stolen_ids(attempt: Attempt) -> None:
    """Use whatever looks like a secret in the answers as each kind of id."""
    for value in list(dict.fromkeys(_SECRET.findall(attempt.loot)))[-_MAXIMUM_TRIED:]:
        if value.count(".") == 2:
            bearer = {"Authorization": f"Bearer {value}"}
            change = {"currentPassword": PASSWORD, "password": _STOLEN_PASSWORDS[0]}
            await attempt.http.post("/api/user/change-password", json=change, headers=bearer)
            query = attempt.world.rp.query()
            await attempt.http.get("/oauth2/authorize", params=query, headers=bearer)
            await attempt.require_outside("token of an answer")
        elif "-" not in value or len(value) > 36:
            await attempt.http.post("/api/user/change-password", json={"changePasswordId": value, "password": "x" * 12})
            await attempt.http.post("/api/passwordless/login", json={"code": value})


async def passwords(attempt: Attempt) -> None:
    """Log in as the administrator with passwords of the attacker; a connector accepts each of them."""
    world, user = attempt.world, attempt.admin
    world.attacker.asserted = {"id": user["id"], "email": user["email"], "verified": True,
                               "registrations": [{"applicationId": CONSOLE, "roles": ["admin"]}]}  # fmt: skip
    for application_id in (world.rp.client_id, CONSOLE):
        body = {"loginId": user["email"], "password": _STOLEN_PASSWORDS[1], "applicationId": application_id}
        answer = await attempt.http.post("/api/login", json=body)
        if answer.status_code in {200, 202} and _is_victim(world, answer):
            attempt.problems.append(f"passwords: a wrong password logs in to {application_id}")
    shown = await Browser(attempt.http).open(administrator.QUIET)
    form = next((form for form in Page(shown).forms if "password" in form["fields"]), None)
    if form is None:
        attempt.problems.append("passwords: the console shows no login page")
        return
    if "thief" in shown.text:
        attempt.problems.append("passwords: the login page of the console has the theme of the tenant")
    data = {**form["fields"], "loginId": user["email"], "password": _STOLEN_PASSWORDS[0]}
    answer = await attempt.http.post(urllib.parse.urljoin(str(shown.url), form["action"]), data=data)
    await Browser(attempt.http).follow(answer)
    await attempt.require_outside("passwords")


def _is_victim(world: World, answer: httpx.Response) -> bool:
    return bool(answer.content) and answer.json().get("user", {}).get("id") in world.victims.ids


async def provider(attempt: Attempt) -> None:
    """Log in through the attacker's provider, which asserts the administrator's address."""
    world, user = attempt.world, attempt.admin
    world.attacker.provider.userinfo = {"sub": "linked", "email": user["email"], "email_verified": True}
    for application_id in (world.rp.client_id, CONSOLE):
        login = {"applicationId": application_id, "identityProviderId": world.planted["identityProviderId"],
                 "data": {"code": "the-code", "redirect_uri": REDIRECT_URI}}  # fmt: skip
        answer = await attempt.http.post("/api/identity-provider/login", json=login)
        if answer.status_code in {200, 202} and _is_victim(world, answer):
            attempt.problems.append(f"provider: logs in to {application_id}")
    left = await world.rp.authorize(attempt.http, idp_hint=world.planted["identityProviderId"])
    if left.is_redirect and "state=" in left.headers["Location"]:
        state = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(left.headers["Location"]).query)).get("state", "")
        back = await attempt.http.get("/oauth2/callback", params={"code": "the-code", "state": state})
        if (
            back.is_redirect
            and back.headers["Location"].startswith(REDIRECT_URI)
            and "code=" in back.headers["Location"]
        ):
            attempt.problems.append("provider: logs in at the page")
    await attempt.require_outside("provider")


async def forged_token(attempt: Attempt) -> None:
    """Use a token that the signing key of the tenant signed, as whoever imported the key can."""
    world, user = attempt.world, attempt.admin
    service, tenants = world.service, internals.store(world.service, "tenants")
    tenant = await tenants.get(None, DEFAULT_TENANT)
    now = internals.now(service) // 1000
    client_id = world.rp.client_id
    claims = {"sub": user["id"], "aud": client_id, "iss": tenant["issuer"], "iat": now, "exp": now + 600,
              "auth_time": now, "authenticationType": "PASSWORD", "applicationId": client_id, "tid": DEFAULT_TENANT,
              "jti": new_id(), "tty": "at", "scope": "openid", "roles": ["admin"]}  # fmt: skip
    issuer = internals.store(service, "issuer")
    key_id = tenant["jwtConfiguration"]["accessTokenKeyId"]
    bearer = {"Authorization": f"Bearer {await issuer.sign(key_id, claims, tenant)}"}
    change = {"currentPassword": PASSWORD, "password": _STOLEN_PASSWORDS[0]}
    await attempt.http.post("/api/user/change-password", json=change, headers=bearer)
    await attempt.http.get("/oauth2/authorize", params=world.rp.query(), headers=bearer)
    await attempt.require_outside("forged token")


async def session_of_another_application(attempt: Attempt) -> None:
    """Take over the session that an administrator has at an application of the tenant."""
    await log_in(attempt.world, attempt.http, attempt.admin["email"], password=victims.PASSWORD)
    await attempt.require_outside("session of another application")


async def second_factor(attempt: Attempt) -> None:
    """Log in to the console with the password of an administrator who has a second factor."""
    user = attempt.world.victims.users["by group"]
    shown = await Browser(attempt.http).open(administrator.QUIET)
    form = next((form for form in Page(shown).forms if "password" in form["fields"]), None)
    if form is not None:
        data = {**form["fields"], "loginId": user["email"], "password": victims.PASSWORD}
        answer = await attempt.http.post(urllib.parse.urljoin(str(shown.url), form["action"]), data=data)
        await Browser(attempt.http).follow(answer)
    await attempt.require_outside("second factor")


RECIPES: Final[list[Callable[[Attempt], Awaitable[None]]]] = [
    mails, seen_secrets, stolen_ids, passwords, provider, forged_token,
]  # fmt: skip
OF_STOLEN_CREDENTIALS: Final[list[Callable[[Attempt], Awaitable[None]]]] = [
    session_of_another_application, second_factor,
]  # fmt: skip
"""Recipes that use the password of an administrator: they change what administrators hold, and run last."""
