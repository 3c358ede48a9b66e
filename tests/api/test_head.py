"""HEAD: the status and headers of GET without its body, after the same access checks (RFC 9110 section 9.3.2)."""

from __future__ import annotations

import re

import httpx
import prometheus_client
import pytest

from identity import app
from identity.web import application
from identity.web.base_handlers import Route
from tests.conftest import DEFAULT_TENANT, SUPER_KEY, UNKNOWN_ID, checking_client
from tests.dpop import ClientKey

ROUTES = application.routes(prometheus_client.CollectorRegistry())
_CHANGING = {"Date", "Etag", "ETag", "X-Request-Id", "WWW-Authenticate", "Set-Cookie", "Content-Security-Policy"}
"""Headers that differ between two GET requests as well, and those whose length follows from them."""


def _headers(answer: httpx.Response) -> dict[str, str]:
    """Return the headers that two requests have in common; redirects to a sign-in have fresh values in the query."""
    changing = {name.lower() for name in _CHANGING}
    common = {name: value for name, value in answer.headers.items() if name not in changing}
    if "location" in common:
        common["location"] = common["location"].partition("?")[0]
    return common


@pytest.mark.requirement("audit-c1-head")
@pytest.mark.parametrize("key", [None, SUPER_KEY], ids=["without key", "with key"])
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.template)
async def test_head_matches_get_on_every_route(service: app.Service, route: Route, key: str | None) -> None:
    path = re.sub(r"\{\w+\}", UNKNOWN_ID, route.template)
    headers = {} if key is None else {"Authorization": key, "X-FusionAuth-TenantId": DEFAULT_TENANT}
    async with checking_client(service.base_url, headers=headers) as client:
        get, head = await client.get(path), await client.head(path)
    assert head.content == b""
    assert head.status_code == get.status_code
    found, expected = _headers(head), _headers(get)
    # Pages hold a fresh CSRF token and lists may be written in pieces, so lengths are compared where they are fixed.
    if "content-length" not in expected or "prometheus" in path:
        found.pop("content-length", None), expected.pop("content-length", None)
        found.pop("transfer-encoding", None), expected.pop("transfer-encoding", None)
    assert found == expected


@pytest.mark.requirement("audit-c1-head")
async def test_head_requires_permission_of_get(api, manager, service) -> None:
    for methods, status in ((["GET"], 200), (["POST"], 401)):
        body = {"apiKey": {"permissions": {"endpoints": {"/api/tenant": methods}}}}
        key = (await manager.post("/api/api-key", json=body)).json()["apiKey"]["key"]
        async with checking_client(service.base_url, headers={"Authorization": key}) as client:
            answer = await client.head(f"/api/tenant/{DEFAULT_TENANT}")
        assert (answer.status_code, answer.content) == (status, b"")


@pytest.mark.requirement("audit-c1-head")
async def test_content_length_matches_get_body(api) -> None:
    path = f"/api/tenant/{DEFAULT_TENANT}"
    get, head = await api.get(path), await api.head(path)
    assert head.headers["Content-Length"] == str(len(get.content))
    assert head.headers["Content-Type"] == "application/json"


@pytest.mark.requirement("audit-c1-head")
async def test_path_without_get_has_no_head(api) -> None:
    refused = await api.head("/api/user/import")
    assert (refused.status_code, refused.headers["Allow"]) == (405, "POST")


@pytest.mark.requirement("audit-c1-head")
async def test_dpop_proof_uses_head_method(service, rp, browser, http) -> None:
    """The claim htm is the method of the request (RFC 9449 section 4.2)."""
    await rp.configure(dpopBoundAccessTokens=True)
    key = ClientKey()
    proof = key.header(http, "POST", "/oauth2/token")
    data = {"client_id": rp.client_id, "client_secret": rp.secret, "grant_type": "authorization_code"}
    data |= {"code": await rp.code(browser), "redirect_uri": "https://app.example.com/callback"}
    token = (await http.post("/oauth2/token", data=data, headers=proof)).json()["access_token"]
    for method, status in (("HEAD", 200), ("GET", 401)):
        answer = await http.head("/oauth2/userinfo", headers=key.shown(http, token, "/oauth2/userinfo", method))
        assert (answer.status_code, answer.content) == (status, b"")


@pytest.mark.requirement("audit-c1-head")
async def test_head_request_is_not_audited(build) -> None:
    async with (
        build(audit__api_writes="true") as service,
        checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as api,
    ):
        before = (await api.get("/api/system/audit-log/search")).json()["total"]
        assert (await api.head("/api/tenant")).status_code == 200
        assert (await api.get("/api/system/audit-log/search")).json()["total"] == before
