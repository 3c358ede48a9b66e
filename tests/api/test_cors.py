"""Cross-origin requests over HTTP: allowed, refused, and unaffected ones."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest
from pymongo.errors import AutoReconnect

from identity import app
from identity.ids import new_id
from tests import internals, plain_http, relying_party
from tests.conftest import SUPER_KEY
from tests.dpop import ClientKey

SITE = "https://app.example.com"
ALLOWED = {
    "enabled": True,
    "allowedOrigins": [SITE, "https://other.example.com:8443"],
    "allowedMethods": ["GET", "POST"],
    "allowedHeaders": ["Authorization", "Content-Type"],
    "exposedHeaders": ["X-Shown", "X-Also"],
    "preflightMaxAgeInSeconds": 77,
}
CORS_HEADERS = {
    "access-control-allow-origin",
    "access-control-allow-credentials",
    "access-control-allow-methods",
    "access-control-allow-headers",
    "access-control-expose-headers",
    "access-control-max-age",
}

Configure = Callable[..., Awaitable[None]]


@pytest.fixture
async def configure(api: httpx.AsyncClient) -> AsyncIterator[Configure]:
    """Sets the CORS configuration; the one from before comes back afterwards."""
    before = (await api.get("/api/system-configuration")).json()

    async def change(**members: Any) -> None:
        wanted = {**before["systemConfiguration"], "corsConfiguration": {**ALLOWED, **members}}
        answer = await api.put("/api/system-configuration", json={"systemConfiguration": wanted})
        assert answer.status_code == 200, answer.text

    yield change
    assert (await api.put("/api/system-configuration", json=before)).status_code == 200


def granted(answer: httpx.Response) -> dict[str, str]:
    """The CORS headers of an answer."""
    return {name: value for name, value in answer.headers.items() if name in CORS_HEADERS}


async def preflight(http: httpx.AsyncClient, path: str, method: str = "GET", *names: str, origin: str = SITE) -> Any:
    headers = {"Origin": origin, "Access-Control-Request-Method": method}
    if names:
        headers["Access-Control-Request-Headers"] = ", ".join(names)
    return await http.options(path, headers=headers)


@pytest.mark.requirement("core-17-11")
async def test_new_instance_refuses_cross_origin_pages(build: Any) -> None:
    async with build() as fresh, plain_http.client(fresh.base_url, timeout=30) as client:
        answer = await client.get("/api/system/version", headers={"Authorization": SUPER_KEY, "Origin": SITE})
        assert (answer.status_code, answer.content, granted(answer)) == (403, b"", {})


@pytest.mark.requirement("core-17-9")
async def test_allowed_origin_reads_response(api: httpx.AsyncClient, configure: Configure) -> None:
    await configure()
    answer = await api.get("/api/system/version", headers={"Origin": SITE})
    assert answer.json() == {"version": "1.69.0"}
    assert granted(answer) == {
        "access-control-allow-origin": SITE,
        "access-control-expose-headers": "X-Shown, X-Also",
    }
    assert answer.headers["Vary"] == "Origin"


@pytest.mark.requirement("core-17-9", "oauth-0.4-4")
async def test_allowed_origin_reads_errors(http: httpx.AsyncClient, configure: Configure) -> None:
    await configure(allowedMethods=["GET", "POST", "DELETE", "OPTIONS"])
    headers = {"Origin": SITE}
    for answer, status in (
        (await http.get("/api/system/version", headers=headers), 401),
        (await http.get("/api/tenant/password-validation-rules/nonsense", headers=headers), 400),
        (await http.delete("/api/health", headers=headers), 405),
        (await http.options("/api/health", headers=headers), 405),
        (await http.post("/oauth2/token", data={}, headers=headers), 400),
    ):
        assert answer.status_code == status, answer.request.url
        assert answer.headers["Access-Control-Allow-Origin"] == SITE, answer.request.url


@pytest.mark.requirement("attack-70", "core-17-11", "core-3-8")
@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example.com",
        "http://app.example.com",
        "https://app.example.com:444",
        "https://app.example.com.evil.com",
        "https://xapp.example.com",
        "null",
        "*",
        "",
        "https://app.example.com https://evil.example.com",
        "nonsense",
        "http://[",
    ],
)
async def test_unlisted_origin_is_refused_before_processing(
    api: httpx.AsyncClient, configure: Configure, origin: str
) -> None:
    await configure()
    name = new_id()
    body = {"ipAccessControlList": {"name": name, "entries": [{"startIPAddress": "*", "action": "Allow"}]}}
    answer = await api.post("/api/ip-acl", json=body, headers={"Origin": origin})
    assert (answer.status_code, answer.content, granted(answer)) == (403, b"", {})
    assert "Vary" in answer.headers
    assert (await api.get("/api/ip-acl/search", params={"name": name})).json()["total"] == 0


@pytest.mark.parametrize("origin", ["HTTPS://APP.example.com", "https://app.example.com:443"])
async def test_equivalent_spellings_of_origin_match(api: httpx.AsyncClient, configure: Configure, origin: str) -> None:
    await configure()
    answer = await api.get("/api/system/version", headers={"Origin": origin})
    assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (200, SITE)


@pytest.mark.requirement("core-17-9")
async def test_unlisted_method_is_refused(api: httpx.AsyncClient, configure: Configure) -> None:
    await configure()
    answer = await api.put("/api/system-configuration", json={}, headers={"Origin": SITE})
    assert (answer.status_code, answer.content) == (403, b"")


@pytest.mark.requirement("core-17-10")
async def test_preflight_lists_allowed_methods_and_headers(http: httpx.AsyncClient, configure: Configure) -> None:
    await configure()
    answer = await preflight(http, "/oauth2/token", "POST", "authorization", "CONTENT-TYPE")
    assert (answer.status_code, answer.content) == (200, b"")
    assert granted(answer) == {
        "access-control-allow-origin": SITE,
        "access-control-allow-methods": "GET, POST",
        "access-control-allow-headers": "Authorization, Content-Type",
        "access-control-max-age": "77",
    }
    assert (await preflight(http, "/api/user")).status_code == 200


@pytest.mark.requirement("core-17-10")
@pytest.mark.parametrize(
    ("method", "names", "origin"),
    [
        ("DELETE", (), SITE),
        ("GET", ("X-Other",), SITE),
        ("POST", ("Authorization", "X-Other"), SITE),
        ("GET", (), "https://evil.example.com"),
        ("GET", (), "null"),
    ],
)
async def test_preflight_for_unlisted_method_or_header_is_refused(
    http: httpx.AsyncClient, configure: Configure, method: str, names: tuple[str, ...], origin: str
) -> None:
    await configure()
    answer = await preflight(http, "/api/user", method, *names, origin=origin)
    assert (answer.status_code, answer.content, granted(answer)) == (403, b"", {})


@pytest.mark.requirement("core-17-10")
async def test_every_header_may_be_allowed(http: httpx.AsyncClient, configure: Configure) -> None:
    await configure(allowedHeaders=["*"])
    answer = await preflight(http, "/api/user", "GET", "X-Anything")
    assert (answer.status_code, answer.headers["Access-Control-Allow-Headers"]) == (200, "*")


@pytest.mark.requirement("oauth-12-18")
async def test_dpop_header_is_always_allowed(http: httpx.AsyncClient, configure: Configure) -> None:
    await configure()
    answer = await preflight(http, "/oauth2/token", "POST", "Content-Type", "dpop")
    assert answer.status_code == 200
    assert answer.headers["Access-Control-Allow-Headers"] == "Authorization, Content-Type, DPoP"
    await configure(allowedHeaders=[])
    answer = await preflight(http, "/oauth2/token", "POST", "DPoP")
    assert (answer.status_code, answer.headers["Access-Control-Allow-Headers"]) == (200, "DPoP")


@pytest.mark.requirement("oauth-12-20")
async def test_dpop_nonce_header_is_exposed(
    api: httpx.AsyncClient, http: httpx.AsyncClient, configure: Configure
) -> None:
    rp = await relying_party.make(api, dpopNonceRequired=True)
    form = {"client_id": rp.client_id, "client_secret": rp.secret, "grant_type": "refresh_token", "refresh_token": "x"}
    for exposed, expected in ((["X-Shown"], "X-Shown, DPoP-Nonce"), ([], "DPoP-Nonce")):
        await configure(exposedHeaders=exposed)
        headers = {"Origin": SITE, **ClientKey().header(http, "POST", "/oauth2/token")}
        answer = await http.post("/oauth2/token", data=form, headers=headers)
        assert answer.json()["error"] == "use_dpop_nonce"
        assert answer.headers["DPoP-Nonce"]
        assert answer.headers["Access-Control-Expose-Headers"] == expected
    answer = await http.post("/oauth2/token", data=form, headers=ClientKey().header(http, "POST", "/oauth2/token"))
    assert "Access-Control-Expose-Headers" not in answer.headers


@pytest.mark.requirement("core-17-9")
async def test_allow_headers_is_absent_if_none_is_allowed(http: httpx.AsyncClient, configure: Configure) -> None:
    await configure(allowedHeaders=[], exposedHeaders=[])
    assert "Access-Control-Allow-Headers" not in (await preflight(http, "/api/user")).headers
    answer = await http.get("/api/health", headers={"Origin": SITE})
    assert granted(answer) == {"access-control-allow-origin": SITE}


@pytest.mark.requirement("core-17-9")
async def test_credentials_are_allowed_if_configured(http: httpx.AsyncClient, configure: Configure) -> None:
    await configure(allowCredentials=True)
    for answer in (await http.get("/api/health", headers={"Origin": SITE}), await preflight(http, "/api/health")):
        assert answer.headers["Access-Control-Allow-Credentials"] == "true"
        assert answer.headers["Access-Control-Allow-Origin"] == SITE


@pytest.mark.requirement("attack-70", "core-17-12")
async def test_any_origin_is_answered_with_asterisk(http: httpx.AsyncClient, configure: Configure) -> None:
    await configure(allowedOrigins=["*"])
    for origin in (SITE, "https://whoever.example.com", "null"):
        answer = await http.get("/api/health", headers={"Origin": origin})
        assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (200, "*")


@pytest.mark.requirement("core-17-13")
async def test_disabled_cors_adds_and_refuses_nothing(api: httpx.AsyncClient, configure: Configure) -> None:
    await configure(enabled=False)
    for origin in (SITE, "https://evil.example.com", "null"):
        answer = await api.get("/api/system/version", headers={"Origin": origin})
        assert (answer.status_code, granted(answer)) == (200, {})
    refused = await preflight(api, "/api/user")
    assert (refused.status_code, granted(refused)) == (405, {})


@pytest.mark.requirement("core-17-14")
async def test_request_without_origin_is_unaffected(api: httpx.AsyncClient, configure: Configure) -> None:
    await configure(allowedOrigins=[], allowedMethods=[])
    answer = await api.get("/api/system/version")
    assert (answer.status_code, granted(answer)) == (200, {})
    assert (await api.options("/api/system/version")).status_code == 405


@pytest.mark.requirement("core-17-14")
async def test_same_origin_request_is_unaffected(
    service: app.Service, api: httpx.AsyncClient, configure: Configure
) -> None:
    await configure(allowedOrigins=[])
    port = service.port
    for host, origin in (
        (f"127.0.0.1:{port}", f"http://127.0.0.1:{port}"),
        ("id.example.com", "https://id.example.com"),
        ("id.example.com", "http://id.example.com"),
        ("ID.example.com:443", "https://id.example.com"),
    ):
        answer = await api.post("/api/user/search", json={}, headers={"Host": host, "Origin": origin})
        assert (answer.status_code, granted(answer)) == (200, {}), origin


@pytest.mark.requirement("core-17-14")
async def test_other_port_is_other_origin(service: app.Service, api: httpx.AsyncClient, configure: Configure) -> None:
    await configure(allowedOrigins=[])
    answer = await api.get(
        "/api/system/version", headers={"Host": "id.example.com", "Origin": "http://id.example.com:8"}
    )
    assert answer.status_code == 403


@pytest.mark.requirement("core-17-15", "oauth-0.4-4")
async def test_hosted_pages_accept_cross_origin_forms_without_exposing_responses(
    http: httpx.AsyncClient, configure: Configure
) -> None:
    """An authorization request may be posted from the client's site, and forms of ours come with the origin null."""
    await configure(allowedOrigins=[])
    for origin in ("https://relying-party.example.com", "null", SITE):
        for path in ("/oauth2/authorize", "/oauth2/logout"):
            answer = await http.post(path, data={"client_id": new_id()}, headers={"Origin": origin})
            assert answer.status_code != 403, path
            assert granted(answer) == {}
    await configure(allowedOrigins=["*"])
    answer = await http.get("/", headers={"Origin": SITE})
    assert (answer.status_code, granted(answer)) == (200, {})


