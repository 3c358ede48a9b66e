"""Resource indicators (RFC 8707): audiences of tokens."""

from __future__ import annotations

import json
import urllib.parse
from typing import Any

import httpx
import pytest

from tests import internals, relying_party
from tests.oauth2.devices import DEVICE_GRANT, Device, device_client
from tests.relying_party import PASSWORD, RelyingParty, claims, page, response

ONE, OTHER, THIRD = "https://one.example.com/api", "https://other.example.com/", "urn:example:third"
GRANTS = ["authorization_code", "implicit", "password", "refresh_token"]


@pytest.fixture
async def rp(api: httpx.AsyncClient) -> RelyingParty:
    """A relying party that may ask for three resources."""
    return await relying_party.make(api, authorizedResourceUris=[ONE, OTHER, THIRD], enabledGrants=GRANTS)


def audience(tokens: dict[str, Any]) -> Any:
    return claims(tokens["access_token"])["aud"]


def refused(answer: httpx.Response) -> None:
    body = answer.json()
    assert (answer.status_code, body["error"], body.keys()) == (400, "invalid_target", {"error", "error_description"})


async def usable(rp: RelyingParty, http: httpx.AsyncClient, tokens: dict[str, Any]) -> None:
    """The token is still one of ours, for the client itself."""
    token = tokens["access_token"]
    answer = await http.get("/oauth2/userinfo", headers={"Authorization": f"Bearer {token}"})
    assert answer.json()["sub"] == rp.user["id"]
    form = {"client_id": rp.client_id, "client_secret": rp.secret, "token": token}
    introspection = (await http.post("/oauth2/introspect", data=form)).json()
    assert (introspection["active"], introspection["aud"]) == (True, audience(tokens))


@pytest.mark.requirement("oauth-1.1-3", "oauth-2.10-10")
async def test_token_audience_is_client_and_requested_resources(rp, browser, http, service):
    code = await rp.code(browser, resource=[ONE, OTHER])
    tokens = (await rp.exchange(http, code, resource=OTHER)).json()
    assert audience(tokens) == [rp.client_id, OTHER]
    assert claims(tokens["id_token"])["aud"] == rp.client_id
    await usable(rp, http, tokens)
    record = await internals.store(service, "refresh_tokens").find(rp.tenant["id"], tokens["refresh_token_id"])
    assert record["metaData"]["resources"] == [ONE, OTHER]


@pytest.mark.requirement("oauth-2.2-8")
async def test_refresh_keeps_or_narrows_resources(rp, browser, http):
    code = await rp.code(browser, resource=[ONE, OTHER])
    value = (await rp.exchange(http, code, resource=[ONE, OTHER])).json()["refresh_token"]
    for named, given in ((None, [ONE, OTHER]), (OTHER, [OTHER]), ([OTHER, ONE], [OTHER, ONE]), (None, [ONE, OTHER])):
        tokens = (await rp.refresh(http, value, resource=named)).json()
        assert audience(tokens) == [rp.client_id, *given]
    await usable(rp, http, tokens)
    refused(await rp.refresh(http, value, resource=THIRD))
    refused(await rp.refresh(http, value, resource=[ONE, "https://unknown.example.com/"]))
    await rp.configure(authorizedResourceUris=[OTHER, THIRD])
    refused(await rp.refresh(http, value, resource=ONE))
    assert audience((await rp.refresh(http, value)).json()) == [rp.client_id, OTHER]
    await rp.configure(authorizedResourceUris=[])
    assert audience((await rp.refresh(http, value, resource=THIRD)).json()) == rp.client_id


@pytest.mark.requirement("oauth-2.2-8")
async def test_one_time_refresh_token_keeps_its_resources(rp, browser, http):
    await rp.configure_tenant(jwtConfiguration={"refreshTokenUsagePolicy": "OneTimeUse"})
    code = await rp.code(browser, resource=[ONE, OTHER])
    value = (await rp.exchange(http, code, resource=ONE)).json()["refresh_token"]
    refused(await rp.refresh(http, value, resource=THIRD))
    second = (await rp.refresh(http, value, resource=ONE)).json()
    assert audience(second) == [rp.client_id, ONE]
    assert audience((await rp.refresh(http, second["refresh_token"])).json()) == [rp.client_id, ONE, OTHER]


@pytest.mark.requirement("oauth-2.2-8")
@pytest.mark.parametrize("resource", [None, THIRD, [ONE, THIRD], "https://unknown.example.com/", "/api", f"{ONE}#x"])
async def test_invalid_resource_consumes_the_code(rp, browser, http, resource):
    code = await rp.code(browser, resource=[ONE, OTHER])
    refused(await rp.exchange(http, code, resource=resource))
    again = await rp.exchange(http, code, resource=ONE)
    assert (again.status_code, again.json()["error_reason"]) == (400, "auth_code_not_found")


@pytest.mark.requirement("oauth-2.2-8")
async def test_code_without_resources_cannot_add_them(rp, browser, http):
    refused(await rp.exchange(http, await rp.code(browser), resource=ONE))
    assert audience((await rp.exchange(http, await rp.code(browser))).json()) == rp.client_id


