"""Pushed authorization requests (RFC 9126): what may be pushed, and what becomes of the name that it gets."""

from __future__ import annotations

import re

from tests import relying_party
from tests.relying_party import PKCE, VERIFIER, response

URN = re.compile(r"urn:ietf:params:oauth:request_uri:[A-Za-z0-9_-]{43}")


async def pushed(rp, http, **changes) -> str:
    """The request_uri of a request that the client pushed."""
    form = {**rp.query(**changes), "client_secret": rp.secret}
    answer = await http.post("/oauth2/par", data=form)
    assert answer.status_code == 201, answer.text
    return answer.json()["request_uri"]


async def opened(rp, browser, uri, **more):
    """What the browser gets that is sent with a request_uri, after the one redirect to the login page."""
    answer = await browser.get("/oauth2/authorize", params={"client_id": rp.client_id, "request_uri": uri, **more})
    if answer.status_code == 302 and answer.headers["Location"].startswith("/"):
        return await browser.get(answer.headers["Location"])
    return answer


def refused(answer, status: int, error: str, reason: str | None) -> None:
    assert answer.status_code == status, answer.text
    assert (answer.json()["error"], answer.json().get("error_reason")) == (error, reason)
    assert answer.headers["Cache-Control"] == "no-store"


def unusable(answer) -> None:
    """The error page that tells nothing of a request_uri but that it cannot be used."""
    assert answer.status_code == 400
    assert "invalid_request_uri" in answer.text
    assert "Location" not in answer.headers


async def test_pushed_request_leads_to_a_code_and_the_code_to_tokens(rp, browser, http):
    answer = await http.post("/oauth2/par", data={**rp.query(nonce="n-1", **PKCE), "client_secret": rp.secret})
    assert answer.status_code == 201
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Pragma"] == "no-cache"
    assert answer.json().keys() == {"expires_in", "request_uri"}
    assert answer.json()["expires_in"] == 60
    assert URN.fullmatch(answer.json()["request_uri"])
    shown = await opened(rp, browser, answer.json()["request_uri"])
    given = response(await rp.submit(browser, shown))
    assert given["state"] == "the-state"
    tokens = (await rp.exchange(http, given["code"], code_verifier=VERIFIER)).json()
    assert relying_party.claims(tokens["id_token"])["nonce"] == "n-1"
    assert tokens["scope"] == "openid offline_access"


async def test_nothing_beside_client_id_and_request_uri_counts(rp, browser, http):
    uri = await pushed(rp, http, scope="openid")
    evil = {"redirect_uri": "https://evil.example.com/cb", "scope": "openid offline_access", "state": "theirs"}
    shown = await opened(rp, browser, uri, **evil)
    given = response(await rp.submit(browser, shown, **evil))
    assert given["state"] == "the-state"
    assert (await rp.exchange(http, given["code"])).json()["scope"] == "openid"


async def test_login_form_carries_the_name_of_the_request_and_nothing_of_it(rp, browser, http):
    shown = await opened(rp, browser, await pushed(rp, http))
    form = relying_party.page(shown).forms[0]
    assert form["fields"].keys() == {"client_id", "request_uri", "csrf_token", "loginId", "password"}
    assert "the-state" not in shown.text
