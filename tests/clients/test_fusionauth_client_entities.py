"""The official Python client, unmodified, on entity types, entities and grants."""

from __future__ import annotations

from typing import Any

import pytest
from fusionauth.fusionauth_client import FusionAuthClient

from identity import app
from identity.ids import new_id
from tests.clients.test_fusionauth_client_objects import successful, with_client
from tests.conftest import DEFAULT_TENANT


def new_type(client: FusionAuthClient, *permissions: str) -> dict[str, Any]:
    wanted = {"name": f"Type {new_id()}", "permissions": [{"name": name} for name in permissions]}
    return dict(successful(client.create_entity_type({"entityType": wanted}))["entityType"])


def new_entity(client: FusionAuthClient, type_id: str) -> dict[str, Any]:
    return dict(successful(client.create_entity({"entity": {"name": new_id(), "type": {"id": type_id}}}))["entity"])


@pytest.mark.requirement("core-10-6")
async def test_the_client_makes_reads_changes_and_removes_entity_types(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        type_id, name = new_id(), new_id()
        made = successful(client.create_entity_type({"entityType": {"name": name}}, type_id))["entityType"]
        assert (made["id"], made["permissions"]) == (type_id, [])
        assert successful(client.retrieve_entity_type(type_id))["entityType"] == made
        assert type_id in {one["id"] for one in successful(client.retrieve_entity_types())["entityTypes"]}
        assert successful(client.search_entity_types({"search": {"name": name}}))["entityTypes"] == [made]
        by_parameters = successful(client.search_entity_types_by_parameters(name, 1, "name ASC", 0))
        assert (by_parameters["total"], by_parameters["entityTypes"]) == (1, [made])
        patched = successful(client.patch_entity_type(type_id, {"entityType": {"data": {"a": 1}}}))["entityType"]
        assert (patched["data"], patched["name"]) == ({"a": 1}, name)
        updated = successful(client.update_entity_type(type_id, {"entityType": {"name": f"{name}!"}}))["entityType"]
        assert (updated["data"], updated["name"]) == ({}, f"{name}!")
        permission_id = new_id()
        added = successful(
            client.create_entity_type_permission(type_id, {"permission": {"name": "read"}}, permission_id)
        )
        assert added["permission"]["id"] == permission_id
        changed = {"permission": {"name": "see", "description": "May see"}}
        replaced = successful(client.update_entity_type_permission(type_id, permission_id, changed))["permission"]
        assert (replaced["name"], replaced["description"]) == ("see", "May see")
        default = {"permission": {"isDefault": True}}
        patched = successful(client.patch_entity_type_permission(type_id, permission_id, default))["permission"]
        assert (patched["name"], patched["isDefault"]) == ("see", True)
        successful(client.delete_entity_type_permission(type_id, permission_id))
        assert successful(client.retrieve_entity_type(type_id))["entityType"]["permissions"] == []
        successful(client.delete_entity_type(type_id))
        assert client.retrieve_entity_type(type_id).status == 404

    await with_client(service, work)


@pytest.mark.requirement("core-10-15")
async def test_the_client_makes_reads_changes_and_removes_entities(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        kind, entity_id, name = new_type(client, "read"), new_id(), f"Entity {new_id()}"
        wanted = {"entity": {"name": name, "type": {"id": kind["id"]}}}
        made = successful(client.create_entity(wanted, entity_id))["entity"]
        assert (made["id"], made["clientId"], made["type"]) == (entity_id, entity_id, kind)
        assert successful(client.retrieve_entity(entity_id))["entity"] == made
        patched = successful(client.patch_entity(entity_id, {"entity": {"data": {"a": 1}}}))["entity"]
        assert (patched["data"], patched["clientSecret"]) == ({"a": 1}, made["clientSecret"])
        wanted["entity"]["clientSecret"] = "chosen"
        updated = successful(client.update_entity(entity_id, wanted))["entity"]
        assert (updated["data"], updated["clientSecret"]) == ({}, "chosen")
        successful(client.refresh_entity_search_index())
        sort = [{"name": "insertInstant", "order": "desc"}]
        search = {"queryString": name, "sortFields": sort, "numberOfResults": 1, "startRow": 0, "accurateTotal": True}
        assert successful(client.search_entities({"search": search})) == {"total": 1, "entities": [updated]}
        assert successful(client.search_entities_by_ids([entity_id, new_id()]))["entities"] == [updated]
        successful(client.delete_entity(entity_id))
        assert client.retrieve_entity(entity_id).status == 404

    await with_client(service, work, tenant=DEFAULT_TENANT)


@pytest.mark.requirement("core-10-25")
async def test_the_client_makes_reads_and_removes_grants(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        kind = new_type(client, "read", "write")
        target, recipient = new_entity(client, kind["id"]), new_entity(client, kind["id"])
        user = successful(client.create_user({"user": {"username": new_id(), "password": "password"}}))["user"]
        grant = {"recipientEntityId": recipient["id"], "permissions": ["read"]}
        successful(client.upsert_entity_grant(target["id"], {"grant": grant}))
        successful(client.upsert_entity_grant(target["id"], {"grant": {**grant, "permissions": ["read", "write"]}}))
        successful(client.upsert_entity_grant(target["id"], {"grant": {"userId": user["id"], "data": {"a": 1}}}))
        one = successful(client.retrieve_entity_grant(target["id"], recipient["id"]))["grant"]
        assert (one["permissions"], one["entity"]["id"]) == (["read", "write"], target["id"])
        two = successful(client.retrieve_entity_grant(target["id"], user_id=user["id"]))["grant"]
        assert (two["permissions"], two["data"]) == ([], {"a": 1})
        every = successful(client.retrieve_entity_grant(target["id"]))["grants"]
        assert {found["id"] for found in every} == {one["id"], two["id"]}
        assert successful(client.search_entity_grants({"search": {"userId": user["id"]}})) == {
            "total": 1,
            "grants": [two],
        }
        by_parameters = client.search_entity_grants_by_parameters(
            entity_id=target["id"], name=target["name"], number_of_results=1, order_by="insertInstant", start_row=0
        )
        assert successful(by_parameters) == {"total": 2, "grants": [one]}
        successful(client.delete_entity_grant(target["id"], recipient["id"]))
        successful(client.delete_entity_grant(target["id"], user_id=user["id"]))
        assert client.retrieve_entity_grant(target["id"], user_id=user["id"]).status == 404
        assert successful(client.retrieve_entity_grant(target["id"]))["grants"] == []

    await with_client(service, work, tenant=DEFAULT_TENANT)
