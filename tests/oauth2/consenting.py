"""Helpers that bring a user of a third party to the consent page and answer it."""

from __future__ import annotations

import re
from typing import Any

import httpx

from tests.relying_party import RelyingParty, page, response

ASKED = "openid email phone"


def choices(shown: httpx.Response) -> dict[str, bool]:
    """The optional scopes of a consent page, and whether each is ticked."""
    found = re.findall(r"<input id=\"scope-\d+\" name=\"scopeConsents\[&#39;(.+?)&#39;\]\"([^>]*)>", shown.text)
    return {name: "checked" in rest for name, rest in found}


def required(shown: httpx.Response) -> set[str]:
    """The required scopes of a consent page."""
    return {name[15:-2] for name in page(shown).forms[0]["fields"] if name.startswith("scopeConsents")}


async def ask(rp: RelyingParty, browser: httpx.AsyncClient, **changes: str | None) -> httpx.Response:
    """The consent page of a request, by the login page or by the session."""
    answer = await rp.authorize(browser, **{"scope": ASKED, **changes})
    if answer.status_code == 200:
        answer = await rp.submit(browser, answer)
    assert answer.status_code == 302, answer.text
    assert answer.headers["Location"].startswith("/oauth2/consent?"), answer.headers["Location"]
    shown = await browser.get(answer.headers["Location"])
    assert shown.status_code == 200, shown.text
    return shown


async def send(
    browser: httpx.AsyncClient, shown: httpx.Response, *approved: str, action: str = "allow", **fields: Any
) -> httpx.Response:
    """Send the form of a consent page with these optional scopes ticked."""
    form = page(shown).forms[0]
    ticked = {f"scopeConsents['{scope}']": "true" for scope in approved}
    filled = {**form["fields"], **ticked, "action": action, **fields}
    return await browser.post(form["action"], data={name: text for name, text in filled.items() if text is not None})


async def agree(rp: RelyingParty, browser: httpx.AsyncClient, *approved: str, **changes: str | None) -> dict[str, str]:
    """The response after an answer."""
    return response(await send(browser, await ask(rp, browser, **changes), *approved))