@pytest.mark.requirement("core-17-15", "oauth-0.4-4")
@pytest.mark.parametrize("path", ["jwks.json", "openid-configuration", "oauth-authorization-server"])
async def test_well_known_documents_allow_any_origin(http: httpx.AsyncClient, configure: Configure, path: str) -> None:
    await configure(allowedOrigins=[])
    answer = await http.get(f"/.well-known/{path}", headers={"Origin": "https://whoever.example.com"})
    assert (answer.status_code, granted(answer)) == (200, {"access-control-allow-origin": "*"})
    asked = await preflight(http, f"/.well-known/{path}", "GET", origin="https://whoever.example.com")
    assert asked.status_code == 200
    assert asked.headers["Access-Control-Allow-Origin"] == "*"
    assert asked.headers["Access-Control-Allow-Methods"] == "GET"


@pytest.mark.requirement("core-15-23")
async def test_debug_logs_every_refusal(http: httpx.AsyncClient, api: httpx.AsyncClient, configure: Configure) -> None:
    await configure(debug=True)
    evil = f"https://{new_id()}.example.com"
    await http.get("/api/health", headers={"Origin": evil})
    await preflight(http, "/api/user", "DELETE", origin=SITE)
    found = await api.get("/api/system/event-log/search", params={"message": evil})
    (row,) = found.json()["eventLogs"]
    assert row["type"] == "Debug"
    assert row["message"] == (
        f"The request GET /api/health was refused by the CORS configuration: the origin [{evil}] is not allowed."
    )
    found = await api.get("/api/system/event-log/search", params={"message": "A preflight for DELETE /api/user was*"})
    assert found.json()["total"] >= 1


