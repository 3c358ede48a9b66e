"""Unreadable requests are reported like other errors of the endpoint."""

from __future__ import annotations

import pytest

from tests import relying_party

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
UNREADABLE = {
    "multipart": {"files": {"grant_type": b"authorization_code"}},
    "a flood of parameters": {"content": "&".join(f"a{number}=1" for number in range(5000)), "headers": FORM},
    "json": {"json": {"grant_type": "authorization_code"}},
    "no body": {},
}


@pytest.mark.requirement("oauth-0.1-1")
@pytest.mark.parametrize("name", UNREADABLE)
@pytest.mark.parametrize("path", ["/oauth2/token", "/oauth2/introspect"])
async def test_unreadable_request_of_a_client_is_an_oauth_error(http, path, name):
    answer = await http.post(path, **UNREADABLE[name])
    assert answer.status_code == 400
    assert answer.headers["Content-Type"] == "application/json"
    assert (answer.json()["error"], answer.json()["error_reason"]) == ("invalid_request", "unknown")
    assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.requirement("oauth-0.1-1")
@pytest.mark.parametrize("name", UNREADABLE)
@pytest.mark.parametrize("path", ["/oauth2/authorize", "/oauth2/logout"])
async def test_unreadable_request_of_a_browser_is_a_page(http, path, name):
    answer = await http.post(path, **UNREADABLE[name])
    assert answer.status_code == 400
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert '"error_reason": "unknown"' in relying_party.page(answer).text


@pytest.mark.parametrize("query", ["client_id=%FF", "client_id=a&client_id=b", "state=%00"])
async def test_undecodable_query_is_not_redirected(http, query):
    answer = await http.get(f"/oauth2/authorize?{query}")
    assert answer.status_code == 400
    assert "Location" not in answer.headers
    assert '"error": "invalid_request"' in relying_party.page(answer).text
