"""Objects that make the screens of the console look like those of a service in use."""

from __future__ import annotations

from typing import Any

import httpx

from tests import plain_http

NAMES = "Ada Lovelace,Alan Turing,Grace Hopper,Edsger Dijkstra,Barbara Liskov,Donald Knuth,Radia Perlman,Tim Lee"


async def create(base_url: str, key: str) -> dict[str, str]:
    """Create the objects, and return the screens with their paths."""
    async with plain_http.client(base_url, headers={"Authorization": key}, timeout=30) as api:
        webhook = {
            "url": "https://hooks.example.com/identity",
            "description": "Customer database",
            "connectTimeout": 1000,
            "readTimeout": 2000,
            "global": True,
            "eventsEnabled": {"user.create": True, "user.create.complete": True, "user.login.success": True},
        }
        webhook_id = (await _post(api, "/api/webhook", webhook=webhook))["webhook"]["id"]
        users = [await _user(api, name) for name in NAMES.split(",")]
        application_id = (await api.get("/api/application/search", params={"name": "Example application"})).json()[
            "applications"
        ][0]["id"]
        role = await _post(api, f"/api/application/{application_id}/role", role={"name": "Editor"})
        group_id = (await _post(api, "/api/group", group={"name": "Engineers"}, roleIds=[role["role"]["id"]]))["group"][
            "id"
        ]
        for user in users[:5]:
            login = {"loginId": user["email"], "password": "a long password", "applicationId": application_id}
            await api.post("/api/login", json=login)
        await api.post("/api/login", json={"loginId": users[0]["email"], "password": "wrong"})
        event = (await api.get("/api/system/webhook-event-log/search")).json()["webhookEventLogs"][0]["id"]
        tenant_id = users[0]["tenantId"]
        form_id = (await api.get("/api/form")).json()["forms"][0]["id"]
    return {
        "home": "/admin",
        "reports": "/admin/reports",
        "refusals": "/admin/refusals",
        "settings": "/admin/settings",
        "login-records": "/admin/login-records",
        "application-kinds": "/admin/applications/new",
        "application-kind": "/admin/applications/new?kind=server",
        "user-set-password": f"/admin/users/{users[0]['id']}/do/set-password",
        **{f"user-{tab}": f"/admin/users/{users[0]['id']}/tab/{tab}" for tab in ("sessions", "actions", "audit")},
        "users": "/admin/users",
        "users-import": "/admin/users/import",
        "user-logins": f"/admin/users/{users[0]['id']}/tab/logins",
        "application-try": f"/admin/applications/{application_id}/try",
        "application-refused": f"/admin/applications/{application_id}/refused",
        "webhook-test": f"/admin/webhooks/{webhook_id}/test",
        "webhook-why": f"/admin/webhooks/{webhook_id}/why?event=user.create&tenantId={tenant_id}",
        "email-template-new": "/admin/email-templates/new",
        "theme-kinds": "/admin/themes/new",
        "theme-new": "/admin/themes/new?kind=simple",
        "lambda-new": "/admin/lambdas/new",
        "user-register": f"/admin/users/{users[6]['id']}/registration",
        "user-registration": f"/admin/users/{users[6]['id']}/registration?applicationId={application_id}",
        "user-registrations": f"/admin/users/{users[0]['id']}/tab/registrations",
        "group": f"/admin/groups/{group_id}",
        "group-edit": f"/admin/groups/{group_id}/edit",
        "form-new": "/admin/forms/new",
        "form-edit": f"/admin/forms/{form_id}/edit",
        "user": f"/admin/users/{users[0]['id']}",
        "user-edit": f"/admin/users/{users[0]['id']}/edit",
        "applications": "/admin/applications",
        "application": f"/admin/applications/{application_id}",
        "application-edit": f"/admin/applications/{application_id}/edit",
        "application-connect": f"/admin/applications/{application_id}/connect",
        "application-delete": f"/admin/applications/{application_id}/delete",
        "application-json": f"/admin/applications/{application_id}/json",
        "tenant-edit": f"/admin/tenants/{tenant_id}/edit",
        "tenants": "/admin/tenants",
        "webhooks": "/admin/webhooks",
        "webhook": f"/admin/webhooks/{webhook_id}",
        "webhook-edit": f"/admin/webhooks/{webhook_id}/edit",
        "webhook-log": "/admin/webhook-log",
        "webhook-event": f"/admin/webhook-log/{event}",
        "api-keys": "/admin/api-keys",
        "api-key-new": "/admin/api-keys/new",
        "keys": "/admin/keys",
        "lambdas": "/admin/lambdas",
        "consents": "/admin/consents",
        "audit-log": "/admin/audit-log",
    }


async def _post(api: httpx.AsyncClient, path: str, **body: Any) -> dict[str, Any]:
    answer = await api.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def _user(api: httpx.AsyncClient, name: str) -> dict[str, Any]:
    first, last = name.split(" ")
    user = {"firstName": first, "lastName": last, "fullName": name, "email": f"{first.lower()}@example.com"}
    user |= {"password": "a long password", "encryptionScheme": "salted-hmac-sha256"}
    return dict((await _post(api, "/api/user", user=user, factor=1))["user"])
