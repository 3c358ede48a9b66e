"""Introspection of tokens with several or foreign audiences, and of tokens revoked by another process."""

from __future__ import annotations

import shutil

import httpx
import pytest

from tests import internals, plain_http, relying_party
from tests.receiver import until
from tests.relying_party import claims

INACTIVE = {"active": False}
UNKNOWN_ID = "3a4d6c0e-5b1f-4c52-9d0e-8f7a6b5c4d3e"
FAR_FUTURE = 4_102_444_800


async def introspect(rp, http, token: str) -> httpx.Response:
    form = {"client_id": rp.client_id, "client_secret": rp.secret, "token": token}
    return await http.post("/oauth2/introspect", data=form)


async def revoke(rp, http, token: str) -> httpx.Response:
    form = {"client_id": rp.client_id, "client_secret": rp.secret, "token": token}
    return await http.post("/oauth2/revoke", data=form)


@pytest.fixture
async def forge(rp, browser, http, service):
    """Signs the claims of a real access token, changed, with the key of its tenant."""
    services = service.services
    tenant = await services.configuration.tenants.get(None, rp.tenant["id"])
    token = claims((await rp.tokens(http, browser))["access_token"])

    async def sign(**changes: object) -> str:
        changed = {name: value for name, value in {**token, **changes}.items() if value is not None}
        return await services.tokens.issuer.sign(tenant["jwtConfiguration"]["accessTokenKeyId"], changed, tenant)

    return sign


async def test_token_with_several_audiences_is_described_to_each(rp, http, api, forge):
    other = await relying_party.make(api, tenant=rp.tenant)
    stranger = await relying_party.make(api, tenant=rp.tenant)
    for audience in ([rp.client_id, other.client_id], [other.client_id, rp.client_id, "https://api.example.com"]):
        token = await forge(aud=audience)
        for party in (rp, other):
            introspection = (await introspect(party, http, token)).json()
            assert (introspection["active"], introspection["aud"]) == (True, audience)
        refused = await introspect(stranger, http, token)
        assert (refused.status_code, refused.json()["error_reason"]) == (401, "client_id_mismatch")
    alone = await introspect(rp, http, await forge(aud=[rp.client_id]))
    assert alone.json()["active"] is True


async def test_attack_30_token_with_several_audiences_is_limited_to_its_tenant(rp, http, api, forge):
    elsewhere = await relying_party.make(api)
    token = await forge(aud=[rp.client_id, elsewhere.client_id])
    assert (await introspect(elsewhere, http, token)).json() == INACTIVE
    token = await forge(aud=[elsewhere.client_id, rp.client_id])
    for party in (rp, elsewhere):
        assert (await introspect(party, http, token)).json() == INACTIVE


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "https://other.example.com"}, {"iss": None}, {"aud": []}, {"aud": None}, {"aud": UNKNOWN_ID},
        {"tid": UNKNOWN_ID}, {"tty": "logout"}, {"tty": None}, {"exp": None}, {"sub": None}, {"sub": UNKNOWN_ID},
        {"jti": None}, {"nbf": FAR_FUTURE},
    ],
    ids=str,
)  # fmt: skip
async def test_foreign_or_early_token_is_inactive_and_cannot_be_revoked(rp, http, forge, changes):
    token = await forge(**changes)
    assert (await introspect(rp, http, token)).json() == INACTIVE
    answer = await revoke(rp, http, token)
    assert (answer.status_code, answer.content) == (200, b"")


async def test_revocation_applies_to_all_processes(rp, browser, http, api, service, build, session_clock, tmp_path):
    config = internals.config(service)
    data_dir = shutil.copytree(config.data_dir, tmp_path / "second")
    one, two, third = [await rp.tokens(http, browser) for _ in range(3)]
    async with (
        build(clock=session_clock, role="web", data_dir=data_dir, database=config.mongodb.database) as second,
        plain_http.client(second.base_url) as there,
    ):
        for tokens in (one, two, third):
            assert (await introspect(rp, there, tokens["access_token"])).json()["active"] is True
        await revoke(rp, http, one["access_token"])
        assert (await introspect(rp, there, one["access_token"])).json() == INACTIVE
        await revoke(rp, http, two["refresh_token"])
        assert (await introspect(rp, there, two["access_token"])).json() == INACTIVE
        headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
        assert (await api.delete(f"/api/user/{rp.user['id']}", headers=headers)).status_code == 200

        async def has_expired() -> bool:
            return (await introspect(rp, there, third["access_token"])).json() == INACTIVE

        await until(has_expired)
