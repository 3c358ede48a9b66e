"""Every validation error of the authorization endpoint: its target and content."""

from __future__ import annotations

import httpx
import pytest

from identity.errors import Unavailable
from identity.ids import new_id
from tests import internals, relying_party
from tests.relying_party import CHALLENGE, response

JSON = {"Accept": "application/json"}


async def local_error(browser: httpx.AsyncClient, query, **headers: str) -> dict:
    """The error that stays on the service: the same as a page and as JSON."""
    shown = await browser.get("/oauth2/authorize", params=query, headers=headers)
    assert shown.status_code == 400
    assert shown.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "Location" not in shown.headers
    bare = await browser.get("/oauth2/authorize", params=query, headers={**JSON, **headers})
    assert bare.status_code == 400
    error = bare.json()
    assert error["error_description"] in relying_party.page(shown).text
    return error


async def redirected_error(browser: httpx.AsyncClient, query, **headers: str) -> dict[str, str]:
    """The error at the redirect URI."""
    return response(await browser.get("/oauth2/authorize", params=query, headers=headers))


def is_error(answer: dict, error: str, reason: str | None) -> bool:
    assert (answer["error"], answer.get("error_reason")) == (error, reason), answer
    text = answer["error_description"]
    return text.isascii() and text.isprintable() and '"' not in text and "\\" not in text


@pytest.mark.requirement("contract-authorize-tenantId", "oauth-1.2-row-1", "reason-invalid_tenant_id")
async def test_row_1_unknown_tenant_is_not_redirected(rp, browser):
    for tenant_id in ("no-uuid", new_id()):
        error = await local_error(browser, rp.query(tenantId=tenant_id))
        assert is_error(error, "invalid_request", "invalid_tenant_id")


@pytest.mark.requirement("oauth-0.3-5", "oauth-1.2-row-1")
async def test_row_1_tenant_of_another_client_is_not_redirected(rp, browser, api):
    other = await relying_party.make(api)
    error = await local_error(browser, rp.query(tenantId=other.tenant["id"]))
    assert is_error(error, "invalid_request", "invalid_tenant_id")
    shown = await browser.get(f"/{other.tenant['id']}/oauth2/authorize", params=rp.query())
    assert shown.status_code == 400


@pytest.mark.requirement("oauth-0.3-2")
async def test_row_1_two_tenants_are_not_redirected(rp, browser):
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    assert (await browser.get("/oauth2/authorize", params=rp.query(), headers=headers)).status_code == 200
    error = await local_error(browser, rp.query(tenantId=new_id()), **headers)
    assert is_error(error, "invalid_request", "invalid_tenant_id")


@pytest.mark.requirement(
    "contract-authorize-client_id",
    "contract-authorize-response-3",
    "error-invalid_request",
    "oauth-1.2-row-2",
    "reason-missing_client_id",
)
async def test_row_2_missing_client_id_is_not_redirected(rp, browser):
    assert is_error(await local_error(browser, rp.query(client_id=None)), "invalid_request", "missing_client_id")


@pytest.mark.requirement("contract-authorize-client_id", "oauth-1.2-row-3", "reason-invalid_client_id")
@pytest.mark.parametrize("client_id", ["no-uuid", "00000000-0000-0000-0000-000000000000"])
async def test_row_3_unknown_client_is_not_redirected(rp, browser, client_id):
    assert is_error(await local_error(browser, rp.query(client_id=client_id)), "invalid_request", "invalid_client_id")


@pytest.mark.requirement("oauth-1.2-row-3")
async def test_row_3_inactive_client_is_not_redirected(rp, browser, api):
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    answer = await api.delete(f"/api/application/{rp.client_id}", headers=headers)
    assert answer.status_code == 200
    assert is_error(await local_error(browser, rp.query()), "invalid_request", "invalid_client_id")


@pytest.mark.requirement("oauth-1.2-row-4", "reason-missing_redirect_uri")
async def test_row_4_missing_redirect_uri_is_not_redirected(rp, browser):
    assert is_error(await local_error(browser, rp.query(redirect_uri=None)), "invalid_request", "missing_redirect_uri")


@pytest.mark.requirement(
    "certification-authorize-11", "contract-authorize-redirect_uri", "oauth-1.2-row-5", "reason-invalid_redirect_uri"
)
async def test_row_5_unregistered_redirect_uri_is_not_redirected(rp, browser):
    error = await local_error(browser, rp.query(redirect_uri="https://evil.example.com/"))
    assert is_error(error, "invalid_request", "invalid_redirect_uri")
    assert "redirect" in error["error_description"]


