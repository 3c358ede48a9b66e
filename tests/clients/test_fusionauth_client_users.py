"""The official Python client, unmodified, on users and registrations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from fusionauth.fusionauth_client import FusionAuthClient

from identity import app
from identity.ids import new_id
from tests.conftest import DEFAULT_TENANT, SUPER_KEY

PASSWORD = "correct horse battery staple"


def successful(answer: Any) -> Any:
    assert answer.status == 200, (answer.status, answer.error_response, answer.exception)
    return answer.success_response


async def with_client(service: app.Service, work: Callable[[FusionAuthClient], None]) -> None:
    client = FusionAuthClient(SUPER_KEY, service.base_url)
    client.set_tenant_id(DEFAULT_TENANT)
    await asyncio.to_thread(work, client)


@pytest.mark.requirement("core-1.2-7", "core-2-11", "demo-4", "users-2-13", "users-2-22")
async def test_the_client_makes_reads_changes_and_removes_users(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        email = f"{new_id()}@example.com"
        user_id = successful(client.create_user({"user": {"email": email, "password": PASSWORD}}))["user"]["id"]
        for found in (
            client.retrieve_user(user_id),
            client.retrieve_user_by_email(email),
            client.retrieve_user_by_login_id(email),
            client.retrieve_user_by_login_id_with_login_id_types(email, ["email"]),
        ):
            assert successful(found)["user"]["id"] == user_id
        changed = successful(
            client.update_user(user_id, {"user": {"email": email, "firstName": "Ann", "lastName": "Lee"}})
        )
        assert changed["user"]["firstName"] == "Ann"
        patched = successful(client.patch_user(user_id, {"user": {"firstName": "Bob"}}))
        assert (patched["user"]["firstName"], patched["user"]["lastName"]) == ("Bob", "Lee")
        criteria = {"queryString": email, "startRow": 0, "numberOfResults": 1}
        assert successful(client.search_users_by_query({"search": criteria}))["total"] == 1
        assert successful(client.search_users_by_ids([user_id]))["users"][0]["id"] == user_id
        successful(client.refresh_user_search_index())
        successful(client.deactivate_user(user_id))
        assert successful(client.reactivate_user(user_id))["user"]["active"] is True
        about = {"eventInfo": {"ipAddress": "192.0.2.7"}}
        successful(client.delete_user_with_request(user_id, about))
        assert successful(client.retrieve_user(user_id))["user"]["active"] is False
        successful(client.delete_user_with_request(user_id, {"hardDelete": True, **about}))
        assert client.retrieve_user(user_id).status == 404
        refused = client.create_user({"user": {}})
        assert refused.status == 400
        assert refused.error_response["fieldErrors"].keys() == {"user.email", "user.username", "user.password"}

    await with_client(service, work)


@pytest.mark.requirement("demo-4", "users-2-22")
async def test_the_client_makes_reads_changes_and_removes_registrations(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        wanted = {"application": {"name": new_id(), "roles": [{"name": "admin"}, {"name": "user"}]}}
        application_id = successful(client.create_application(wanted))["application"]["id"]
        body = {
            "user": {"email": f"{new_id()}@example.com", "password": PASSWORD},
            "registration": {"applicationId": application_id, "roles": ["user"]},
        }
        user_id = successful(client.register(body))["user"]["id"]
        assert successful(client.retrieve_registration(user_id, application_id))["registration"]["roles"] == ["user"]
        named = {"registration": {"applicationId": application_id, "roles": ["admin"]}}
        assert successful(client.update_registration(user_id, named))["registration"]["roles"] == ["admin"]
        more = {"registration": {"applicationId": application_id, "roles": ["user"]}}
        assert successful(client.patch_registration(user_id, more))["registration"]["roles"] == ["admin", "user"]
        successful(client.delete_registration(user_id, application_id))
        assert client.retrieve_registration(user_id, application_id).status == 404
        assert successful(client.register(named, user_id))["registration"]["roles"] == ["admin"]
        about = {"eventInfo": {"ipAddress": "192.0.2.7"}}
        successful(client.delete_registration_with_request(user_id, application_id, about))
        assert client.retrieve_registration(user_id, application_id).status == 404
        successful(client.delete_user(user_id))

    await with_client(service, work)
