"""What tests of the registration pages do: switch registration on, open the page, send its form."""

from __future__ import annotations

from typing import Any

import httpx

from identity.ids import new_id
from tests.relying_party import RelyingParty, page

_PLAIN = frozenset({"csrf_token", "passwordConfirm", "rememberDevice", "intent", "redirect_uri", "client_id"})


async def offer(rp: RelyingParty, **settings: Any) -> None:
    """Let people register themselves."""
    configuration = {"registrationConfiguration": {"enabled": True, **settings}}
    await rp.patch(f"/api/application/{rp.client_id}", {"application": configuration})


async def open_page(rp: RelyingParty, browser: httpx.AsyncClient, **changes: str | None) -> httpx.Response:
    """The registration page."""
    shown = await browser.get("/oauth2/register", params=rp.query(**changes))
    assert shown.status_code == 200, shown.text
    return shown


async def send(browser: httpx.AsyncClient, shown: httpx.Response, **answers: str) -> httpx.Response:
    """Send the form of a page; `email` stands for `user.email`."""
    form = page(shown).forms[0]
    named = {name if name in _PLAIN else f"user.{name}": value for name, value in answers.items()}
    return await browser.post(form["action"], data={**form["fields"], **named})


async def found(rp: RelyingParty, **query: str) -> dict[str, Any] | None:
    """The user whom a query names, as the API shows it."""
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    answer = await rp.api.get("/api/user", params=query, headers=headers)
    return dict(answer.json()["user"]) if answer.status_code == 200 else None


def an_email() -> str:
    """An unused address."""
    return f"{new_id()}@example.com"


async def press(browser: httpx.AsyncClient, shown: httpx.Response, number: int = 0, **answers: str) -> httpx.Response:
    """Submit a form of a page, by default the first one, with the names of its fields."""
    form = page(shown).forms[number]
    return await browser.post(form["action"], data={**form["fields"], **answers})


def alike(answer: httpx.Response) -> tuple[object, ...]:
    """Return what must not differ between responses."""
    changing = {"date", "set-cookie", "x-request-id"}
    headers = {name: value for name, value in answer.headers.items() if name not in changing}
    cookies = sorted(line.partition("=")[0] for line in answer.headers.get_list("Set-Cookie"))
    return answer.status_code, headers, cookies, answer.text
