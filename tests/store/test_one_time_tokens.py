"""One-time tokens, one-time ids and open verifications: consumed once, separated by tenant, and expiring."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from identity.ids import TenantId, fingerprint, new_id
from identity.store.one_time_tokens import OneTimeIds, OneTimeTokens, OpenVerifications

KIND = "change-password"
DOCUMENT = {"state": "the-state"}


@pytest.fixture
def one_time_tokens(redis) -> OneTimeTokens:
    return OneTimeTokens(redis)


@pytest.fixture
def tenant_id() -> TenantId:
    return TenantId(new_id())


async def test_token_is_found_repeatedly_and_consumed_once(one_time_tokens, tenant_id):
    secret = await one_time_tokens.issue(tenant_id, KIND, "a user", DOCUMENT, 30)
    found = await one_time_tokens.find(tenant_id, KIND, secret)
    assert (found.tenant_id, found.owner, found.document) == (tenant_id, "a user", DOCUMENT)
    assert await one_time_tokens.find(None, KIND, secret) == found
    assert await one_time_tokens.consume(None, KIND, secret) == found
    assert await one_time_tokens.consume(None, KIND, secret) is None
    assert await one_time_tokens.find(tenant_id, KIND, secret) is None


async def test_of_64_racing_callers_one_gets_the_ticket(one_time_tokens, tenant_id):
    secret = await one_time_tokens.issue(tenant_id, KIND, "a user", DOCUMENT, 30)
    found = await asyncio.gather(*(one_time_tokens.consume(tenant_id, KIND, secret) for _ in range(64)))
    assert [ticket.document for ticket in found if ticket is not None] == [DOCUMENT]


async def test_another_tenant_can_neither_find_change_nor_consume_it(one_time_tokens, tenant_id):
    secret, other = await one_time_tokens.issue(tenant_id, KIND, "a user", DOCUMENT, 30), TenantId(new_id())
    assert await one_time_tokens.find(other, KIND, secret) is None
    assert await one_time_tokens.find_counting_attempt(other, KIND, secret, 1) is None
    assert await one_time_tokens.consume(other, KIND, secret) is None
    assert not await one_time_tokens.replace(other, KIND, secret, {})
    await one_time_tokens.revoke_all(other, KIND, "a user")
    assert (await one_time_tokens.consume(tenant_id, KIND, secret)).document == DOCUMENT


async def test_token_of_another_kind_is_not_found(one_time_tokens, tenant_id):
    secret = await one_time_tokens.issue(tenant_id, KIND, "a user", DOCUMENT, 30)
    assert await one_time_tokens.find(tenant_id, "verify-email", secret) is None


async def test_tokens_of_an_owner_are_revoked_together(one_time_tokens, tenant_id):
    mine = [await one_time_tokens.issue(tenant_id, KIND, "a user", DOCUMENT, 30) for _ in range(2)]
    kept = await one_time_tokens.issue(tenant_id, KIND, "another user", DOCUMENT, 30)
    await one_time_tokens.revoke_all(tenant_id, KIND, "a user")
    assert [await one_time_tokens.find(tenant_id, KIND, secret) for secret in mine] == [None, None]
    assert await one_time_tokens.find(tenant_id, KIND, kept) is not None
    again = await one_time_tokens.issue(tenant_id, KIND, "a user", DOCUMENT, 30)
    assert await one_time_tokens.find(tenant_id, KIND, again) is not None
    assert await one_time_tokens.consume(tenant_id, KIND, mine[0]) is None


async def test_new_token_can_replace_earlier_ones(one_time_tokens, tenant_id):
    first = await one_time_tokens.issue(tenant_id, KIND, "a user", DOCUMENT, 30)
    second = await one_time_tokens.issue(tenant_id, KIND, "a user", DOCUMENT, 30, replaces=True)
    assert await one_time_tokens.find(tenant_id, KIND, first) is None
    assert await one_time_tokens.find(tenant_id, KIND, second) is not None


async def test_extending_a_token_does_not_reset_its_attempts(one_time_tokens, tenant_id, redis):
    secret = await one_time_tokens.issue(tenant_id, KIND, "a user", DOCUMENT, 30)
    for _ in range(3):
        assert await one_time_tokens.find_counting_attempt(tenant_id, KIND, secret, 3) is not None
    assert not await one_time_tokens.extend(TenantId(new_id()), KIND, secret, 3000)
    assert not await one_time_tokens.extend(tenant_id, "another kind", secret, 3000)
    keys = [key async for key in redis.client.scan_iter(redis.key("ticket*", KIND, "*"))]
    keys = [key for key in keys if fingerprint(secret) in key or tenant_id in key]
    assert len(keys) == 3 and max([await redis.client.ttl(key) for key in keys]) <= 30
    assert await one_time_tokens.extend(tenant_id, KIND, secret, 3000)
    assert min([await redis.client.ttl(key) for key in keys]) > 30
    assert await one_time_tokens.find(tenant_id, KIND, secret) is not None
    assert await one_time_tokens.find_counting_attempt(tenant_id, KIND, secret, 3) is None
    assert not await one_time_tokens.extend(tenant_id, KIND, secret, 3000)


async def test_short_ids_are_unique(one_time_tokens, tenant_id):
    same = f"{new_id()}-1"
    made = itertools.chain([same, same], itertools.repeat(f"{same}-2"))
    assert await one_time_tokens.issue(tenant_id, KIND, "a user", DOCUMENT, 30, make=lambda: next(made)) == same
    assert await one_time_tokens.issue(tenant_id, KIND, "a user", DOCUMENT, 30, make=lambda: next(made)) == f"{same}-2"
    assert await one_time_tokens.issue(tenant_id, KIND, "a user", DOCUMENT, 30, make=lambda: same) is None


async def test_token_is_not_found_after_the_maximum_of_attempts(one_time_tokens, tenant_id):
    secret = await one_time_tokens.issue(tenant_id, KIND, "a user", DOCUMENT, 30)
    found = await asyncio.gather(
        *(one_time_tokens.find_counting_attempt(tenant_id, KIND, secret, 3) for _ in range(64))
    )
    assert sum(ticket is not None for ticket in found) <= 3
    assert await one_time_tokens.find(tenant_id, KIND, secret) is None


async def test_of_64_racing_attempts_one_consumes_the_token(one_time_tokens, tenant_id):
    secret = await one_time_tokens.issue(tenant_id, KIND, "a user", DOCUMENT, 30)

    async def racer() -> bool:
        if await one_time_tokens.find_counting_attempt(tenant_id, KIND, secret, 3) is None:
            return False
        return await one_time_tokens.consume(tenant_id, KIND, secret) is not None

    assert sum(await asyncio.gather(*(racer() for _ in range(64)))) == 1
    assert await one_time_tokens.consume(tenant_id, KIND, secret) is None


async def test_exhausted_token_remains_bound_to_its_tenant(one_time_tokens, tenant_id):
    secret = await one_time_tokens.issue(tenant_id, KIND, "a user", DOCUMENT, 30)
    for _ in range(4):
        await one_time_tokens.find_counting_attempt(tenant_id, KIND, secret, 3)
    assert await one_time_tokens.consume(TenantId(new_id()), KIND, secret) is None
    assert await one_time_tokens.consume(tenant_id, KIND, secret) is not None


async def test_document_may_change_while_the_id_stays(one_time_tokens, tenant_id, redis):
    secret = await one_time_tokens.issue(tenant_id, KIND, "a user", DOCUMENT, 30)
    assert await one_time_tokens.replace(tenant_id, KIND, secret, {"state": "another"})
    assert (await one_time_tokens.find(tenant_id, KIND, secret)).document == {"state": "another"}
    assert 0 < await redis.client.ttl(redis.key("ticket", KIND, f"{{{fingerprint(secret)}}}")) <= 30
    await one_time_tokens.consume(tenant_id, KIND, secret)
    assert not await one_time_tokens.replace(tenant_id, KIND, secret, DOCUMENT)


async def test_no_secret_is_stored_and_the_value_expires(one_time_tokens, tenant_id, redis):
    secret = await one_time_tokens.issue(tenant_id, KIND, "a user", DOCUMENT, 30)
    await one_time_tokens.find_counting_attempt(tenant_id, KIND, secret, 3)
    key = redis.key("ticket", KIND, f"{{{fingerprint(secret)}}}")
    assert secret not in key + str(await redis.client.get(key))
    names = [key, f"{key}:tries", redis.key("ticket-owner", KIND, tenant_id, "a user")]
    assert [0 < await redis.client.ttl(name) <= 30 for name in names] == [True, True, True]


@pytest.mark.requirement("attack-40")
async def test_of_64_racing_uses_of_an_id_one_succeeds(redis):
    ids, tenant_id = OneTimeIds(redis), TenantId(new_id())
    answers = await asyncio.gather(*(ids.mark_used(tenant_id, "assertion", "owner", "jti", 60) for _ in range(64)))
    assert sorted(answers) == [False] * 63 + [True]


@pytest.mark.requirement("attack-40")
async def test_ids_are_separate_by_tenant_purpose_and_owner(redis):
    ids, tenant_id = OneTimeIds(redis), TenantId(new_id())
    assert await ids.mark_used(tenant_id, "assertion", "owner", "jti", 60)
    assert await ids.mark_used(TenantId(new_id()), "assertion", "owner", "jti", 60)
    assert await ids.mark_used(tenant_id, "proof", "owner", "jti", 60)
    assert await ids.mark_used(tenant_id, "assertion", "other", "jti", 60)
    assert await ids.mark_used(tenant_id, "assertion", "owner jti", "", 60)
    assert not await ids.mark_used(tenant_id, "assertion", "owner", "jti", 60)


async def test_finding_an_id_does_not_consume_it_and_respects_the_tenant(redis):
    ids, tenant_id = OneTimeIds(redis), TenantId(new_id())
    assert not await ids.is_used(tenant_id, "assertion", "owner", "jti")
    assert await ids.mark_used(tenant_id, "assertion", "owner", "jti", 60)
    assert await ids.is_used(tenant_id, "assertion", "owner", "jti")
    assert not await ids.is_used(TenantId(new_id()), "assertion", "owner", "jti")


async def test_used_id_is_stored_as_a_fingerprint_until_it_expires(redis):
    ids, tenant_id = OneTimeIds(redis), TenantId(new_id())
    assert await ids.mark_used(tenant_id, "assertion", "owner", "jti", 60)
    key = redis.key("used", "assertion", tenant_id, fingerprint("owner"), fingerprint("jti"))
    assert 0 < await redis.client.ttl(key) <= 60
    assert await ids.mark_used(tenant_id, "assertion", "owner", "ended", -5)
    assert (
        await redis.client.ttl(redis.key("used", "assertion", tenant_id, fingerprint("owner"), fingerprint("ended")))
        <= 1
    )


KIND_OF_OPEN_VERIFICATIONS = "emailVerification"
GIVEN = {"id": "the id of a verification", "code": "BCDFGH"}


@pytest.fixture
def verifications(redis, vault) -> OpenVerifications:
    return OpenVerifications(redis, vault)


async def test_latest_verification_is_found_and_can_be_deleted(verifications, tenant_id):
    assert await verifications.find(tenant_id, KIND_OF_OPEN_VERIFICATIONS, "a user") is None
    await verifications.save(tenant_id, KIND_OF_OPEN_VERIFICATIONS, "a user", {"id": "an older id", "code": None}, 30)
    await verifications.save(tenant_id, KIND_OF_OPEN_VERIFICATIONS, "a user", GIVEN, 30)
    assert await verifications.find(tenant_id, KIND_OF_OPEN_VERIFICATIONS, "a user") == GIVEN
    assert await verifications.find(tenant_id, "registrationVerification", "a user") is None
    await verifications.delete(tenant_id, KIND_OF_OPEN_VERIFICATIONS, "a user")
    assert await verifications.find(tenant_id, KIND_OF_OPEN_VERIFICATIONS, "a user") is None


async def test_another_tenant_can_neither_find_nor_delete_it(verifications, tenant_id):
    other = TenantId(new_id())
    await verifications.save(tenant_id, KIND_OF_OPEN_VERIFICATIONS, "a user", GIVEN, 30)
    assert await verifications.find(other, KIND_OF_OPEN_VERIFICATIONS, "a user") is None
    await verifications.delete(other, KIND_OF_OPEN_VERIFICATIONS, "a user")
    await verifications.save(other, KIND_OF_OPEN_VERIFICATIONS, "a user", {"id": "theirs", "code": None}, 30)
    assert await verifications.find(tenant_id, KIND_OF_OPEN_VERIFICATIONS, "a user") == GIVEN


async def test_value_is_sealed_and_expires(verifications, tenant_id, redis):
    await verifications.save(tenant_id, KIND_OF_OPEN_VERIFICATIONS, "a user", GIVEN, 30)
    (key,) = [
        key
        async for key in redis.client.scan_iter(
            redis.key("open-verification", KIND_OF_OPEN_VERIFICATIONS, tenant_id, "*")
        )
    ]
    assert 0 < await redis.client.ttl(key) <= 30
    stored = await redis.client.get(key)
    assert GIVEN["id"] not in stored and GIVEN["code"] not in stored
