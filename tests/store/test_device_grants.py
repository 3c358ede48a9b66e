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
class Scene:
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
async def scene(redis) -> Scene:
    request = DeviceRequest(("openid",), "192.0.2.1", {"name": "TV"}, "link", "BCDFGH")
    new = NewDeviceGrant(new_id(), new_id(), request, later(NOW, seconds=300), 5)
    made = Scene(DeviceGrants(redis), TenantId(new_id()), new_secret(), "BCDFGH", new)
    assert await made.grants.issue(made.tenant_id, made.device_code, made.user_code, new, NOW)
    return made


async def test_grant_is_found_by_its_user_code(scene):
    found = await scene.grants.find(scene.tenant_id, "BCDFGH", NOW)
    assert found is not None
    assert (found.grant_id, found.client_id, found.status) == (scene.new.grant_id, scene.new.client_id, "Pending")
    assert (found.request, found.expires) == (scene.new.request, scene.new.expires)
    assert await scene.grants.find(scene.tenant_id, "XXXXXX", NOW) is None


@pytest.mark.requirement("contract-states-1")
async def test_approved_grant_is_consumed_once(scene):
    assert (await scene.poll()).outcome == "Pending"
    assert await scene.decide() == "Approved"
    poll = await scene.poll(1)
    assert (poll.outcome, poll.device, poll.approval) == ("Approved", {"name": "TV"}, APPROVAL)
    again = await scene.poll(20)
    assert (again.outcome, again.device, again.approval, again.issued) == ("Consumed", {}, None, None)
    assert await scene.status() == "Consumed"


async def test_second_use_returns_the_issued_tokens(scene):
    await scene.decide()
    await scene.poll()
    assert await scene.grants.record_redemption(
        scene.tenant_id, scene.device_code, scene.new.client_id, {"tokenIds": ["a"]}
    )
    assert (await scene.poll(6)).issued == {"tokenIds": ["a"]}


async def test_redemption_reports_an_earlier_second_use(scene):
    await scene.decide()
    await scene.poll()
    await scene.poll()
    assert not await scene.grants.record_redemption(
        scene.tenant_id, scene.device_code, scene.new.client_id, {"tokenIds": []}
    )


@pytest.mark.requirement("contract-errors-8", "oauth-2.2-31")
async def test_first_poll_is_never_too_fast_and_each_one_that_is_makes_the_interval_longer(scene):
    # The interval is 5, then 10, 15 and 20, always from the last poll that was not too fast, and a second less will do.
    outcomes = [(await scene.poll(seconds)).outcome for seconds in (0, 3, 9.1, 18, 29, 42.9, 48.1)]
    assert outcomes == ["Pending", "TooFast", "Pending", "TooFast", "Pending", "TooFast", "Pending"]


@pytest.mark.requirement("contract-errors-8")
async def test_device_that_respects_the_interval_is_not_slowed_down(scene):
    for number in range(20):
        assert (await scene.poll(number * 5 - (number % 2) * 0.9)).outcome == "Pending"


async def test_slow_down_delays_neither_tokens_nor_denials(scene):
    await scene.poll(0)
    assert (await scene.poll(1)).outcome == "TooFast"
    await scene.decide()
    assert (await scene.poll(1.1)).outcome == "Approved"


@pytest.mark.requirement("oauth-3-5")
async def test_denied_grant_stays_denied(scene):
    assert await scene.decide("Denied") == "Denied"
    assert [(await scene.poll(seconds)).outcome for seconds in (1, 2)] == ["Denied", "Denied"]
    assert await scene.decide("Approved") == "Unknown"
    assert await scene.status() == "Denied"


@pytest.mark.requirement("oauth-3-5")
@pytest.mark.parametrize("is_approved", [True, False])
async def test_grant_expires_whether_it_was_approved_or_not(scene, is_approved):
    if is_approved:
        await scene.decide(seconds=299)
    assert await scene.status(299.9) == ("Approved" if is_approved else "Pending")
    assert await scene.status(300) == "Expired"
    assert (await scene.poll(300)).outcome == "Expired"
    if not is_approved:
        assert await scene.decide(seconds=300) == "Expired"


