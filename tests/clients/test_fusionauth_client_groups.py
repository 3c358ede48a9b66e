"""The official Python client, unmodified, on groups, consents, user actions and their reasons."""

from __future__ import annotations

import pytest
from fusionauth.fusionauth_client import FusionAuthClient

from identity import app
from identity.ids import new_id
from tests.clients.test_fusionauth_client_objects import successful, with_client
from tests.conftest import DEFAULT_TENANT


@pytest.mark.requirement("core-18-groups-30")
async def test_the_client_makes_reads_changes_and_removes_groups(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        name, group_id = new_id(), new_id()
        application = successful(
            client.create_application({"application": {"name": name, "roles": [{"name": "admin"}]}})
        )
        role = application["application"]["roles"][0]
        wanted = {"group": {"name": name, "data": {"a": 1}}, "roleIds": [role["id"]]}
        made = successful(client.create_group(wanted, group_id))["group"]
        assert (made["id"], made["roles"]) == (group_id, {application["application"]["id"]: [role]})
        assert successful(client.retrieve_group(group_id)) == {"group": made}
        assert made in successful(client.retrieve_groups())["groups"]
        found = successful(client.search_groups({"search": {"name": name, "startRow": 0, "numberOfResults": 1}}))
        assert found == {"groups": [made], "total": 1}
        patched = successful(client.patch_group(group_id, {"group": {"data": {"b": 2}}}))["group"]
        assert (patched["data"], patched["roles"]) == ({"a": 1, "b": 2}, made["roles"])
        updated = successful(client.update_group(group_id, {"group": {"name": f"{name}!"}}))["group"]
        assert (updated["name"], updated["data"], updated["roles"]) == (f"{name}!", {}, {})
        successful(client.delete_group(group_id))
        assert client.retrieve_group(group_id).status == 404

    await with_client(service, work, tenant=DEFAULT_TENANT)


@pytest.mark.requirement("core-18-groups-30")
async def test_the_client_adds_replaces_finds_and_removes_members(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        group_id = successful(client.create_group({"group": {"name": new_id()}}))["group"]["id"]
        one, two = (
            successful(client.create_user({"user": {"username": new_id(), "password": "password"}}))["user"]["id"]
            for _ in range(2)
        )
        added = successful(client.create_group_members({"members": {group_id: [{"userId": one, "data": {"a": 1}}]}}))
        (member,) = added["members"][group_id]
        assert (member["userId"], member["data"], member["groupId"]) == (one, {"a": 1}, group_id)
        assert successful(client.retrieve_user(one))["user"]["memberships"] == [member]
        by_group = {"search": {"groupId": group_id, "startRow": 0, "numberOfResults": 25}}
        assert successful(client.search_group_members(by_group)) == {"members": [member], "total": 1}
        replaced = successful(client.update_group_members({"members": {group_id: [{"userId": one}, {"userId": two}]}}))
        first, second = replaced["members"][group_id]
        assert (first, second["userId"]) == ({**member, "data": {}}, two)
        successful(client.delete_group_members({"members": {group_id: [one]}}))
        assert successful(client.search_group_members(by_group))["members"] == [second]
        successful(client.delete_group_members({"memberIds": [second["id"]]}))
        assert successful(client.search_group_members(by_group))["total"] == 0
        assert successful(client.retrieve_user(two))["user"]["memberships"] == []

    await with_client(service, work, tenant=DEFAULT_TENANT)


@pytest.mark.requirement("core-18-groups-30")
async def test_the_client_makes_reads_changes_and_removes_consents(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        name, consent_id = new_id(), new_id()
        wanted = {"consent": {"name": name, "defaultMinimumAgeForSelfConsent": 13, "values": ["a", "b"]}}
        made = successful(client.create_consent(wanted, consent_id))["consent"]
        assert (made["id"], made["values"]) == (consent_id, ["a", "b"])
        assert successful(client.retrieve_consent(consent_id)) == {"consent": made}
        assert made in successful(client.retrieve_consents())["consents"]
        assert successful(client.search_consents({"search": {"name": name, "startRow": 0}}))["consents"] == [made]
        by_parameters = client.search_consents_by_parameters(
            name=name, number_of_results=1, order_by="name ASC", start_row=0
        )
        assert successful(by_parameters) == {"consents": [made], "total": 1}
        patched = successful(client.patch_consent(consent_id, {"consent": {"multipleValuesAllowed": True}}))["consent"]
        assert (patched["multipleValuesAllowed"], patched["name"]) == (True, name)
        updated = successful(
            client.update_consent(consent_id, {"consent": {"name": name, "defaultMinimumAgeForSelfConsent": 16}})
        )["consent"]
        assert (updated["defaultMinimumAgeForSelfConsent"], updated["multipleValuesAllowed"]) == (16, False)
        successful(client.delete_consent(consent_id))
        assert client.retrieve_consent(consent_id).status == 404

    await with_client(service, work)


@pytest.mark.requirement("core-18-groups-30")
async def test_the_client_makes_reads_changes_and_removes_user_actions(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        name, action_id = new_id(), new_id()
        made = successful(client.create_user_action({"userAction": {"name": name, "temporal": True}}, action_id))
        assert (made["userAction"]["id"], made["userAction"]["temporal"]) == (action_id, True)
        assert successful(client.retrieve_user_action(action_id)) == made
        assert made["userAction"] in successful(client.retrieve_user_actions())["userActions"]
        assert made["userAction"] in successful(client.retrieve_user_action())["userActions"]
        patched = successful(client.patch_user_action(action_id, {"userAction": {"preventLogin": True}}))["userAction"]
        assert (patched["preventLogin"], patched["temporal"]) == (True, True)
        updated = successful(client.update_user_action(action_id, {"userAction": {"name": f"{name}!"}}))["userAction"]
        assert (updated["name"], updated["temporal"]) == (f"{name}!", False)
        successful(client.deactivate_user_action(action_id))
        inactive = successful(client.retrieve_inactive_user_actions())["userActions"]
        assert [one["active"] for one in inactive if one["id"] == action_id] == [False]
        assert successful(client.reactivate_user_action(action_id))["userAction"]["active"] is True
        successful(client.delete_user_action(action_id))
        assert client.retrieve_user_action(action_id).status == 404

    await with_client(service, work)


@pytest.mark.requirement("core-18-groups-30")
async def test_the_client_makes_reads_changes_and_removes_user_action_reasons(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        code, reason_id = new_id(), new_id()
        wanted = {"userActionReason": {"code": code, "text": f"Text {code}"}}
        made = successful(client.create_user_action_reason(wanted, reason_id))
        assert (made["userActionReason"]["id"], made["userActionReason"]["code"]) == (reason_id, code)
        assert successful(client.retrieve_user_action_reason(reason_id)) == made
        assert made["userActionReason"] in successful(client.retrieve_user_action_reasons())["userActionReasons"]
        assert made["userActionReason"] in successful(client.retrieve_user_action_reason())["userActionReasons"]
        texts = {"localizedTexts": {"de": "Grund"}}
        patched = successful(client.patch_user_action_reason(reason_id, {"userActionReason": texts}))[
            "userActionReason"
        ]
        assert (patched["localizedTexts"], patched["code"]) == ({"de": "Grund"}, code)
        updated = successful(client.update_user_action_reason(reason_id, wanted))["userActionReason"]
        assert updated["localizedTexts"] == {}
        successful(client.delete_user_action_reason(reason_id))
        assert client.retrieve_user_action_reason(reason_id).status == 404

    await with_client(service, work)


async def test_the_client_makes_reads_changes_and_removes_forms(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        field_id, form_id = new_id(), new_id()
        about = {"name": new_id(), "key": "user.data.color"}
        field = successful(client.create_form_field({"field": about}, field_id))["field"]
        assert successful(client.retrieve_form_field(field_id)) == {"field": field}
        assert field in successful(client.retrieve_form_fields())["fields"]
        assert successful(client.patch_form_field(field_id, {"field": {"required": True}}))["field"]["required"] is True
        assert successful(client.update_form_field(field_id, {"field": about}))["field"]["required"] is False
        wanted = {"form": {"name": new_id(), "type": "selfServiceUser", "steps": [{"fields": [field_id]}]}}
        form = successful(client.create_form(wanted, form_id))["form"]
        assert successful(client.retrieve_form(form_id)) == {"form": form}
        assert form in successful(client.retrieve_forms())["forms"]
        assert successful(client.patch_form(form_id, {"form": {"data": {"a": 1}}}))["form"]["data"] == {"a": 1}
        assert successful(client.update_form(form_id, wanted))["form"]["data"] == {}
        successful(client.delete_form(form_id))
        successful(client.delete_form_field(field_id))
        assert client.retrieve_form(form_id).status == 404

    await with_client(service, work)


async def test_the_client_reads_and_changes_integrations(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        before = successful(client.retrieve_integration())["integrations"]
        topic = {"integrations": {"kafka": {"defaultTopic": "logins"}}}
        assert successful(client.patch_integrations(topic))["integrations"]["kafka"]["defaultTopic"] == "logins"
        after = successful(client.update_integrations({"integrations": {}}))["integrations"]
        assert after["kafka"] == {"enabled": False, "producer": {}}
        assert after.keys() == before.keys()

    await with_client(service, work)
