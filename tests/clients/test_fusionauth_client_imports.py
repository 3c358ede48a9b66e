"""The official Python client, unmodified, on imports, many users at once, consents and families."""

from __future__ import annotations

import warnings

import pytest
from fusionauth.fusionauth_client import FusionAuthClient

from identity import app
from identity.ids import new_id
from tests.clients.test_fusionauth_client_users import successful, with_client

HASH = {"encryptionScheme": "salted-md5", "factor": 1, "salt": "", "password": "X03MO1qnZdYdgyfeuILPmQ=="}
PASSWORD = "password"


def make_user_document() -> dict[str, object]:
    return {"id": new_id(), "email": f"{new_id()}@example.com", "active": True, "birthDate": "1970-01-01", **HASH}


@pytest.mark.requirement("users-2.1-16")
async def test_the_client_imports_users_and_refresh_tokens(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        application = successful(client.create_application({"application": {"name": new_id()}}))["application"]["id"]
        user = {**make_user_document(), "registrations": [{"applicationId": application}]}
        successful(client.import_users({"users": [user]}))
        assert successful(client.retrieve_user(user["id"]))["user"]["registrations"][0]["applicationId"] == application
        logged_in = client.login({"loginId": user["email"], "password": PASSWORD, "applicationId": application})
        assert logged_in.status == 200
        token = {"applicationId": application, "userId": user["id"], "token": new_id()}
        successful(client.import_refresh_tokens({"refreshTokens": [token], "validateDbConstraints": True}))
        found = successful(client.retrieve_refresh_tokens(user["id"]))["refreshTokens"]
        assert token["token"] in {one["token"] for one in found}
        again = client.import_users({"users": [user], "validateDbConstraints": True})
        assert again.status == 400
        assert "users[0].email" in again.error_response["fieldErrors"]

    await with_client(service, work)


@pytest.mark.requirement("users-2.1-16")
async def test_the_client_deactivates_and_removes_many_users(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        name = new_id()
        users = [{**make_user_document(), "lastName": name, "username": f"{name}-{index}"} for index in range(6)]
        ids = [user["id"] for user in users]
        successful(client.import_users({"users": users}))
        with warnings.catch_warnings(action="ignore"):
            assert successful(client.deactivate_users(ids[:2]))["userIds"] == ids[:2]
        assert successful(client.deactivate_users_by_ids(ids[2:3]))["userIds"] == ids[2:3]
        with warnings.catch_warnings(action="ignore"):
            found = {user["id"]: user["active"] for user in successful(client.search_users(ids))["users"]}
        assert [found[one] for one in ids] == [False, False, False, True, True, True]
        assert successful(client.retrieve_user_by_username(f"{name}-1"))["user"]["id"] == ids[1]
        search = {"queryString": name, "accurateTotal": True}
        with warnings.catch_warnings(action="ignore"):
            assert successful(client.delete_users({"userIds": ids[:1], "hardDelete": True}))["total"] == 1
            assert successful(client.search_users_by_query_string({"search": search}))["total"] == 5
        removed = successful(client.delete_users_by_query({"queryString": name, "hardDelete": True}))
        assert sorted(removed["userIds"]) == sorted(ids[1:])

    await with_client(service, work)


@pytest.mark.requirement("users-2.1-16")
async def test_the_client_notes_changes_and_revokes_consents(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        user = make_user_document()
        successful(client.import_users({"users": [user]}))
        about = {"name": new_id(), "defaultMinimumAgeForSelfConsent": 13, "values": ["a", "b"]}
        consent = successful(client.create_consent({"consent": about}))["consent"]["id"]
        wanted = {"consentId": consent, "userId": user["id"], "giverUserId": user["id"], "values": ["a"]}
        made = successful(client.create_user_consent({"userConsent": wanted}))["userConsent"]["id"]
        assert successful(client.retrieve_user_consent(made))["userConsent"]["values"] == ["a"]
        changed = successful(client.update_user_consent(made, {"userConsent": {"values": ["b"]}}))
        assert changed["userConsent"]["values"] == ["b"]
        successful(client.revoke_user_consent(made))
        (listed,) = successful(client.retrieve_user_consents(user["id"]))["userConsents"]
        assert listed["status"] == "Revoked"
        patched = successful(client.patch_user_consent(made, {"userConsent": {"status": "Active"}}))
        assert patched["userConsent"]["status"] == "Active"

    await with_client(service, work)


@pytest.mark.requirement("users-2.1-16")
async def test_the_client_makes_families(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        tenant = {"tenant": {"name": new_id(), "issuer": f"https://{new_id()}.example.com"}}
        tenant["tenant"]["familyConfiguration"] = {"enabled": True}
        client.set_tenant_id(successful(client.create_tenant(tenant))["tenant"]["id"])
        owner, partner, child = make_user_document(), make_user_document(), make_user_document()
        child |= {"birthDate": "2020-01-01", "parentEmail": owner["email"]}
        successful(client.import_users({"users": [owner, partner, child]}))
        waiting = successful(client.retrieve_pending_children(owner["email"]))["users"]
        assert [user["id"] for user in waiting] == [child["id"]]
        asked = client.send_family_request_email({"parentEmail": owner["email"]})
        assert asked.status == 400, "the tenant has no template for it"
        family = successful(client.create_family({"familyMember": {"userId": owner["id"]}}))["family"]["id"]
        successful(client.add_user_to_family(family, {"familyMember": {"userId": child["id"], "role": "Child"}}))
        successful(client.update_family(family, {"familyMember": {"userId": partner["id"], "role": "Adult"}}))
        members = successful(client.retrieve_family_members_by_family_id(family))["family"]["members"]
        assert [one["userId"] for one in members] == [owner["id"], child["id"], partner["id"]]
        successful(client.remove_user_from_family(family, child["id"]))
        (left,) = successful(client.retrieve_families(partner["id"]))["families"]
        assert [one["userId"] for one in left["members"]] == [owner["id"], partner["id"]]

    await with_client(service, work)