@pytest.mark.requirement("oauth-3-5")
async def test_decision_does_not_apply_to_another_grant_with_the_same_code(scene):
    assert await scene.decide(grant_id=new_id()) == "Unknown"
    assert await scene.status() == "Pending"


async def test_poll_of_another_client_reveals_and_changes_nothing(scene):
    await scene.poll(0)
    await scene.decide()
    assert (await scene.poll(1, client_id=new_id())).outcome == "Unknown"
    assert (await scene.poll(1)).outcome == "Approved"


@pytest.mark.requirement("oauth-3-5")
async def test_grant_of_one_tenant_is_nothing_in_another(scene):
    other = TenantId(new_id())
    assert await scene.grants.find(other, scene.user_code, NOW) is None
    assert await scene.decide(tenant_id=other) == "Unknown"
    assert (await scene.poll(tenant_id=other)).outcome == "Unknown"
    await scene.grants.record_redemption(other, scene.device_code, scene.new.client_id, {})
    assert await scene.grants.issue(other, scene.device_code, scene.user_code, scene.new, NOW)
    assert await scene.status() == "Pending"


@pytest.mark.requirement("oauth-3-3")
async def test_active_user_code_is_not_issued_again(scene):
    issue = scene.grants.issue
    assert not await issue(scene.tenant_id, new_secret(), scene.user_code, scene.new, later(NOW, seconds=299))
    await scene.decide()
    assert not await issue(scene.tenant_id, new_secret(), scene.user_code, scene.new, NOW)
    await scene.poll()
    fresh = dataclasses.replace(scene.new, grant_id=new_id())
    assert await issue(scene.tenant_id, new_secret(), scene.user_code, fresh, NOW)
    assert (await scene.grants.find(scene.tenant_id, scene.user_code, NOW)).grant_id == fresh.grant_id


async def test_expired_user_code_can_be_issued_again(scene):
    at = later(NOW, seconds=300)
    fresh = dataclasses.replace(scene.new, grant_id=new_id(), expires=later(at, seconds=300))
    assert await scene.grants.issue(scene.tenant_id, new_secret(), scene.user_code, fresh, at)
    assert (await scene.grants.find(scene.tenant_id, scene.user_code, at)).grant_id == fresh.grant_id
    assert (await scene.poll(300)).outcome == "Expired"


@pytest.mark.requirement("oauth-2.2-32")
async def test_of_64_racing_callers_one_gets_the_grant(scene):
    await scene.decide()
    outcomes = [poll.outcome for poll in await asyncio.gather(*(scene.poll() for _ in range(64)))]
    assert sorted(outcomes) == ["Approved"] + ["Consumed"] * 63


@pytest.mark.requirement("contract-states-1")
async def test_of_64_racing_decisions_one_counts(scene):
    decisions = ("Approved", "Denied") * 32
    outcomes = await asyncio.gather(*(scene.decide(decision) for decision in decisions))
    assert sorted(outcomes)[1:] == ["Unknown"] * 63
    assert await scene.status() == min(outcomes)


async def test_keys_hold_hashes_and_outlive_the_codes_by_a_quarter_of_an_hour(scene, redis):
    keys = [key async for key in redis.client.scan_iter(match=f"*{scene.tenant_id}*")]
    assert {key.rpartition(":")[2] for key in keys} == {fingerprint(scene.device_code), fingerprint(scene.user_code)}
    for key in keys:
        assert 300 + RETENTION_SECONDS - 5 < await redis.client.ttl(key) <= 300 + RETENTION_SECONDS
    await scene.decide()
    await scene.poll()
    device_key = next(key for key in keys if key.endswith(fingerprint(scene.device_code)))
    assert 0 < await redis.client.ttl(device_key) <= RETENTION_SECONDS
    assert not {"grant", "approval"} & set(await redis.client.hkeys(device_key))