@pytest.mark.requirement("error-invalid_target", "oauth-1.2-row-20")
@pytest.mark.parametrize(
    "resource", ["/api", "api", f"{ONE}#fragment", f"{ONE}/", [ONE, "https://unknown.example.com"]]
)
async def test_row_20_invalid_resource_is_redirected(rp, browser, resource):
    answer = response(await rp.authorize(browser, resource=resource))
    assert answer["error"] == "invalid_target"
    assert "error_reason" not in answer
    assert answer["state"] == "the-state"
    fragment = response(await rp.authorize(browser, resource=resource, response_type="id_token token", nonce="n"))
    assert fragment["error"] == "invalid_target"


@pytest.mark.requirement("oauth-1.2-row-20")
async def test_application_without_resource_list_ignores_the_parameter(rp, browser, http):
    await rp.configure(authorizedResourceUris=[])
    for resource in (ONE, "/api", [ONE, "#"]):
        code = await rp.code(browser, resource=resource)
        assert audience((await rp.exchange(http, code, resource=resource)).json()) == rp.client_id


@pytest.mark.requirement("oauth-1.1-3")
async def test_empty_values_are_absent(rp, browser, http):
    code = await rp.code(browser, resource=["", ""])
    assert audience((await rp.exchange(http, code, resource=["", ""])).json()) == rp.client_id


@pytest.mark.requirement("oauth-2.10-10")
async def test_implicit_token_is_for_the_resources_of_the_request(rp, browser, http):
    shown = await rp.authorize(browser, response_type="id_token token", nonce="n", resource=[ONE, THIRD])
    given = response(await rp.submit(browser, shown))
    assert audience(given) == [rp.client_id, ONE, THIRD]
    assert claims(given["id_token"])["aud"] == rp.client_id
    await usable(rp, http, given)


@pytest.mark.requirement("oauth-1.1-3")
async def test_login_form_keeps_every_resource(rp, browser, http):
    shown = await browser.post("/oauth2/authorize", data={**rp.query(), "resource": [ONE, OTHER]})
    assert page(shown).forms[0]["fields"]["resource"] == f"{ONE} {OTHER}"
    code = response(await rp.submit(browser, shown))["code"]
    assert audience((await rp.exchange(http, code, resource=[OTHER, ONE])).json()) == [rp.client_id, OTHER, ONE]


@pytest.mark.requirement("oauth-1.1-3")
async def test_pushed_request_may_have_resources(rp, browser, http):
    form = {**rp.query(), "client_secret": rp.secret, "resource": [ONE, OTHER]}
    uri = (await http.post("/oauth2/par", data=form)).json()["request_uri"]
    query = urllib.parse.urlencode({"client_id": rp.client_id, "request_uri": uri})
    shown = await browser.get(f"/oauth2/authorize?{query}", follow_redirects=True)
    code = response(await rp.submit(browser, shown))["code"]
    assert audience((await rp.exchange(http, code, resource=OTHER)).json()) == [rp.client_id, OTHER]
    refused(await http.post("/oauth2/par", data={**form, "resource": [ONE, "/api"]}))


@pytest.mark.requirement("oauth-2.2-8")
async def test_password_and_device_grants_accept_resources(rp, http, api):
    form = {"grant_type": "password", "username": rp.login_id, "password": PASSWORD, "scope": "offline_access"}
    tokens = (await rp.token(http, **form, resource=[ONE, OTHER])).json()
    assert audience(tokens) == [rp.client_id, ONE, OTHER]
    narrowed = (await rp.refresh(http, tokens["refresh_token"], resource=ONE)).json()
    assert audience(narrowed) == [rp.client_id, ONE]
    refused(await rp.token(http, **form, resource="https://unknown.example.com/"))
    client = await device_client(api, authorizedResourceUris=[ONE])
    device = await Device.begin(client, http)
    refused(await device.poll(resource=OTHER))
    await device.approved(http)
    answer = await device.poll(resource=ONE)
    assert audience(answer.json()) == [client.client_id, ONE]
    assert DEVICE_GRANT in claims(answer.json()["access_token"])["gty"]


async def test_other_repeated_parameters_are_rejected(rp, http):
    body = f"grant_type=password&grant_type=password&client_id={rp.client_id}"
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = await http.post("/oauth2/token", content=body, headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")


@pytest.mark.requirement("oauth-12-3")
async def test_oversized_resources_are_rejected(rp, http):
    many = [f"https://example.com/{number:03}/{'x' * 900}" for number in range(20)]
    await rp.configure(authorizedResourceUris=many)
    form = {"grant_type": "password", "username": rp.login_id, "password": PASSWORD, "scope": "offline_access"}
    refused(await rp.token(http, **form, resource=many))
    assert (await rp.token(http, **form, resource=many[:5])).status_code == 200


@pytest.mark.requirement("core-9-oauthConfiguration")
async def test_resource_list_requires_absolute_uris(rp):
    for uri in ("/api", "one", f"{ONE}#fragment", "https:", f"{ONE} {OTHER}"):
        body = {"application": {"oauthConfiguration": {"authorizedResourceUris": [ONE, uri]}}}
        headers = {"Content-Type": "application/merge-patch+json", "X-FusionAuth-TenantId": rp.tenant["id"]}
        answer = await rp.api.patch(f"/api/application/{rp.client_id}", content=json.dumps(body), headers=headers)
        field = "application.oauthConfiguration.authorizedResourceUris[1]"
        assert answer.json()["fieldErrors"][field][0]["code"] == f"[invalid]{field}"
