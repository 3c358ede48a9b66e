"""The official Python client, unmodified, on logins without a password, login records and reports."""

from __future__ import annotations

from typing import Any

from fusionauth.fusionauth_client import FusionAuthClient

from tests.clients.test_fusionauth_client_logins import credentials, rp, successful, with_client

__all__ = ["rp"]


async def test_the_client_logs_in_without_a_password(service, rp) -> None:
    await rp.patch(
        f"/api/application/{rp.client_id}", {"application": {"passwordlessConfiguration": {"enabled": True}}}
    )

    def work(client: FusionAuthClient) -> None:
        wanted = {"applicationId": rp.client_id, "loginId": rp.login_id, "state": {"at": "the door"}}
        code = successful(client.start_passwordless_login(wanted))["code"]
        refused = client.send_passwordless_code({"code": code})
        assert (refused.status, refused.error_response["generalErrors"][0]["code"]) == (400, "[PasswordlessDisabled]")
        found = successful(client.passwordless_login({"code": code}))
        assert (found["user"]["id"], found["state"]) == (rp.user["id"], {"at": "the door"})

    await with_client(service, rp, work)


async def test_the_client_reads_login_records_and_reports(service, rp, clock) -> None:
    now = clock.now()

    def work(client: FusionAuthClient) -> None:
        successful(client.login(credentials(rp)))
        user_id, app_id = rp.user["id"], rp.client_id
        assert len(successful(client.retrieve_recent_logins(0, 10))["logins"]) == 2
        assert len(successful(client.retrieve_user_recent_logins(user_id, 1, 10))["logins"]) == 1
        search = {"search": {"userId": user_id, "applicationId": app_id}, "retrieveTotal": True}
        assert successful(client.search_login_records(search))["total"] == 2

        def total(answer: Any) -> int:
            return int(successful(answer)["total"])

        assert total(client.retrieve_login_report(now, now, app_id)) == 2
        assert total(client.retrieve_user_login_report(user_id, now, now)) == 2
        assert total(client.retrieve_user_login_report_by_login_id(rp.login_id, now, now)) == 2
        by_types = client.retrieve_user_login_report_by_login_id_and_login_id_types
        assert total(by_types(rp.login_id, now, now, "email")) == 2
        assert total(client.retrieve_daily_active_report(now, now, app_id)) == 1
        assert total(client.retrieve_monthly_active_report(now, now)) == 1
        assert total(client.retrieve_registration_report(now, now, app_id)) == 1
        assert successful(client.retrieve_total_report())["applicationTotals"][app_id]["logins"] == 2
        assert "applicationTotals" not in successful(client.retrieve_total_report_with_excludes("applicationTotals"))

    await with_client(service, rp, work)
