"""The official Python client, unmodified, on tenants, applications, keys, API keys and webhooks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from fusionauth.fusionauth_client import FusionAuthClient

from identity import app
from identity.ids import new_id
from tests.conftest import DEFAULT_TENANT, MANAGER_KEY, SUPER_KEY


def successful(answer: Any) -> Any:
    assert answer.status == 200, (answer.status, answer.error_response, answer.exception)
    return answer.success_response


async def with_client(
    service: app.Service, work: Callable[[FusionAuthClient], None], key: str = SUPER_KEY, tenant: str | None = None
) -> None:
    client = FusionAuthClient(key, service.base_url)
    client.set_tenant_id(tenant)
    await asyncio.to_thread(work, client)


@pytest.mark.requirement("core-8-crud", "demo-5")
async def test_the_client_makes_reads_changes_and_removes_tenants(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        name = new_id()
        tenant_id = successful(client.create_tenant({"tenant": {"name": name, "issuer": "https://id.example.com"}}))[
            "tenant"
        ]["id"]
        assert successful(client.retrieve_tenant(tenant_id))["tenant"]["issuer"] == "https://id.example.com"
        assert tenant_id in {tenant["id"] for tenant in successful(client.retrieve_tenants())["tenants"]}
        found = successful(client.search_tenants({"search": {"name": name, "startRow": 0, "numberOfResults": 1}}))
        assert (found["total"], found["tenants"][0]["id"]) == (1, tenant_id)
        patched = successful(client.patch_tenant(tenant_id, {"tenant": {"httpSessionMaxInactiveInterval": 60}}))[
            "tenant"
        ]
        assert (patched["httpSessionMaxInactiveInterval"], patched["name"]) == (60, name)
        updated = successful(
            client.update_tenant(tenant_id, {"tenant": {"name": name, "issuer": "https://new.example.com"}})
        )
        assert updated["tenant"]["httpSessionMaxInactiveInterval"] == 3600
        rules = successful(client.retrieve_password_validation_rules_with_tenant_id(tenant_id))
        assert rules["passwordValidationRules"]["minLength"] == 8
        successful(client.delete_tenant(tenant_id))
        assert client.retrieve_tenant(tenant_id).status == 404

    await with_client(service, work)


@pytest.mark.requirement("demo-5")
async def test_the_client_makes_reads_changes_and_removes_applications(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        name, application_id = new_id(), new_id()
        wanted = {"application": {"name": name, "roles": [{"name": "user"}]}}
        made = successful(client.create_application(wanted, application_id))["application"]
        assert (made["id"], made["oauthConfiguration"]["clientId"]) == (application_id, application_id)
        assert successful(client.retrieve_application(application_id))["application"]["name"] == name
        assert application_id in {one["id"] for one in successful(client.retrieve_applications())["applications"]}
        assert successful(client.search_applications({"search": {"name": name}}))["total"] == 1
        grants = {"oauthConfiguration": {"authorizedRedirectURLs": ["https://app.example.com/callback"]}}
        patched = successful(client.patch_application(application_id, {"application": grants}))["application"]
        assert patched["oauthConfiguration"]["authorizedRedirectURLs"] == ["https://app.example.com/callback"]
        updated = successful(client.update_application(application_id, {"application": {"name": f"{name}!"}}))[
            "application"
        ]
        assert updated["oauthConfiguration"]["clientSecret"] == made["oauthConfiguration"]["clientSecret"]
        role = {"role": {"name": "admin"}}
        role_id = successful(client.create_application_role(application_id, role))["role"]["id"]
        changed = successful(client.patch_application_role(application_id, role_id, {"role": {"description": "may"}}))
        assert changed["role"]["description"] == "may"
        successful(client.delete_application_role(application_id, role_id))
        successful(client.deactivate_application(application_id))
        assert application_id in {
            one["id"] for one in successful(client.retrieve_inactive_applications())["applications"]
        }
        assert successful(client.reactivate_application(application_id))["application"]["active"] is True
        successful(client.delete_application(application_id))
        assert client.retrieve_application(application_id).status == 404

    await with_client(service, work, tenant=DEFAULT_TENANT)


@pytest.mark.requirement("demo-5")
async def test_the_client_makes_reads_changes_and_removes_keys(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        name = new_id()
        for algorithm in ("RS256", "ES256", "HS256"):
            wanted = {"key": {"algorithm": algorithm, "name": f"{algorithm} {name}", "length": 2048}}
            if algorithm != "RS256":
                del wanted["key"]["length"]
            key_id = successful(client.generate_key(wanted))["key"]["id"]
            assert successful(client.retrieve_key(key_id))["key"]["algorithm"] == algorithm
            changed = successful(client.update_key(key_id, {"key": {"name": f"{algorithm} {name}!"}}))["key"]
            assert changed["name"] == f"{algorithm} {name}!"
            assert successful(client.search_keys({"search": {"name": f"{algorithm} {name}"}}))["total"] == 1
            successful(client.delete_key(key_id))
            assert client.retrieve_key(key_id).status == 404
        secret = {"key": {"type": "HMAC", "algorithm": "HS256", "name": name, "secret": new_id() + new_id()}}
        imported = successful(client.import_key(secret))["key"]["id"]
        assert imported in {key["id"] for key in successful(client.retrieve_keys())["keys"]}
        successful(client.delete_key(imported))

    await with_client(service, work)


@pytest.mark.requirement("demo-5")
async def test_the_client_makes_reads_changes_and_removes_api_keys(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        wanted = {"apiKey": {"metaData": {"attributes": {"description": "made by the client"}}}}
        made = successful(client.create_api_key(wanted))["apiKey"]
        assert successful(FusionAuthClient(made["key"], service.base_url).retrieve_tenants())["tenants"]
        assert successful(client.retrieve_api_key(made["id"]))["apiKey"]["key"] == made["key"]
        limited = {"apiKey": {"permissions": {"endpoints": {"/api/user": ["GET"]}}}}
        patched = successful(client.patch_api_key(made["id"], limited))["apiKey"]
        assert patched["permissions"]["endpoints"] == {"/api/user": ["GET"]}
        assert patched["metaData"]["attributes"]["description"] == "made by the client"
        assert FusionAuthClient(made["key"], service.base_url).retrieve_tenants().status == 401
        copied = successful(client.create_api_key({"sourceKeyId": made["id"]}))["apiKey"]
        assert copied["permissions"] == patched["permissions"]
        assert successful(client.update_api_key(made["id"], {"apiKey": {}}))["apiKey"]["permissions"] == {
            "endpoints": {}
        }
        for key_id in (made["id"], copied["id"]):
            successful(client.delete_api_key(key_id))
            assert client.retrieve_api_key(key_id).status == 404

    await with_client(service, work, MANAGER_KEY)


@pytest.mark.requirement("demo-5")
async def test_the_client_makes_reads_changes_and_removes_webhooks(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        mark = new_id()
        wanted = {"url": f"https://example.com/{mark}", "connectTimeout": 1000, "readTimeout": 2000, "global": True}
        webhook_id = successful(client.create_webhook({"webhook": wanted}))["webhook"]["id"]
        assert successful(client.retrieve_webhook(webhook_id))["webhook"]["url"].endswith(mark)
        assert webhook_id in {one["id"] for one in successful(client.retrieve_webhooks())["webhooks"]}
        enabled = {"eventsEnabled": {"user.create": True}}
        patched = successful(client.patch_webhook(webhook_id, {"webhook": enabled}))["webhook"]
        assert (patched["eventsEnabled"], patched["global"]) == ({"user.create": True}, True)
        assert (
            successful(client.search_webhooks({"search": {"url": mark, "startRow": 0, "numberOfResults": 1}}))["total"]
            == 1
        )
        updated = successful(client.update_webhook(webhook_id, {"webhook": {**wanted, "global": False}}))["webhook"]
        assert (updated["eventsEnabled"], updated["global"]) == ({}, False)
        successful(client.delete_webhook(webhook_id))
        assert client.retrieve_webhook(webhook_id).status == 404

    await with_client(service, work)


async def test_the_client_reads_public_keys_discovery_and_status(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        wanted = {"key": {"algorithm": "ES256", "name": new_id()}}
        key = successful(client.generate_key(wanted))["key"]
        application = {"name": new_id(), "jwtConfiguration": {"enabled": True, "accessTokenKeyId": key["id"]}}
        application_id = successful(client.create_application({"application": application}))["application"]["id"]
        assert successful(client.retrieve_jwt_public_keys())["publicKeys"][key["kid"]] == key["publicKey"]
        assert successful(client.retrieve_jwt_public_key(key["kid"])) == {"publicKey": key["publicKey"]}
        by_application = successful(client.retrieve_jwt_public_key_by_application_id(application_id))
        assert by_application == {"publicKey": key["publicKey"]}
        assert client.retrieve_jwt_public_key(new_id()).status == 404
        assert key["kid"] in {one["kid"] for one in successful(client.retrieve_json_web_key_set())["keys"]}
        described = successful(client.retrieve_open_id_configuration())
        assert described["jwks_uri"] == f"{service.base_url}/.well-known/jwks.json"
        assert successful(client.retrieve_system_status()) == {}
        rules = successful(client.retrieve_password_validation_rules())["passwordValidationRules"]
        assert rules == successful(client.retrieve_tenant(DEFAULT_TENANT))["tenant"]["passwordValidationRules"]

    await with_client(service, work, tenant=DEFAULT_TENANT)


async def test_the_client_removes_tenants_by_request_and_works_on_access_lists(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        tenant_id = successful(client.create_tenant({"tenant": {"name": new_id()}}))["tenant"]["id"]
        assert client.delete_tenant_with_request(tenant_id, {"async": True}).status == 202
        gone = client.retrieve_tenant(tenant_id)
        assert gone.status == 404 or gone.success_response["tenant"]["state"] == "PendingDelete"
        entries = [{"startIPAddress": "*", "action": "Block"}]
        wanted = {"ipAccessControlList": {"name": new_id(), "entries": entries}}
        made = successful(client.create_ip_access_control_list(wanted))["ipAccessControlList"]
        change = {"ipAccessControlList": {"entries": [{"startIPAddress": "10.0.0.1", "endIPAddress": "10.0.0.9"}]}}
        patched = successful(client.patch_ip_access_control_list(made["id"], change))["ipAccessControlList"]
        assert [entry["startIPAddress"] for entry in patched["entries"]] == ["*", "10.0.0.1"]
        found = successful(client.search_ip_access_control_lists_by_parameters(made["name"], 1, "name", 0))
        assert (found["total"], found["ipAccessControlLists"]) == (1, [patched])
        successful(client.delete_ip_access_control_list(made["id"]))

    await with_client(service, work)