@pytest.mark.requirement("oauth-1.2-row-6", "oauth-1.2-row-7", "reason-invalid_origin", "reason-invalid_origin_opaque")
async def test_rows_6_and_7_origin_is_checked_if_configured(rp, browser):
    await rp.configure(authorizedOriginURLs=["https://app.example.com"])
    opaque = await redirected_error(browser, rp.query(), Origin="null")
    assert is_error(opaque, "invalid_request", "invalid_origin_opaque")
    other = await redirected_error(browser, rp.query(), Origin="https://evil.example.com")
    assert is_error(other, "invalid_request", "invalid_origin")
    headers = {"Origin": "https://app.example.com"}
    assert (await browser.get("/oauth2/authorize", params=rp.query(), headers=headers)).status_code == 200
    shown = await rp.authorize(browser)
    assert "code" in response(await rp.submit(browser, shown))


ROWS = {
    8: ({"response_type": None}, "invalid_request", "missing_response_type"),
    9: ({"response_type": "code code"}, "unsupported_response_type", "invalid_response_type"),
    "9 hybrid": ({"response_type": "code id_token"}, "unsupported_response_type", "invalid_response_type"),
    10: ({"response_type": "token"}, "unsupported_response_type", "invalid_response_type"),
    11: ({"response_mode": "pigeon"}, "invalid_request", "invalid_response_mode"),
    12: ({"response_type": "id_token", "nonce": "n"}, "unauthorized_client", "grant_type_disabled"),
    13: (
        {"code_challenge": CHALLENGE, "code_challenge_method": "plain"},
        "invalid_request", "invalid_pkce_code_challenge_method",
    ),
    "13 no method": ({"code_challenge": CHALLENGE}, "invalid_request", "invalid_pkce_code_challenge_method"),
    14: (
        {"code_challenge": CHALLENGE[:-1], "code_challenge_method": "S256"},
        "invalid_request", "invalid_pkce_code_challenge",
    ),
    15: ({"code_challenge_method": "S256"}, "invalid_request", "missing_code_challenge"),
    16: ({"scope": "openid unheard-of"}, "invalid_scope", "unknown_scope"),
    17: ({"prompt": "none login"}, "invalid_request", "invalid_prompt"),
    "17 unknown word": ({"prompt": "Login"}, "invalid_request", "invalid_prompt"),
    18: ({"max_age": "soon"}, "invalid_request", "unknown"),
    "18 negative": ({"max_age": "-1"}, "invalid_request", "unknown"),
    19: ({"user_code": "ABCDEF"}, "invalid_request", "invalid_user_code"),
    22: ({"prompt": "none"}, "login_required", "authentication_required"),
    "request": ({"request": "x"}, "request_not_supported", None),
    "request_uri": ({"request_uri": "https://app.example.com/r"}, "request_uri_not_supported", None),
    "registration": ({"registration": "{}"}, "registration_not_supported", None),
}  # fmt: skip


@pytest.mark.requirement(
    "certification-authorize-10",
    "certification-authorize-3",
    "contract-authorize-code_challenge_method",
    "contract-authorize-response-3",
    "contract-errors-5",
    "error-invalid_scope",
    "error-registration_not_supported",
    "error-request_not_supported",
    "error-request_uri_not_supported",
    "error-unauthorized_client",
    "error-unsupported_response_type",
    "oauth-0.1-8",
    "oauth-1.1-11",
    "oauth-1.2-plain",
    "oauth-1.2-row-11",
    "oauth-1.2-row-12",
    "oauth-1.2-row-13",
    "oauth-1.2-row-15",
    "oauth-1.2-row-16",
    "oauth-1.2-row-17",
    "oauth-1.2-row-19",
    "oauth-1.2-row-22",
    "oauth-1.2-row-8",
    "reason-authentication_required",
    "reason-grant_type_disabled",
    "reason-invalid_pkce_code_challenge",
    "reason-invalid_pkce_code_challenge_method",
    "reason-invalid_prompt",
    "reason-invalid_response_mode",
    "reason-invalid_response_type",
    "reason-invalid_user_code",
    "reason-missing_response_type",
    "reason-unknown",
    "reason-unknown_scope",
)
@pytest.mark.parametrize("row", ROWS)
async def test_later_rows_are_redirected(rp, browser, row):
    changes, error, reason = ROWS[row]
    answer = await redirected_error(browser, rp.query(**changes))
    assert is_error(answer, error, reason)
    assert answer["state"] == "the-state"
    assert answer["iss"] == rp.tenant["issuer"]


@pytest.mark.requirement("attack-10", "certification-authorize-2")
@pytest.mark.parametrize("row", ROWS)
async def test_no_row_redirects_to_an_unregistered_uri(rp, browser, row):
    await local_error(browser, rp.query(**{**ROWS[row][0], "redirect_uri": "https://evil.example.com/"}))


@pytest.mark.requirement("audit-d1-token-openid")
async def test_row_10_error_of_token_with_openid_is_in_the_query(rp, browser):
    await rp.configure(enabledGrants=["implicit"])
    answer = await rp.authorize(browser, response_type="token", scope="openid email")
    assert is_error(response(answer), "unsupported_response_type", "invalid_response_type")
    assert "#" not in answer.headers["Location"]
    answer = await rp.authorize(browser, response_type="token", scope="email", max_age="x")
    assert "#" in answer.headers["Location"]


