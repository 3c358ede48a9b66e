"""Authorization codes and pushed requests: consumed once, by one caller, in one tenant; a replay of a code."""

from __future__ import annotations

import asyncio

import pytest

from identity.ids import ApplicationId, TenantId, fingerprint, new_id, new_secret
from identity.store.authorization_codes import TOMBSTONE_SECONDS, AuthorizationCodes, PushedRequests

GRANT = {"userId": "u", "scopes": ["openid"], "nonce": "n-0S6_WzA2Mj"}


@pytest.fixture
def codes(redis) -> AuthorizationCodes:
    return AuthorizationCodes(redis)


async def issued(codes: AuthorizationCodes, ttl_seconds: int = 30) -> tuple[TenantId, str]:
    tenant_id, code = TenantId(new_id()), new_secret()
    await codes.issue(tenant_id, code, GRANT, ttl_seconds)
    return tenant_id, code


async def test_code_is_consumed_once(codes):
    tenant_id, code = await issued(codes)
    first = await codes.consume(tenant_id, code)
    assert (first.outcome, first.grant) == ("fresh", GRANT)
    second = await codes.consume(tenant_id, code)
    assert (second.outcome, second.grant, second.issued) == ("replayed", None, None)


async def test_unknown_code_remains_unknown(codes):
    tenant_id = TenantId(new_id())
    for _ in range(2):
        assert (await codes.consume(tenant_id, "unknown")).outcome == "unknown"


@pytest.mark.requirement("oauth-1.8-3")
async def test_replay_returns_the_issued_tokens(codes):
    tenant_id, code = await issued(codes)
    await codes.consume(tenant_id, code)
    assert await codes.record_redemption(tenant_id, code, {"tokenIds": ["a"]})
    assert (await codes.consume(tenant_id, code)).issued == {"tokenIds": ["a"]}


async def test_redemption_reports_an_earlier_replay(codes):
    tenant_id, code = await issued(codes)
    await codes.consume(tenant_id, code)
    assert (await codes.consume(tenant_id, code)).outcome == "replayed"
    assert not await codes.record_redemption(tenant_id, code, {"tokenIds": ["a"]})


@pytest.mark.requirement("attack-21", "design-state-6")
async def test_of_64_racing_callers_one_finds_the_code_fresh(codes):
    tenant_id, code = await issued(codes)
    found = await asyncio.gather(*(codes.consume(tenant_id, code) for _ in range(64)))
    assert sorted(consumption.outcome for consumption in found) == ["fresh"] + ["replayed"] * 63


@pytest.mark.requirement("design-state-27")
async def test_code_is_unknown_in_another_tenant(codes):
    tenant_id, code = await issued(codes)
    assert (await codes.consume(TenantId(new_id()), code)).outcome == "unknown"
    assert (await codes.consume(tenant_id, code)).outcome == "fresh"


async def test_redemption_in_another_tenant_does_not_change_the_code(codes):
    tenant_id, code = await issued(codes)
    await codes.record_redemption(TenantId(new_id()), code, {"tokenIds": ["a"]})
    assert (await codes.consume(tenant_id, code)).outcome == "fresh"


@pytest.mark.requirement("design-core-4", "design-state-6")
async def test_key_holds_a_hash_and_lives_as_long_as_the_code(codes, redis):
    tenant_id, code = await issued(codes, 30)
    key = redis.key("code", tenant_id, fingerprint(code))
    assert code not in key
    assert 0 < await redis.client.ttl(key) <= 30


@pytest.mark.requirement("certification-token-2", "oauth-1.8-3")
async def test_tombstone_outlives_the_code_and_holds_no_grant(codes, redis):
    tenant_id, code = await issued(codes, 1)
    await codes.consume(tenant_id, code)
    key = redis.key("code", tenant_id, fingerprint(code))
    assert 30 < await redis.client.ttl(key) <= TOMBSTONE_SECONDS
    assert await redis.client.hkeys(key) == ["used"]


REQUEST = {"scope": "openid", "redirect_uri": "https://app.example.com/"}


@pytest.fixture
def requests(redis) -> PushedRequests:
    return PushedRequests(redis)


@pytest.fixture
def owner() -> tuple[TenantId, ApplicationId]:
    return TenantId(new_id()), ApplicationId(new_id())


async def test_request_is_found_repeatedly_and_consumed_once(requests, owner):
    await requests.save(*owner, "secret", REQUEST, 30)
    assert await requests.find(*owner, "secret") == REQUEST
    assert await requests.find(*owner, "secret") == REQUEST
    assert await requests.consume(*owner, "secret") == REQUEST
    assert await requests.consume(*owner, "secret") is None
    assert await requests.find(*owner, "secret") is None


@pytest.mark.requirement("oauth-12-11")
async def test_of_64_racing_callers_one_gets_the_request(requests, owner):
    await requests.save(*owner, "secret", REQUEST, 30)
    found = await asyncio.gather(*(requests.consume(*owner, "secret") for _ in range(64)))
    assert [request for request in found if request is not None] == [REQUEST]


@pytest.mark.requirement("oauth-12-11")
async def test_another_tenant_or_client_can_neither_find_nor_consume_it(requests, owner):
    tenant_id, client_id = owner
    await requests.save(*owner, "secret", REQUEST, 30)
    for other in ((TenantId(new_id()), client_id), (tenant_id, ApplicationId(new_id()))):
        assert await requests.find(*other, "secret") is None
        assert await requests.consume(*other, "secret") is None
    assert await requests.consume(*owner, "secret") == REQUEST


async def test_secret_is_not_stored_and_the_value_expires(requests, owner, redis):
    await requests.save(*owner, "secret", REQUEST, 30)
    key = redis.key("pushed-request", *owner, fingerprint("secret"))
    assert "secret" not in await redis.client.get(key)
    assert 0 < await redis.client.ttl(key) <= 30
