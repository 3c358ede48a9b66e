"""The three gates, in every combination."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from identity.events.catalogue import EVENTS
from identity.events.subscriptions import SubscriptionIndex, transaction_type
from identity.ids import TenantId

ONE, OTHER = TenantId("one"), TenantId("other")
CREATE, KICKSTART = EVENTS["user.create"], EVENTS["kickstart.success"]


def tenant(*, enabled: bool | None, transaction: str = "None") -> dict[str, Any]:
    entry = {} if enabled is None else {"user.create": {"enabled": enabled, "transactionType": transaction}}
    return {"eventConfiguration": {"events": entry}}


def webhook(is_global: bool, tenant_ids: list[str], switch: bool | None, name: str = "user.create") -> dict[str, Any]:
    return {
        "id": "w",
        "global": is_global,
        "tenantIds": tenant_ids,
        "eventsEnabled": {} if switch is None else {name: switch},
    }


CASES = list(itertools.product((True, False, None), (True, False), ([], ["one"], ["other"]), (True, False, None)))


@pytest.mark.requirement(
    "contract-webhook-eventsEnabled", "contract-webhook-global", "webhooks-2-1", "webhooks-2-3", "webhooks-7-4"
)
@pytest.mark.parametrize(("enabled", "is_global", "tenant_ids", "switch"), CASES)
def test_tenant_event_passes_only_when_all_gates_has_any(
    enabled: bool | None, is_global: bool, tenant_ids: list[str], switch: bool | None
) -> None:
    index = SubscriptionIndex([webhook(is_global, tenant_ids, switch)])
    expected = enabled is True and (is_global or "one" in tenant_ids) and switch is True
    settings = tenant(enabled=enabled)
    assert bool(index.webhooks_for(CREATE, ONE, settings)) == expected
    assert index.has_any(ONE, settings) == expected


@pytest.mark.requirement("webhooks-2-4", "webhooks-7-3")
@pytest.mark.parametrize(("enabled", "is_global", "tenant_ids", "switch"), CASES)
def test_instance_event_ignores_tenants_but_not_an_inert_webhook(
    enabled: bool | None, is_global: bool, tenant_ids: list[str], switch: bool | None
) -> None:
    index = SubscriptionIndex([webhook(is_global, tenant_ids, switch, "kickstart.success")])
    expected = (is_global or bool(tenant_ids)) and switch is True
    assert bool(index.webhooks_for(KICKSTART, None, tenant(enabled=enabled))) == expected


@pytest.mark.requirement("webhooks-2-2")
def test_webhook_with_a_repeated_tenant_gets_an_event_once() -> None:
    index = SubscriptionIndex([webhook(False, ["one", "one"], True)])
    assert len(index.webhooks_for(CREATE, ONE, tenant(enabled=True))) == 1


@pytest.mark.requirement("webhooks-7-4")
def test_tenant_event_without_tenant_reaches_no_webhook() -> None:
    assert SubscriptionIndex([webhook(True, [], True)]).webhooks_for(CREATE, None, tenant(enabled=True)) == ()


@pytest.mark.requirement("webhooks-2-2")
def test_webhook_of_another_tenant_gets_no_event() -> None:
    index = SubscriptionIndex([webhook(False, ["one"], True)])
    assert index.webhooks_for(CREATE, OTHER, tenant(enabled=True)) == ()


@pytest.mark.requirement("webhooks-8-5")
def test_type_that_cannot_be_vetoed_has_no_transaction() -> None:
    settings = {"eventConfiguration": {"events": {"user.create.complete": {"enabled": True, "transactionType": "Any"}}}}
    assert transaction_type(EVENTS["user.create.complete"], settings) == "None"
    assert transaction_type(CREATE, tenant(enabled=True, transaction="Any")) == "Any"
    assert transaction_type(CREATE, {}) == "None"


@pytest.mark.requirement("design-state-18")
async def test_routes_built_in_steps_are_those_built_at_once() -> None:
    webhooks = [webhook(True, [], True), webhook(False, ["one", "two"], True), webhook(False, ["one"], False)]
    steps, at_once = await SubscriptionIndex.built(webhooks), SubscriptionIndex(webhooks)
    assert steps.webhooks is webhooks
    for tenant_id in ("one", "two", "three"):
        found = steps.webhooks_for(CREATE, TenantId(tenant_id), tenant(enabled=True))
        assert found == at_once.webhooks_for(CREATE, TenantId(tenant_id), tenant(enabled=True))
        assert len(found) == {"one": 2, "two": 2, "three": 1}[tenant_id]
