"""Tests of the connection to a provider: the steps of a login, without a login."""

from __future__ import annotations

from typing import Any

import pytest

from identity.ids import new_id
from tests.federation.conftest import Scenario

PATH = "/api/identity-provider/test"
Document = dict[str, Any]


async def start(scenario: Scenario, **members: Any) -> str:
    body = {"identityProviderId": scenario.provider["id"], **members}
    answer = await scenario.api.post(PATH, json=body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["connectionTestId"])


async def result(scenario: Scenario, test_id: str) -> Document:
    answer = await scenario.api.get(PATH, params={"connectionTestId": test_id})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["result"])


@pytest.mark.requirement("core-11-41")
async def test_a_login_with_a_test_reports_its_steps_and_logs_no_one_in(federated, fake) -> None:
    """Also through a provider that is disabled."""
    await federated.change(enabled=False)
    test_id = await start(federated, tenantId=federated.tenant["id"])
    before = await result(federated, test_id)
    assert (before["success"], before["steps"]) == (False, [])
    answer = await federated.log_in(connectionTestId=test_id)
    assert (answer.status_code, answer.content) == (204, b"")
    assert "set-cookie" not in answer.headers
    assert await federated.count_users() == 0
    found = await result(federated, test_id)
    assert found["success"] is True
    assert (found["identityProviderUserId"], found["email"]) == ("person", fake.userinfo["email"])
    assert [step["title"] for step in found["steps"]] == ["token endpoint", "userinfo", "id token", "account"]
    assert "the secret" not in str(found)
    assert "the-access-token" not in str(found)


@pytest.mark.requirement("core-11-41")
async def test_refusal_is_the_last_step(federated, fake) -> None:
    test_id = await start(federated)
    fake.id_claims = fake.claims(aud="another")
    assert (await federated.log_in(connectionTestId=test_id)).status_code == 401
    found = await result(federated, test_id)
    assert found["success"] is False
    assert found["steps"][-1] == {
        "title": "refusal", "success": False, "detail": "the id token is for another client",
    }  # fmt: skip
    # A test has one result.
    again = await federated.log_in(connectionTestId=test_id)
    assert set(again.json()["fieldErrors"]) == {"connectionTestId"}


async def test_test_belongs_to_its_provider_and_tenant(federated, api, fake) -> None:
    test_id, mine = await start(federated), federated.provider
    oauth2 = {"issuer": fake.issuer, "client_id": "c", "client_secret": "s"}
    await federated.add_provider(type="OpenIDConnect", oauth2=oauth2)
    for members in ({"connectionTestId": test_id}, {"connectionTestId": new_id(), "identityProviderId": mine["id"]}):
        answer = await federated.log_in(**members)
        assert answer.status_code == 400
        assert set(answer.json()["fieldErrors"]) == {"connectionTestId"}
    assert (await api.get(PATH, params={"connectionTestId": test_id})).status_code == 404
    other = (await api.post("/api/tenant", json={"tenant": {"name": new_id()}})).json()["tenant"]
    refused = await federated.api.post(PATH, json={"identityProviderId": mine["id"], "tenantId": other["id"]})
    assert set(refused.json()["fieldErrors"]) == {"tenantId"}
    unknown = await federated.api.post(PATH, json={"identityProviderId": new_id()})
    assert set(unknown.json()["fieldErrors"]) == {"identityProviderId"}


async def test_id_of_a_test_is_required(federated) -> None:
    answer = await federated.api.get(PATH)
    assert set(answer.json()["fieldErrors"]) == {"connectionTestId"}
