"""`acr` and `amr` claims of tokens."""

from __future__ import annotations

import json

import pytest

from tests import relying_party
from tests.relying_party import claims, response

BRONZE = "urn:example:bronze"


def acr(**how) -> str:
    return json.dumps({"id_token": {"acr": how}})


ASKED = [
    {"acr_values": f"urn:example:gold {BRONZE}"},
    {"acr_values": "urn:example:gold"},
    {"claims": json.dumps({"id_token": {"acr": None}})},
    {"claims": acr(essential=True)},
    {"claims": acr(essential=True, values=["urn:example:gold", BRONZE])},
    {"claims": acr(value="urn:example:gold")},
]


@pytest.mark.requirement("certification-authorize-7", "oauth-1.1-8", "oauth-1.8-17")
@pytest.mark.parametrize("asked", ASKED)
async def test_configured_acr_is_returned_if_requested(rp, browser, http, asked):
    await rp.configure(authenticationContextClass=BRONZE)
    tokens = await rp.tokens(http, browser, **asked)
    assert claims(tokens["id_token"])["acr"] == BRONZE
    refreshed = (await rp.refresh(http, tokens["refresh_token"])).json()
    assert claims(refreshed["id_token"])["acr"] == BRONZE


@pytest.mark.requirement("oauth-1.8-17")
async def test_acr_is_not_returned_without_a_request(rp, browser, http):
    await rp.configure(authenticationContextClass=BRONZE)
    assert "acr" not in claims((await rp.tokens(http, browser))["id_token"])


@pytest.mark.requirement("oauth-1.1-8")
async def test_application_without_acr_returns_none(rp, browser, http):
    for asked in ({"acr_values": BRONZE}, {"claims": acr(value=BRONZE)}):
        assert "acr" not in claims((await rp.tokens(http, browser, **asked))["id_token"])


@pytest.mark.requirement("error-unmet_authentication_requirements", "oauth-1.8-17")
@pytest.mark.parametrize("own", [None, BRONZE])
async def test_unavailable_essential_acr_fails_the_request(rp, browser, own):
    await rp.configure(authenticationContextClass=own)
    error = response(await rp.authorize(browser, claims=acr(essential=True, values=["urn:example:gold"])))
    assert error["error"] == "unmet_authentication_requirements"
    assert "error_reason" not in error
    assert error["state"] == "the-state"


async def test_essential_acr_without_value_requires_one(rp, browser):
    error = response(await rp.authorize(browser, claims=acr(essential=True)))
    assert error["error"] == "unmet_authentication_requirements"


@pytest.mark.requirement("oauth-1.8-18")
async def test_amr_is_returned_if_configured(rp, browser, http):
    first = await rp.tokens(http, browser)
    assert "amr" not in claims(first["id_token"])
    await rp.configure(authenticationMethodsEnabled=True)
    by_session = await rp.tokens(http, browser)
    refreshed = (await rp.refresh(http, by_session["refresh_token"])).json()
    for tokens in (by_session, refreshed):
        assert claims(tokens["id_token"])["amr"] == ["pwd"]
        assert "amr" not in claims(tokens["access_token"])
    assert claims(by_session["access_token"])["authenticationType"] == "PING"


@pytest.mark.requirement("oauth-1.8-18")
async def test_amr_is_returned_for_the_password_grant(rp, http):
    await rp.configure(authenticationMethodsEnabled=True, enabledGrants=["password"])
    answer = await rp.token(
        http, grant_type="password", username=rp.login_id, password=relying_party.PASSWORD, scope="openid"
    )
    assert claims(answer.json()["id_token"])["amr"] == ["pwd"]


@pytest.mark.requirement("oauth-12-26")
async def test_metadata_lists_acr_values_and_hybrid_types(rp, http, api):
    async def published():
        return (await http.get(f"/{rp.tenant['id']}/.well-known/openid-configuration")).json()

    before = await published()
    assert "acr_values_supported" not in before
    assert before["response_types_supported"] == ["code", "id_token", "token id_token"]
    await rp.configure(authenticationContextClass=BRONZE, hybridResponseTypesEnabled=True)
    await relying_party.make(api, tenant=rp.tenant, authenticationContextClass="1")
    await relying_party.make(api, authenticationContextClass="of-another-tenant")
    after = await published()
    assert after["acr_values_supported"] == ["1", BRONZE]
    hybrid = ["code id_token", "code token", "code id_token token"]
    assert after["response_types_supported"] == [*before["response_types_supported"], *hybrid]


@pytest.mark.parametrize("value", ["two words", "ä", "x" * 256])
async def test_invalid_acr_cannot_be_configured(rp, api, value):
    body = {"application": {"oauthConfiguration": {"authenticationContextClass": value}}}
    answer = await api.patch(
        f"/api/application/{rp.client_id}", json=body, headers={"X-FusionAuth-TenantId": rp.tenant["id"]}
    )
    assert answer.status_code == 400
    assert "application.oauthConfiguration.authenticationContextClass" in answer.json()["fieldErrors"]