@pytest.mark.requirement("core-15-23")
async def test_refusals_are_not_logged_without_debug(
    http: httpx.AsyncClient, api: httpx.AsyncClient, configure: Configure
) -> None:
    await configure()
    evil = f"https://{new_id()}.example.com"
    assert (await http.get("/api/health", headers={"Origin": evil})).status_code == 403
    found = await api.get("/api/system/event-log/search", params={"message": evil})
    assert found.json()["total"] == 0


@pytest.mark.requirement("core-17-16")
async def test_change_by_another_process_is_applied(build: Any) -> None:
    async with build() as one:
        other_settings = {
            "database": internals.config(one).mongodb.database,
            "data_dir": internals.config(one).data_dir,
        }
        async with build(**other_settings, kickstart=None) as other:
            headers = {"Authorization": SUPER_KEY}
            async with plain_http.client(headers=headers, timeout=30) as client:
                first = await client.get(f"{other.base_url}/api/health", headers={"Origin": SITE})
                body = {"systemConfiguration": {"corsConfiguration": ALLOWED}}
                changed = await client.patch(f"{one.base_url}/api/system-configuration", json=body)
                assert (first.status_code, changed.status_code) == (403, 200)
                for _ in range(1000):
                    answer = await client.get(f"{other.base_url}/api/health", headers={"Origin": SITE})
                    if answer.status_code == 200:
                        break
                assert answer.headers["Access-Control-Allow-Origin"] == SITE


@pytest.mark.requirement("core-17-16")
async def test_settings_persist_while_store_is_unavailable(
    service: app.Service, http: httpx.AsyncClient, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    await configure()
    assert (await http.get("/api/health", headers={"Origin": SITE})).status_code == 200
    documents = internals.store(service, "collections")["system_configuration"]

    async def away(*_: object) -> None:
        raise AutoReconnect("gone")

    with monkeypatch.context() as patch:
        patch.setattr(documents, "find_cached", away)
        documents.invalidate_all()
        answer = await http.get("/api/health", headers={"Origin": SITE})
        assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (200, SITE)
        assert (await http.get("/api/health", headers={"Origin": "https://evil.example.com"})).status_code == 403
