"""State kept for anonymous callers is small and limited per address."""

from __future__ import annotations

import pytest

from identity.operations.limits import anonymous_request_limits
from tests.client_signer import new_key, public
from tests.oauth2.test_request_objects import request
from tests.relying_party import PKCE, response

KEY = new_key()


@pytest.fixture
def two_each(monkeypatch):
    """Two for each address, which all tests share: the counters of a new tenant are at nothing."""
    monkeypatch.setattr(anonymous_request_limits, "ADDRESS_REQUESTS", 2)


@pytest.mark.requirement("oauth-12-12")
async def test_pushed_requests_of_public_clients_are_limited(rp, http, two_each):
    await rp.configure(clientAuthenticationPolicy="NotRequiredWhenUsingPKCE")
    form = rp.query(**PKCE)
    large = await http.post("/oauth2/par", data={**form, "state": "s" * anonymous_request_limits.MAXIMUM_BYTES})
    assert (large.status_code, large.json()["error"]) == (400, "invalid_request")
    assert "8192 bytes" in large.json()["error_description"]
    assert [(await http.post("/oauth2/par", data=form)).status_code for _ in range(3)] == [201, 201, 400]
    last = await http.post("/oauth2/par", data=form)
    assert "Too many requests" in last.json()["error_description"]
    known = {**form, "client_secret": rp.secret}
    assert (await http.post("/oauth2/par", data=known)).status_code == 201
    known["state"] = "s" * anonymous_request_limits.MAXIMUM_BYTES
    assert (await http.post("/oauth2/par", data=known)).status_code == 201


@pytest.mark.requirement("oauth-12-12")
async def test_stored_signed_requests_are_limited(rp, browser, two_each):
    await rp.configure(jwks=public(KEY))
    sent = {"client_id": rp.client_id, "request": request(rp, key=KEY)}
    for _ in range(2):
        answer = await browser.get("/oauth2/authorize", params=sent)
        assert answer.headers["Location"].startswith("/oauth2/authorize?")
    refused = response(await browser.get("/oauth2/authorize", params=sent))
    assert refused["error"] == "invalid_request"
    assert "Too many requests" in refused["error_description"]
