"""The registration page: people register themselves and go on with the request that brought them."""

from __future__ import annotations

import httpx

from identity.ids import new_id
from tests.relying_party import PASSWORD, RelyingParty, claims, page, response


async def offer(rp: RelyingParty, **settings) -> None:
    """Switch registration on."""
    configuration = {"registrationConfiguration": {"enabled": True, **settings}}
    await rp.patch(f"/api/application/{rp.client_id}", {"application": configuration})


async def open_page(rp: RelyingParty, browser: httpx.AsyncClient, **changes) -> httpx.Response:
    shown = await browser.get("/oauth2/register", params=rp.query(**changes))
    assert shown.status_code == 200, shown.text
    return shown


async def send(browser: httpx.AsyncClient, shown: httpx.Response, **answers: str) -> httpx.Response:
    """Send the form of a page; `email` stands for `user.email`."""
    form = page(shown).forms[0]
    named = {name if name in {"passwordConfirm", "csrf_token", "rememberDevice"} else f"user.{name}": value
             for name, value in answers.items()}  # fmt: skip
    return await browser.post(form["action"], data={**form["fields"], **named})


async def found(rp: RelyingParty, **query: str) -> dict | None:
    """The user, as the API shows it."""
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    answer = await rp.api.get("/api/user", params=query, headers=headers)
    return answer.json()["user"] if answer.status_code == 200 else None


def an_email() -> str:
    return f"{new_id()}@example.com"


async def test_who_registers_is_logged_in_and_the_application_gets_tokens(rp, browser):
    await offer(rp, firstName={"enabled": True})
    email = an_email()
    shown = await open_page(rp, browser)
    answer = await send(browser, shown, email=email, password=PASSWORD, firstName="Grace")
    got = response(answer)
    assert got["state"] == "the-state"
    assert got["userState"] == "Authenticated"
    tokens = (await rp.exchange(browser, got["code"])).json()
    user = await found(rp, email=email)
    assert user is not None
    assert claims(tokens["access_token"])["sub"] == user["id"]
    assert claims(tokens["access_token"])["authenticationType"] == "REGISTRATION"
    assert user["firstName"] == "Grace"
    assert [one["applicationId"] for one in user["registrations"]] == [rp.client_id]
    assert "encryptionScheme" not in shown.text
    again = await rp.authorize(browser)
    assert response(again)["state"] == "the-state"
