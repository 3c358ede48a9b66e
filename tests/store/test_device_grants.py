"""Device grants: one decision, one consumption, separation of tenants, and the result of a poll in each state."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

from identity.domain.authorization.device_grants import DeviceApproval, DeviceRequest
from identity.ids import TenantId, fingerprint, new_id, new_secret
from identity.instants import Instant, later
from identity.store.device_grants import RETENTION_SECONDS, DeviceGrants, NewDeviceGrant

NOW = Instant(1_800_000_000_000)
APPROVAL = DeviceApproval("u", ("openid",), NOW, "PASSWORD", ("pwd",))


@dataclasses.dataclass
class Scenario:
    """A pending grant."""

    grants: DeviceGrants
    tenant_id: TenantId
    device_code: str
    user_code: str
    new: NewDeviceGrant

    async def poll(self, seconds: float = 0, **changes: Any) -> Any:
        given = {
            "tenant_id": self.tenant_id,
            "device_code": self.device_code,
            "client_id": self.new.client_id,
            **changes,
        }
        return await self.grants.poll(**given, now=later(NOW, seconds=seconds))

    async def decide(self, decision: str = "Approved", seconds: float = 0, **changes: Any) -> str:
        given = {"tenant_id": self.tenant_id, "user_code": self.user_code, "grant_id": self.new.grant_id, **changes}
        approval = APPROVAL if decision == "Approved" else None
        return await self.grants.decide(**given, approval=approval, now=later(NOW, seconds=seconds))

    async def status(self, seconds: float = 0) -> str:
        found = await self.grants.find(self.tenant_id, self.user_code, later(NOW, seconds=seconds))
        assert found is not None
        return found.status


@pytest.fixture
async def scenario(redis) -> Scenario:
    request = DeviceRequest(("openid",), "192.0.2.1", {"name": "TV"}, "link", "BCDFGH")
    new = NewDeviceGrant(new_id(), new_id(), request, later(NOW, seconds=300), 5)
    made = Scenario(DeviceGrants(redis), TenantId(new_id()), new_secret(), "BCDFGH", new)
    assert await made.grants.issue(made.tenant_id, made.device_code, made.user_code, new, NOW)
    return made


async def test_grant_is_found_by_its_user_code(scenario):
    found = await scenario.grants.find(scenario.tenant_id, "BCDFGH", NOW)
    assert found is not None
    assert (found.grant_id, found.client_id, found.status) == (scenario.new.grant_id, scenario.new.client_id, "Pending")
    assert (found.request, found.expires) == (scenario.new.request, scenario.new.expires)
    assert await scenario.grants.find(scenario.tenant_id, "XXXXXX", NOW) is None


@pytest.mark.requirement("contract-states-1")
async def test_approved_grant_is_consumed_once(scenario):
    assert (await scenario.poll()).outcome == "Pending"
    assert await scenario.decide() == "Approved"
    poll = await scenario.poll(1)
    assert (poll.outcome, poll.device, poll.approval) == ("Approved", {"name": "TV"}, APPROVAL)
    again = await scenario.poll(20)
    assert (again.outcome, again.device, again.approval, again.issued) == ("Consumed", {}, None, None)
    assert await scenario.status() == "Consumed"


async def test_second_use_returns_the_issued_tokens(scenario):
    await scenario.decide()
    await scenario.poll()
    assert await scenario.grants.record_redemption(
        scenario.tenant_id, scenario.device_code, scenario.new.client_id, {"tokenIds": ["a"]}
    )
    assert (await scenario.poll(6)).issued == {"tokenIds": ["a"]}


async def test_redemption_reports_an_earlier_second_use(scenario):
    await scenario.decide()
    await scenario.poll()
    await scenario.poll()
    assert not await scenario.grants.record_redemption(
        scenario.tenant_id, scenario.device_code, scenario.new.client_id, {"tokenIds": []}
    )


@pytest.mark.requirement("contract-errors-8", "oauth-2.2-31")
async def test_first_poll_is_never_too_fast_and_each_one_that_is_makes_the_interval_longer(scenario):
    # The interval is 5, then 10, 15 and 20, always from the last poll that was not too fast, and a second less will do.
    outcomes = [(await scenario.poll(seconds)).outcome for seconds in (0, 3, 9.1, 18, 29, 42.9, 48.1)]
    assert outcomes == ["Pending", "TooFast", "Pending", "TooFast", "Pending", "TooFast", "Pending"]


@pytest.mark.requirement("contract-errors-8")
async def test_device_that_respects_the_interval_is_not_slowed_down(scenario):
    for number in range(20):
        assert (await scenario.poll(number * 5 - (number % 2) * 0.9)).outcome == "Pending"


async def test_slow_down_delays_neither_tokens_nor_denials(scenario):
    await scenario.poll(0)
    assert (await scenario.poll(1)).outcome == "TooFast"
    await scenario.decide()
    assert (await scenario.poll(1.1)).outcome == "Approved"


@pytest.mark.requirement("oauth-3-5")
async def test_denied_grant_stays_denied(scenario):
    assert await scenario.decide("Denied") == "Denied"
    assert [(await scenario.poll(seconds)).outcome for seconds in (1, 2)] == ["Denied", "Denied"]
    assert await scenario.decide("Approved") == "Unknown"
    assert await scenario.status() == "Denied"


@pytest.mark.requirement("oauth-3-5")
@pytest.mark.parametrize("is_approved", [True, False])
async def test_grant_expires_whether_it_was_approved_or_not(scenario, is_approved):
    if is_approved:
        await scenario.decide(seconds=299)
    assert await scenario.status(299.9) == ("Approved" if is_approved else "Pending")
    assert await scenario.status(300) == "Expired"
    assert (await scenario.poll(300)).outcome == "Expired"
    if not is_approved:
        assert await scenario.decide(seconds=300) == "Expired"


@pytest.mark.requirement("oauth-3-5")
async def test_decision_does_not_apply_to_another_grant_with_the_same_code(scenario):
    assert await scenario.decide(grant_id=new_id()) == "Unknown"
    assert await scenario.status() == "Pending"


async def test_poll_of_another_client_reveals_and_changes_nothing(scenario):
    await scenario.poll(0)
    await scenario.decide()
    assert (await scenario.poll(1, client_id=new_id())).outcome == "Unknown"
    assert (await scenario.poll(1)).outcome == "Approved"


@pytest.mark.requirement("oauth-3-5")
async def test_grant_of_one_tenant_is_nothing_in_another(scenario):
    other = TenantId(new_id())
    assert await scenario.grants.find(other, scenario.user_code, NOW) is None
    assert await scenario.decide(tenant_id=other) == "Unknown"
    assert (await scenario.poll(tenant_id=other)).outcome == "Unknown"
    await scenario.grants.record_redemption(other, scenario.device_code, scenario.new.client_id, {})
    assert await scenario.grants.issue(other, scenario.device_code, scenario.user_code, scenario.new, NOW)
    assert await scenario.status() == "Pending"


@pytest.mark.requirement("oauth-3-3")
async def test_active_user_code_is_not_issued_again(scenario):
    issue = scenario.grants.issue
    assert not await issue(scenario.tenant_id, new_secret(), scenario.user_code, scenario.new, later(NOW, seconds=299))
    await scenario.decide()
    assert not await issue(scenario.tenant_id, new_secret(), scenario.user_code, scenario.new, NOW)
    await scenario.poll()
    fresh = dataclasses.replace(scenario.new, grant_id=new_id())
    assert await issue(scenario.tenant_id, new_secret(), scenario.user_code, fresh, NOW)
    assert (await scenario.grants.find(scenario.tenant_id, scenario.user_code, NOW)).grant_id == fresh.grant_id


async def test_expired_user_code_can_be_issued_again(scenario):
    at = later(NOW, seconds=300)
    fresh = dataclasses.replace(scenario.new, grant_id=new_id(), expires=later(at, seconds=300))
    assert await scenario.grants.issue(scenario.tenant_id, new_secret(), scenario.user_code, fresh, at)
    assert (await scenario.grants.find(scenario.tenant_id, scenario.user_code, at)).grant_id == fresh.grant_id
    assert (await scenario.poll(300)).outcome == "Expired"


@pytest.mark.requirement("oauth-2.2-32")
async def test_of_64_racing_callers_one_gets_the_grant(scenario):
    await scenario.decide()
    outcomes = [poll.outcome for poll in await asyncio.gather(*(scenario.poll() for _ in range(64)))]
    assert sorted(outcomes) == ["Approved"] + ["Consumed"] * 63


@pytest.mark.requirement("contract-states-1")
async def test_of_64_racing_decisions_one_counts(scenario):
    decisions = ("Approved", "Denied") * 32
    outcomes = await asyncio.gather(*(scenario.decide(decision) for decision in decisions))
    assert sorted(outcomes)[1:] == ["Unknown"] * 63
    assert await scenario.status() == min(outcomes)


async def test_keys_hold_hashes_and_outlive_the_codes_by_a_quarter_of_an_hour(scenario, redis):
    keys = [key async for key in redis.client.scan_iter(match=f"*{scenario.tenant_id}*")]
    assert {key.rpartition(":")[2] for key in keys} == {
        fingerprint(scenario.device_code),
        fingerprint(scenario.user_code),
    }
    for key in keys:
        assert 300 + RETENTION_SECONDS - 5 < await redis.client.ttl(key) <= 300 + RETENTION_SECONDS
    await scenario.decide()
    await scenario.poll()
    device_key = next(key for key in keys if key.endswith(fingerprint(scenario.device_code)))
    assert 0 < await redis.client.ttl(device_key) <= RETENTION_SECONDS
    assert not {"grant", "approval"} & set(await redis.client.hkeys(device_key))
