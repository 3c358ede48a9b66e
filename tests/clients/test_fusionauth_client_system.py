"""The official Python client, unmodified, on logs, system configuration, reactor, reindexing, health and status."""

from __future__ import annotations

import pytest
from fusionauth.fusionauth_client import FusionAuthClient

from identity import app
from identity.ids import new_id
from tests.clients.test_fusionauth_client_objects import successful, with_client
from tests.conftest import DEFAULT_TENANT


@pytest.mark.requirement("core-15-26")
async def test_the_client_writes_reads_and_searches_the_audit_log(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        mark = new_id()
        row = {"insertUser": "ada@example.com", "message": f"{mark} first", "newValue": {"a": 1}}
        made = successful(client.create_audit_log({"auditLog": row}))["auditLog"]
        assert made.items() >= row.items()
        assert successful(client.retrieve_audit_log(made["id"]))["auditLog"] == made
        successful(client.create_audit_log({"auditLog": {**row, "message": f"{mark} second"}}))
        found = successful(client.search_audit_logs({"search": {"message": mark, "numberOfResults": 1}}))
        assert (found["total"], found["auditLogs"][0]["message"]) == (2, f"{mark} second")
        assert client.retrieve_audit_log(999_999_999_999).status == 404
        refused = client.create_audit_log({"auditLog": {}})
        assert refused.status == 400
        assert set(refused.error_response["fieldErrors"]) == {"auditLog.insertUser", "auditLog.message"}

    await with_client(service, work)


@pytest.mark.requirement("core-15-26")
async def test_the_client_reads_and_searches_the_event_log(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        wanted = {"name": new_id(), "oauthConfiguration": {"debug": True, "enabledGrants": ["authorization_code"]}}
        made = successful(client.create_application({"application": wanted}))["application"]
        secret = made["oauthConfiguration"]["clientSecret"]
        refused = client.exchange_o_auth_code_for_access_token(
            "no-code", "https://example.com", client_id=made["id"], client_secret=secret
        )
        assert refused.status == 400
        found = successful(
            client.search_event_logs({"search": {"message": made["id"], "type": "Debug", "startRow": 0}})
        )
        assert found["total"] == 1
        (row,) = found["eventLogs"]
        assert "invalid_grant" in row["message"]
        assert successful(client.retrieve_event_log(row["id"]))["eventLog"] == row
        assert client.retrieve_event_log(999_999_999_999).status == 404

    await with_client(service, work, tenant=DEFAULT_TENANT)


@pytest.mark.requirement("core-17-20")
async def test_the_client_reads_and_changes_the_system_configuration(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        before = successful(client.retrieve_system_configuration())
        assert before["systemConfiguration"]["reportTimezone"] == "America/Denver"
        try:
            change = {"systemConfiguration": {"data": {"patched": True}}}
            patched = successful(client.patch_system_configuration(change))["systemConfiguration"]
            assert (patched["data"], patched["reportTimezone"]) == ({"patched": True}, "America/Denver")
            wanted = {"systemConfiguration": {"reportTimezone": "Europe/Paris"}}
            updated = successful(client.update_system_configuration(wanted))["systemConfiguration"]
            assert (updated["data"], updated["reportTimezone"]) == ({}, "Europe/Paris")
            assert successful(client.retrieve_system_configuration())["systemConfiguration"] == updated
            assert client.update_system_configuration({"systemConfiguration": {}}).status == 400
        finally:
            successful(client.update_system_configuration(before))

    await with_client(service, work)


@pytest.mark.requirement("core-17-20")
async def test_the_client_asks_for_features(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        status = successful(client.retrieve_reactor_status())["status"]
        assert (status["licensed"], status["entityManagement"]) == (True, "ACTIVE")
        assert successful(client.retrieve_reactor_metrics())["metrics"].keys() == {"breachedPasswordMetrics"}
        successful(client.activate_reactor({"licenseId": "any"}))
        successful(client.regenerate_reactor_keys())
        successful(client.deactivate_reactor())

    await with_client(service, work)


@pytest.mark.requirement("core-17-20")
async def test_the_client_reindexes(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        assert client.reindex({"index": "fusionauth_user"}).status == 202
        assert client.retrieve_reindex_status().status == 404
        assert client.reindex({}).error_response["fieldErrors"]["index"][0]["code"] == "[blank]index"

    await with_client(service, work)


@pytest.mark.requirement("core-17-20")
async def test_the_client_asks_how_the_service_is(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        successful(client.retrieve_system_health())
        assert successful(client.retrieve_system_status()) in ({}, None)
        assert successful(client.retrieve_system_status_using_api_key())["version"] == "1.69.0"
        assert successful(client.retrieve_version()) == {"version": "1.69.0"}

    await with_client(service, work)