@pytest.mark.requirement("oauth-1.2-row-11")
async def test_row_11_tokens_are_never_in_a_query(rp, browser):
    await rp.configure(enabledGrants=["implicit"])
    query = rp.query(response_type="id_token", nonce="n", response_mode="query")
    answer = await browser.get("/oauth2/authorize", params=query)
    assert is_error(response(answer), "invalid_request", "invalid_response_mode")
    assert "#" in answer.headers["Location"]


@pytest.mark.requirement("oauth-1.2-row-12")
async def test_row_12_code_can_be_disabled(rp, browser):
    await rp.configure(enabledGrants=["implicit"])
    assert is_error(await redirected_error(browser, rp.query()), "unauthorized_client", "grant_type_disabled")


@pytest.mark.requirement("oauth-1.2-row-15", "oauth-1.9-33", "reason-missing_code_challenge")
async def test_row_15_challenge_is_required_by_policy(rp, browser):
    await rp.configure(proofKeyForCodeExchangePolicy="Required")
    assert is_error(await redirected_error(browser, rp.query()), "invalid_request", "missing_code_challenge")


@pytest.mark.requirement("oauth-1.2-row-21")
async def test_row_21_unknown_identity_provider_is_shown_on_the_login_page(rp, browser):
    shown = await rp.authorize(browser, idp_hint=new_id())
    assert shown.status_code == 200
    assert "identity provider" in relying_party.page(shown).text


@pytest.mark.requirement("certification-authorize-8", "oauth-1.3-7")
async def test_nonce_is_required_with_an_id_token_from_this_endpoint(rp, browser):
    await rp.configure(enabledGrants=["implicit"])
    answer = await redirected_error(browser, rp.query(response_type="id_token"))
    assert is_error(answer, "invalid_request", "unknown")
    assert "nonce" in answer["error_description"]


@pytest.mark.requirement("certification-authorize-9", "oauth-1.2-channel")
async def test_errors_use_the_requested_response_mode(rp, browser):
    fragment = await browser.get("/oauth2/authorize", params=rp.query(prompt="none", response_mode="fragment"))
    assert "#error=login_required" in fragment.headers["Location"]
    form = await browser.get("/oauth2/authorize", params=rp.query(prompt="none", response_mode="form_post"))
    assert form.status_code == 200
    assert response(form)["error"] == "login_required"
    await rp.configure(enabledGrants=["implicit"])
    query = rp.query(response_type="id_token", nonce="n", prompt="none")
    implicit = await browser.get("/oauth2/authorize", params=query)
    assert "#error=login_required" in implicit.headers["Location"]


@pytest.mark.requirement("contract-token-response-4")
async def test_unknown_scopes_are_dropped_or_kept_by_policy(rp, browser, http):
    await rp.configure(unknownScopePolicy="Remove")
    assert (await rp.tokens(http, browser, scope="openid unheard-of"))["scope"] == "openid"
    await rp.configure(unknownScopePolicy="Allow")
    assert (await rp.tokens(http, browser, scope="openid unheard-of"))["scope"] == "openid unheard-of"


@pytest.mark.requirement("oauth-1.8-15")
async def test_third_party_gets_no_scopes_without_consent(rp, browser):
    await rp.configure(relationship="ThirdParty")
    query = rp.query(scope="openid email", prompt="none")
    shown = await rp.authorize(browser, scope="openid")
    await rp.submit(browser, shown)
    assert is_error(await redirected_error(browser, query), "consent_required", "consent_required")


@pytest.mark.requirement("attack-19", "oauth-1.2-escaping")
async def test_reflected_text_is_escaped_on_the_error_page(rp, browser):
    answer = await browser.get("/oauth2/authorize", params=rp.query(client_id="<script>alert(1)</script>"))
    assert "<script>" not in answer.text
    assert "&lt;script&gt;" in answer.text


@pytest.mark.requirement("contract-authorize-response-4", "error-server_error", "oauth-1.2-row-25")
async def test_row_25_internal_error_is_redirected_without_details(rp, browser, service, monkeypatch):
    async def broken(*_arguments: object) -> None:
        raise RuntimeError("a secret detail")

    shown = await rp.authorize(browser)
    monkeypatch.setattr(type(internals.store(service, "authorization_codes")), "issue", broken)
    answer = response(await rp.submit(browser, shown))
    assert is_error(answer, "server_error", "unknown")
    assert "secret" not in str(answer)


async def test_busy_service_shows_the_login_page_again(rp, browser, service, monkeypatch):
    async def crowded(*_arguments: object, **_named: object) -> None:
        raise Unavailable

    shown = await rp.authorize(browser)
    monkeypatch.setattr(type(internals.store(service, "passwords")), "verify", crowded)
    again = await rp.submit(browser, shown)
    assert again.status_code == 200
    assert "Too many people" in relying_party.page(again).text
