"""The official Python client, unmodified, sets up a whole login: tenant, application, key, user, API key, webhook."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from fusionauth.fusionauth_client import FusionAuthClient

from identity import app
from identity.ids import new_id
from tests.conftest import DEFAULT_TENANT, MANAGER_KEY, SUPER_KEY

Document = dict[str, Any]
PASSWORD = "correct horse battery staple"


def successful(answer: Any) -> Any:
    assert answer.status == 200, (answer.status, answer.error_response, answer.exception)
    return answer.success_response


def refused(answer: Any) -> set[str]:
    """The codes of a refusal, which the client has read as JSON."""
    assert answer.status == 400, answer.status
    body = answer.error_response
    fields = {e["code"] for errors in body.get("fieldErrors", {}).values() for e in errors}
    return fields | {e["code"] for e in body.get("generalErrors", [])}


@pytest.fixture
def client(service: app.Service) -> FusionAuthClient:
    """The client with a key for everything, in no tenant of its own."""
    return FusionAuthClient(SUPER_KEY, service.base_url)


@pytest.fixture
def inside(service: app.Service) -> FusionAuthClient:
    """The client with a key for everything, in the default tenant."""
    one = FusionAuthClient(SUPER_KEY, service.base_url)
    one.set_tenant_id(DEFAULT_TENANT)
    return one


async def in_thread(work: Callable[[], None]) -> None:
    """The client waits for answers that the service, in this very loop, has to give."""
    await asyncio.to_thread(work)


async def test_tenants(client) -> None:
    def work() -> None:
        name, tenant_id = f"Tenant {new_id()}", new_id()
        made = successful(client.create_tenant({"tenant": {"name": name}}, tenant_id))["tenant"]
        assert made["id"] == tenant_id
        assert made["issuer"].endswith(f"/{tenant_id}")
        assert successful(client.retrieve_tenant(tenant_id))["tenant"] == made
        assert made in successful(client.retrieve_tenants())["tenants"]
        patched = successful(
            client.patch_tenant(tenant_id, {"tenant": {"issuer": f"https://{tenant_id}.example.com"}})
        )["tenant"]
        assert (patched["name"], patched["issuer"]) == (name, f"https://{tenant_id}.example.com")
        updated = successful(client.update_tenant(tenant_id, {"tenant": {"name": name, "data": {"a": 1}}}))["tenant"]
        assert (updated["issuer"], updated["data"]) == (patched["issuer"], {"a": 1})
        found = successful(client.search_tenants({"search": {"name": name, "startRow": 0, "numberOfResults": 1}}))
        assert (found["total"], found["tenants"]) == (1, [updated])
        rules = successful(client.retrieve_password_validation_rules_with_tenant_id(tenant_id))
        assert rules["passwordValidationRules"] == updated["passwordValidationRules"]
        assert refused(client.create_tenant({"tenant": {}})) == {"[blank]tenant.name"}
        assert refused(client.create_tenant({"tenant": {"name": name}})) == {"[duplicate]tenant.name"}
        successful(client.delete_tenant(tenant_id))
        assert client.retrieve_tenant(tenant_id).status == 404
        other = successful(client.create_tenant({"tenant": {"name": name}}))["tenant"]
        assert client.delete_tenant_async(other["id"]).status == 202

    await in_thread(work)


async def test_applications_with_roles_and_scopes(inside) -> None:
    def work() -> None:
        application_id, name = new_id(), f"Application {new_id()}"
        request = {
            "application": {
                "name": name,
                "roles": [{"name": "user", "isDefault": True}],
                "oauthConfiguration": {"authorizedRedirectURLs": ["https://a.example.com/cb"]},
            }
        }
        made = successful(inside.create_application(request, application_id))["application"]
        assert (made["id"], made["tenantId"]) == (application_id, DEFAULT_TENANT)
        assert made["oauthConfiguration"]["authorizedRedirectURLs"] == ["https://a.example.com/cb"]
        assert successful(inside.retrieve_application(application_id))["application"] == made
        assert made in successful(inside.retrieve_applications())["applications"]
        role = successful(inside.create_application_role(application_id, {"role": {"name": "admin"}}))["role"]
        changed = {"role": {"name": "chief", "isSuperRole": True}}
        assert (
            successful(inside.update_application_role(application_id, role["id"], changed))["role"]["name"] == "chief"
        )
        patch = {"role": {"description": "knows all"}}
        assert (
            successful(inside.patch_application_role(application_id, role["id"], patch))["role"]["isSuperRole"] is True
        )
        successful(inside.delete_application_role(application_id, role["id"]))
        scope = successful(inside.create_o_auth_scope(application_id, {"scope": {"name": "read:mail"}}))["scope"]
        assert successful(inside.retrieve_o_auth_scope(application_id, scope["id"]))["scope"] == scope
        wanted = {"scope": {"name": "read:mail", "required": True}}
        assert successful(inside.update_o_auth_scope(application_id, scope["id"], wanted))["scope"]["required"] is True
        patched = inside.patch_o_auth_scope(application_id, scope["id"], {"scope": {"description": "d"}})
        assert successful(patched)["scope"]["description"] == "d"
        successful(inside.delete_o_auth_scope(application_id, scope["id"]))
        patched = successful(inside.patch_application(application_id, {"application": {"data": {"a": 1}}}))[
            "application"
        ]
        assert patched["data"] == {"a": 1}
        assert [one["name"] for one in patched["roles"]] == ["user"]
        updated = successful(inside.update_application(application_id, {"application": {"name": name}}))["application"]
        assert updated["data"] == {}
        assert updated["oauthConfiguration"]["clientSecret"] == made["oauthConfiguration"]["clientSecret"]
        found = successful(inside.search_applications({"search": {"name": name, "startRow": 0, "numberOfResults": 1}}))
        assert (found["total"], found["applications"]) == (1, [updated])
        oauth = successful(inside.retrieve_oauth_configuration(application_id))
        assert oauth["oauthConfiguration"]["clientId"] == application_id
        successful(inside.deactivate_application(application_id))
        inactive = successful(inside.retrieve_inactive_applications())["applications"]
        assert application_id in {one["id"] for one in inactive}
        assert successful(inside.reactivate_application(application_id))["application"]["active"] is True
        assert refused(inside.create_application({"application": {}})) == {"[blank]application.name"}
        successful(inside.delete_application(application_id))
        assert inside.retrieve_application(application_id).status == 404

    await in_thread(work)


async def test_keys(inside) -> None:
    def work() -> None:
        name = f"Key {new_id()}"
        made = successful(inside.generate_key({"key": {"name": name, "algorithm": "RS256", "length": 2048}}))["key"]
        assert made["hasPrivateKey"] is True
        assert "privateKey" not in made
        assert successful(inside.retrieve_key(made["id"]))["key"] == made
        assert made in successful(inside.retrieve_keys())["keys"]
        renamed = successful(inside.update_key(made["id"], {"key": {"name": f"{name} b"}}))["key"]
        assert renamed["name"] == f"{name} b"
        assert successful(inside.search_keys({"search": {"name": name}}))["keys"] == [renamed]
        by_parameters = inside.search_keys_by_parameters(name=name, number_of_results=1, start_row=0, _type="RSA")
        assert successful(by_parameters)["total"] == 1
        published = {key["kid"] for key in successful(inside.retrieve_json_web_key_set())["keys"]}
        assert made["kid"] not in published, "nothing uses the key"
        assert published
        secret = {"name": f"{name} c", "type": "HMAC", "algorithm": "HS256", "secret": "x" * 40}
        imported = successful(inside.import_key({"key": secret}, new_id()))["key"]
        assert "secret" not in imported
        assert refused(inside.generate_key({"key": {"name": name}})) == {"[missing]key.algorithm"}
        for key in (made, imported):
            successful(inside.delete_key(key["id"]))
            assert inside.retrieve_key(key["id"]).status == 404

    await in_thread(work)


async def test_user_and_registration(inside) -> None:
    def work() -> None:
        application = successful(
            inside.create_application({"application": {"name": f"A {new_id()}", "roles": [{"name": "r"}]}})
        )
        application_id, email = application["application"]["id"], f"{new_id()}@example.com"
        made = successful(inside.create_user({"user": {"email": email, "password": PASSWORD}}))["user"]
        request = {"registration": {"applicationId": application_id, "roles": ["r"]}}
        registration = successful(inside.register(request, made["id"]))["registration"]
        assert registration["roles"] == ["r"]
        found = successful(inside.retrieve_user_by_email(email))["user"]
        assert [one["applicationId"] for one in found["registrations"]] == [application_id]
        patch = {"registration": {"applicationId": application_id, "data": {"a": 1}}}
        assert successful(inside.patch_registration(made["id"], patch))["registration"]["data"] == {"a": 1}
        successful(inside.delete_registration(made["id"], application_id))
        assert inside.retrieve_registration(made["id"], application_id).status == 404
        patched = successful(inside.patch_user(made["id"], {"user": {"firstName": "Ann"}}))["user"]
        assert (patched["firstName"], patched["email"]) == ("Ann", email)
        successful(inside.delete_user(made["id"]))
        assert inside.retrieve_user(made["id"]).status == 404
        successful(inside.delete_application(application_id))

    await in_thread(work)


async def test_api_keys(service) -> None:
    manager = FusionAuthClient(MANAGER_KEY, service.base_url)

    def work() -> None:
        wanted = {"apiKey": {"metaData": {"attributes": {"description": "crawler"}}, "permissions": {"endpoints": {}}}}
        made = successful(manager.create_api_key(wanted))["apiKey"]
        assert successful(manager.retrieve_api_key(made["id"]))["apiKey"] == made
        assert FusionAuthClient(made["key"], service.base_url).retrieve_tenants().status == 200
        limited = {"apiKey": {"permissions": {"endpoints": {"/api/user": ["GET"]}}}}
        assert successful(manager.update_api_key(made["id"], limited))["apiKey"]["metaData"]["attributes"] == {}
        assert FusionAuthClient(made["key"], service.base_url).retrieve_tenants().status == 401
        patched = successful(manager.patch_api_key(made["id"], {"apiKey": {"name": f"Key {new_id()}"}}))["apiKey"]
        assert patched["permissions"]["endpoints"] == {"/api/user": ["GET"]}
        copy = successful(manager.create_api_key({"sourceKeyId": made["id"]}))["apiKey"]
        assert copy["permissions"] == patched["permissions"]
        for key in (made, copy):
            successful(manager.delete_api_key(key["id"]))
            assert manager.retrieve_api_key(key["id"]).status == 404
        assert FusionAuthClient(SUPER_KEY, service.base_url).create_api_key(wanted).status == 401
        assert FusionAuthClient("", service.base_url).retrieve_tenants().status == 401

    await in_thread(work)


async def test_webhooks(inside) -> None:
    def work() -> None:
        hook = {"url": "https://a.example.com/", "connectTimeout": 1000, "readTimeout": 2000, "description": new_id()}
        made = successful(inside.create_webhook({"webhook": {**hook, "eventsEnabled": {"user.create": True}}}))[
            "webhook"
        ]
        assert made["eventsEnabled"] == {"user.create": True}
        assert successful(inside.retrieve_webhook(made["id"]))["webhook"] == made
        assert made in successful(inside.retrieve_webhooks())["webhooks"]
        patched = successful(inside.patch_webhook(made["id"], {"webhook": {"eventsEnabled": {"user.delete": True}}}))[
            "webhook"
        ]
        assert patched["eventsEnabled"] == {"user.create": True, "user.delete": True}
        updated = successful(inside.update_webhook(made["id"], {"webhook": {**hook, "global": True}}))["webhook"]
        assert (updated["global"], updated["eventsEnabled"]) == (True, {})
        criteria = {"search": {"description": hook["description"], "startRow": 0, "numberOfResults": 1}}
        assert successful(inside.search_webhooks(criteria)) == {"total": 1, "webhooks": [updated]}
        by_parameters = inside.search_webhooks_by_parameters(
            description=hook["description"], number_of_results=1, start_row=0, order_by="url ASC", url="a.example"
        )
        assert successful(by_parameters) == {"total": 1, "webhooks": [updated]}
        assert refused(inside.create_webhook({"webhook": {"url": "nonsense"}})) == {
            "[invalid]webhook.url",
            "[missing]webhook.connectTimeout",
            "[missing]webhook.readTimeout",
        }
        successful(inside.delete_webhook(made["id"]))
        assert inside.retrieve_webhook(made["id"]).status == 404

    await in_thread(work)


async def test_address_lists_status_and_version(inside) -> None:
    def work() -> None:
        entries = [{"startIPAddress": "*", "action": "Block"}]
        request = {"ipAccessControlList": {"name": f"List {new_id()}", "entries": entries}}
        made = successful(inside.create_ip_access_control_list(request))["ipAccessControlList"]
        assert successful(inside.retrieve_ip_access_control_list(made["id"]))["ipAccessControlList"] == made
        renamed = {"ipAccessControlList": {**made, "name": f"List {new_id()}"}}
        updated = successful(inside.update_ip_access_control_list(made["id"], renamed))["ipAccessControlList"]
        assert updated["name"] == renamed["ipAccessControlList"]["name"]
        criteria = {"search": {"name": updated["name"]}}
        assert successful(inside.search_ip_access_control_lists(criteria))["ipAccessControlLists"] == [updated]
        successful(inside.delete_ip_access_control_list(made["id"]))
        assert successful(inside.retrieve_version())["version"] == "1.69.0"
        assert successful(inside.retrieve_system_status_using_api_key())["version"] == "1.69.0"
        assert inside.retrieve_system_health().status == 200

    await in_thread(work)
