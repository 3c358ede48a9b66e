"""Who may call what: every kind of key against every management route and method, and one tenant against another."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import prometheus_client
import pytest

from identity import app, permissions
from identity.domain.objects.resource_definition import Resource
from identity.ids import new_id
from identity.instants import later
from identity.operations.configuration import api_keys
from identity.web import application
from identity.web.base_handlers import Route
from identity.web.endpoint import Access
from tests import internals, plain_http
from tests.conftest import DEFAULT_TENANT, MANAGER_KEY, SUPER_KEY, checking_client
from tests.dispatch import in_process

Document = dict[str, Any]

KEYED = {Access.API_KEY, Access.KEY_MANAGER, Access.KEY_OR_BEARER, Access.OPTIONAL_KEY}
ROUTES = [
    (route, method, getattr(route.handler, method.lower()).endpoint.access)
    for route in application.routes(prometheus_client.CollectorRegistry())
    for method in route.handler.SUPPORTED_METHODS
    if hasattr(getattr(route.handler, method.lower()), "endpoint")
    and getattr(route.handler, method.lower()).endpoint.access in KEYED
]
IDS = [f"{method} {route.template}" for route, method, _ in ROUTES]

# A tenant-scoped key may use the endpoint, but not for this.
REFUSED_TO_TENANT_KEYS = {("POST", "/api/tenant"), ("POST", "/api/tenant/{object_id}")}

# What all tenants share and their keys may read.
SHARED = {("GET", "/api/consent/{object_id}"), ("GET", "/api/lambda/{object_id}")}

_WITHOUT = {"none", "empty"}
"""The kinds of key that are none."""

OF_INSTANCE = (
    "message",
    "messenger",
    "webhook",
    "key",
    "ip-acl",
    "consent",
    "user-action",
    "user-action-reason",
    "email/template",
    "theme",
    "lambda",
    "entity/type",
    "form",
    "form/field",
    "integration",
    "system/event-log",
)


async def add_key(service: app.Service, *, manager: bool = False, **given: Any) -> str:
    """A key as only the service itself can make it: one that has expired, one that manages others."""
    call = internals.call(service)
    expiration = given.pop("expirationInstant", None)
    wanted = internals.schemas(service)["api/api-key.json"].read({"apiKey": given})["apiKey"]
    made = await internals.run(service, api_keys.add, call, wanted, None, caller=None, manager=manager)
    if expiration is not None:
        where = {"_id": made["id"]}
        await internals.store(service, "api_keys").update(None, where, {"$set": {"expirationInstant": expiration}})
    return str(made["key"])


@pytest.fixture(scope="module")
async def tenants(service: app.Service) -> tuple[str, str]:
    """Two tenants."""
    async with checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as api:
        made = [(await api.post("/api/tenant", json={"tenant": {"name": new_id()}})).json()["tenant"] for _ in range(2)]
    return made[0]["id"], made[1]["id"]


@pytest.fixture(scope="module")
async def keys(service: app.Service, tenants: tuple[str, str]) -> dict[str, str | None]:
    """One key of each kind."""
    now = internals.now(service)
    elsewhere = {"endpoints": {"/api/logger": ["GET"]}}
    return {
        "none": None,
        "empty": "",
        "unknown": "an unknown key",
        "expired": await add_key(service, expirationInstant=later(now, seconds=-1)),
        "super": SUPER_KEY,
        "limited": await add_key(service, permissions=elsewhere),
        "tenant": await add_key(service, tenantId=tenants[0]),
        "limited tenant": await add_key(service, tenantId=tenants[0], permissions=elsewhere),
        "manager": MANAGER_KEY,
        "limited manager": await add_key(service, manager=True, permissions=elsewhere),
        "tenant manager": await add_key(service, manager=True, tenantId=tenants[0]),
    }


def is_refused(kind: str, route: Route, method: str, access: Access) -> bool:
    """Whether a call must be answered with 401."""
    if kind in _WITHOUT:
        return access is not Access.OPTIONAL_KEY
    if kind in {"unknown", "expired"}:
        return True
    if access is Access.KEY_MANAGER:
        return "manager" not in kind
    if kind.startswith("limited"):
        return True
    if kind.startswith("tenant"):
        endpoint = permissions.endpoint_of(route.template)
        return permissions.is_global_only(endpoint, method) or (method, route.template) in REFUSED_TO_TENANT_KEYS
    return False


def path_of(route: Route, ids: dict[str, str] | None = None) -> str:
    return re.sub(r"\{(\w+)\}", lambda match: (ids or {}).get(match[1], new_id()), route.template)


@pytest.fixture(scope="module")
async def client(service: app.Service) -> AsyncIterator[httpx.AsyncClient]:
    async with checking_client(service.base_url) as one:
        yield one


@pytest.fixture(scope="module")
async def dispatched(service: app.Service) -> AsyncIterator[httpx.AsyncClient]:
    """A client for the matrix, which sends thousands of requests."""
    async with checking_client(service.base_url, transport=in_process(service)) as one:
        yield one


@pytest.mark.requirement("contract-authentication-1", "core-1.2-1", "core-4-1", "core-4-14", "management-4")
@pytest.mark.parametrize(("route", "method", "access"), ROUTES, ids=IDS)
async def test_key_kind_decides(client, dispatched, keys, route: Route, method: str, access: Access) -> None:
    wrong = {}
    for kind, key in keys.items():
        # An address from outside, so that nothing is let in for being near.
        headers = {"X-Forwarded-For": "203.0.113.9"} | ({} if key is None else {"Authorization": key})
        sender = client if kind in {"none", "super", "manager"} else dispatched
        answer = await sender.request(method, path_of(route), json={}, headers=headers)
        # Metrics need a key; the route is public to local addresses only.
        expected = is_refused(kind, route, method, access) or (
            route.template == "/api/prometheus/metrics" and kind in _WITHOUT
        )
        if (answer.status_code == 401) is not expected:
            wrong[kind] = answer.status_code
    assert not wrong


GRANTABLE = sorted(
    {(permissions.endpoint_of(route.template), method) for route, method, access in ROUTES if access is Access.API_KEY}
    & {(endpoint, method) for endpoint, methods in permissions.ENDPOINTS.items() for method in methods}
)


@pytest.mark.requirement("attack-53", "management-4")
@pytest.mark.parametrize(("endpoint", "method"), GRANTABLE, ids=lambda part: part)
async def test_a_permission_opens_its_endpoint_and_method_and_nothing_else(
    service, dispatched, endpoint, method
) -> None:
    """All the others together, prefixes and siblings among them, do not open it; it does not open other methods."""
    same = [entry for entry in ROUTES if permissions.endpoint_of(entry[0].template) == endpoint]
    await check_event(service, dispatched, endpoint, method, same)


def test_a_permission_is_for_one_endpoint_and_method():
    every = [(endpoint, method) for endpoint, methods in permissions.ENDPOINTS.items() for method in methods]
    for endpoint, method in every:
        opened = [one for one in every if permissions.may_call({endpoint: [method]}, *one)]
        assert opened == [(endpoint, method)]


@pytest.mark.parametrize(("endpoint", "method"), [("/api/user", "GET"), ("/api/application", "POST")])
async def test_a_permission_opens_nothing_of_all_there_is(service, client, endpoint, method) -> None:
    """Over HTTP."""
    await check_event(service, client, endpoint, method, ROUTES)


async def check_event(
    service: app.Service, client: httpx.AsyncClient, endpoint: str, method: str, routes: list[Any]
) -> None:
    """Ask these routes with a key that has just one permission, and with one that has all but that."""
    only = await add_key(service, permissions={"endpoints": {endpoint: [method]}})
    rest = {name: sorted(methods) for name, methods in permissions.ENDPOINTS.items()}
    rest[endpoint] = sorted(permissions.ENDPOINTS[endpoint] - {method})
    if not rest[endpoint]:
        del rest[endpoint]
    others = await add_key(service, permissions={"endpoints": rest})
    wrong = []
    for route, other, access in routes:
        if access is not Access.API_KEY:
            continue
        is_it = (permissions.endpoint_of(route.template), other) == (endpoint, method)
        path = path_of(route)
        inside = await client.request(other, path, json={}, headers={"Authorization": only})
        outside = await client.request(other, path, json={}, headers={"Authorization": others})
        grantable = other in permissions.ENDPOINTS.get(permissions.endpoint_of(route.template), ())
        if (inside.status_code != 401) is not is_it or (grantable and (outside.status_code == 401) is not is_it):
            wrong.append((other, route.template, inside.status_code, outside.status_code))
    assert not wrong


@pytest.mark.requirement("attack-53")
@pytest.mark.parametrize(
    "path", ["//api/tenant", "/api/tenant//", "/api/./tenant", "/api/user/../tenant", "/api/tenant%2f", "/API/TENANT"]
)
async def test_no_way_of_writing_a_path_goes_round_a_permission(service, client, path) -> None:
    key = await add_key(service, permissions={"endpoints": {"/api/user": ["GET"]}})
    async with plain_http.client(service.base_url) as plain:
        request = plain.build_request("GET", "/", headers={"Authorization": key})
        request.url = request.url.copy_with(raw_path=path.encode())
        assert (await plain.send(request)).status_code in {401, 404}


# One tenant against another


@pytest.fixture(scope="module")
async def objects(service: app.Service, tenants: tuple[str, str]) -> dict[str, str]:
    """Objects of the first tenant, and of the instance, by the name of their id in templates."""
    headers = {"Authorization": SUPER_KEY, "X-FusionAuth-TenantId": tenants[0]}
    async with checking_client(service.base_url, headers=headers) as api:
        body = {"application": {"name": "One", "roles": [{"name": "r"}], "scopes": [{"name": "s"}]}}
        body["application"]["loginConfiguration"] = {"generateRefreshTokens": True}
        one = (await api.post("/api/application", json=body)).json()["application"]
        user = {"user": {"username": new_id(), "password": "password"}, "registration": {"applicationId": one["id"]}}
        made = (await api.post("/api/user/registration", json=user)).json()
        login = {"loginId": user["user"]["username"], "password": "password", "applicationId": one["id"]}
        logged_in = (await api.post("/api/login", json=login)).json()
        provider = {"type": "ExternalJWT", "name": new_id(), "tenantId": tenants[0]}
        provider = (await api.post("/api/identity-provider", json={"identityProvider": provider})).json()
        link = {"identityProviderId": provider["identityProvider"]["id"], "identityProviderUserId": new_id()}
        link |= {"userId": made["user"]["id"]}
        assert (await api.post("/api/identity-provider/link", json=link)).status_code == 200
        ids = {
            "account": link["identityProviderUserId"],
            "application_id": one["id"],
            "identityProvider": link["identityProviderId"],
            "role": one["roles"][0]["id"],
            "scope": one["scopes"][0]["id"],
            "tenant": tenants[0],
            "token_id": logged_in["refreshTokenId"],
            "user_id": made["user"]["id"],
            "message": f"Of the first tenant alone: {new_id()}",
        }
        group = (await api.post("/api/group", json={"group": {"name": new_id()}})).json()["group"]
        member = {"members": {group["id"]: [{"userId": made["user"]["id"]}]}}
        added = (await api.post("/api/group/member", json=member)).json()["members"][group["id"]]
        ids |= {"group": group["id"], "member": added[0]["id"]}
        row = {"insertUser": "someone", "message": ids["message"]}
        ids["auditLog"] = str(
            (await api.post("/api/system/audit-log", json={"auditLog": row})).json()["auditLog"]["id"]
        )
        instance = [
            ("webhook", "/api/webhook", {"url": "https://example.com", "connectTimeout": 1, "readTimeout": 1}),
            ("key", "/api/key/generate", {"algorithm": "HS256"}),
            ("ipAccessControlList", "/api/ip-acl", {"entries": [{"startIPAddress": "*", "action": "Allow"}]}),
            ("consent", "/api/consent", {"defaultMinimumAgeForSelfConsent": 13}),
            ("lambda", "/api/lambda", {"type": "JWTPopulate", "body": "function populate(jwt) {}"}),
            ("userAction", "/api/user-action", {}),
            (
                "emailTemplate",
                "/api/email/template",
                {"defaultSubject": "s", "defaultHtmlTemplate": "h", "defaultTextTemplate": "t"},
            ),
            ("theme", "/api/theme", {}),
            ("field", "/api/form/field", {"key": "user.data.color"}),
            ("messageTemplate", "/api/message/template", {"defaultTemplate": "t", "type": "SMS"}),
            (
                "messenger",
                "/api/messenger",
                {"type": "Generic", "url": "https://example.com", "connectTimeout": 1, "readTimeout": 1},
            ),
            ("userActionReason", "/api/user-action-reason", {"code": new_id(), "text": new_id()}),
        ]
        for wrapper, path, members in instance:
            answer = await api.post(path, json={wrapper: {"name": new_id(), **members}})
            ids[wrapper] = answer.json()[wrapper]["id"]
        form = {"name": new_id(), "type": "selfServiceUser", "steps": [{"fields": [ids["field"]]}]}
        ids["form"] = (await api.post("/api/form", json={"form": form})).json()["form"]["id"]
        ids |= await add_entity(api, ids["user_id"])
        ids |= await add_action(api, ids)
        ids |= await add_family(api, ids)
    async with checking_client(service.base_url, headers={"Authorization": MANAGER_KEY}) as manager:
        key = await manager.post("/api/api-key", json={"apiKey": {"tenantId": tenants[0]}})
        ids["apiKey"] = key.json()["apiKey"]["id"]
    return ids


async def add_action(api: httpx.AsyncClient, ids: dict[str, str]) -> dict[str, str]:
    """An action on the user, and a comment about the user."""
    lasting = {"userAction": {"name": new_id(), "temporal": True}}
    definition = (await api.post("/api/user-action", json=lasting)).json()["userAction"]["id"]
    who = {"actioneeUserId": ids["user_id"], "actionerUserId": ids["user_id"], "userActionId": definition}
    taken = (await api.post("/api/user/action", json={"action": {**who, "expiry": 2**63 - 1}})).json()["action"]["id"]
    comment = {"comment": f"Of the first tenant alone: {new_id()}", "commenterId": ids["user_id"]}
    answer = await api.post("/api/user/comment", json={"userComment": {**comment, "userId": ids["user_id"]}})
    assert answer.status_code == 200, answer.text
    return {"action_id": taken, "comment": comment["comment"]}


async def add_family(api: httpx.AsyncClient, ids: dict[str, str]) -> dict[str, str]:
    """A family of the user, and a consent of the user."""
    change = {"tenant": {"familyConfiguration": {"enabled": True}}}
    await api.patch(f"/api/tenant/{ids['tenant']}", json=change)
    await api.patch(f"/api/user/{ids['user_id']}", json={"user": {"birthDate": "1970-01-01"}})
    family = await api.post("/api/user/family", json={"familyMember": {"userId": ids["user_id"]}})
    assert family.status_code == 200, family.text
    given = {"consentId": ids["consent"], "userId": ids["user_id"], "giverUserId": ids["user_id"]}
    consent = {"name": new_id(), "defaultMinimumAgeForSelfConsent": 0}
    given["consentId"] = (await api.post("/api/consent", json={"consent": consent})).json()["consent"]["id"]
    answer = await api.post("/api/user/consent", json={"userConsent": given})
    assert answer.status_code == 200, answer.text
    return {"family": family.json()["family"]["id"], "userConsent": answer.json()["userConsent"]["id"]}


async def add_entity(api: httpx.AsyncClient, user_id: str) -> dict[str, str]:
    """An entity with its type and a grant."""
    wanted = {"entityType": {"name": new_id(), "permissions": [{"name": "read"}]}}
    kind = (await api.post("/api/entity/type", json=wanted)).json()["entityType"]
    entity = {"entity": {"name": new_id(), "type": {"id": kind["id"]}}}
    entity_id = (await api.post("/api/entity", json=entity)).json()["entity"]["id"]
    path = f"/api/entity/{entity_id}/grant"
    await api.post(path, json={"grant": {"userId": user_id}})
    grant = (await api.get(path)).json()["grants"][0]
    permission_id = kind["permissions"][0]["id"]
    return {"entityType": kind["id"], "permission": permission_id, "entity": entity_id, "grant": grant["id"]}


def ids_for(route: Route, objects: dict[str, str]) -> dict[str, str]:
    resource = route.arguments.get("resource", getattr(route.handler, "resource", None))
    ids = {name: objects[name] for name in ("application_id", "token_id", "user_id")}
    ids |= {"member_id": objects["member"], "action_id": objects["action_id"]}
    ids |= {"family_id": objects["family"]}
    if isinstance(resource, Resource):
        ids["object_id"] = objects.get("application_id" if resource.name == "application" else resource.name, new_id())
    elif "/email/send" in route.template:
        ids["object_id"] = objects["emailTemplate"]
    elif "oauth-configuration" in route.template:
        ids["object_id"] = objects["application_id"]
    elif "/user/consent" in route.template:
        ids["object_id"] = objects["userConsent"]
    elif route.template.endswith("/grant"):
        ids["entity_id"] = objects["entity"]
    if "subresource" in route.arguments:
        subresource = route.arguments["subresource"]
        owner = "application_id" if subresource.owner.name == "application" else subresource.owner.name
        ids |= {"owner_id": objects[owner], "subresource_id": objects[subresource.name]}
    return ids


BODIES: Document = {
    "action": {"comment": "stolen"},
    "userComment": {"comment": "stolen"},
    "apiKey": {},
    "auditLog": {"insertUser": "stolen", "message": "stolen"},
    "application": {"name": "Stolen"},
    "consent": {"name": "Stolen", "defaultMinimumAgeForSelfConsent": 1},
    "entityType": {"name": "Stolen"},
    "familyMember": {"role": "Child"},
    "parentEmail": "stolen@example.com",
    "queryString": "*",
    "userConsent": {"status": "Revoked"},
    "group": {"name": "Stolen"},
    "identityProvider": {"name": "Stolen", "type": "ExternalJWT"},
    "ipAccessControlList": {"name": "Stolen", "entries": [{"startIPAddress": "*", "action": "Allow"}]},
    "permission": {"name": "stolen"},
    "emailTemplate": {"name": "Stolen", "defaultSubject": "s", "defaultHtmlTemplate": "h", "defaultTextTemplate": "t"},
    "key": {"name": "Stolen", "algorithm": "HS256"},
    "messageTemplate": {"name": "Stolen", "defaultTemplate": "t", "type": "SMS"},
    "messenger": {
        "name": "Stolen",
        "type": "Generic",
        "url": "https://evil.example.com",
        "connectTimeout": 1,
        "readTimeout": 1,
    },
    "theme": {"name": "Stolen"},
    "field": {"name": "Stolen", "key": "user.data.stolen"},
    "form": {"name": "Stolen", "steps": []},
    "integrations": {"kafka": {"defaultTopic": "stolen"}},
    "registration": {"roles": []},
    "role": {"name": "stolen"},
    "scope": {"name": "stolen"},
    "systemConfiguration": {"reportTimezone": "Europe/Paris"},
    "tenant": {"name": "Stolen"},
    "user": {"username": "stolen", "password": "password"},
    "lambda": {"name": "Stolen", "type": "JWTPopulate", "body": "function populate(jwt) { jwt.stolen = true }"},
    "userAction": {"name": "Stolen"},
    "userActionReason": {"code": "stolen", "text": "Stolen"},
    "webhook": {"url": "https://evil.example.com", "connectTimeout": 1, "readTimeout": 1, "global": True},
}


COLLECTIONS = (
    "action_logs",
    "user_comments",
    "identity_providers",
    "identity_provider_links",
    "api_keys",
    "applications",
    "audit_logs",
    "consents",
    "email_templates",
    "lambdas",
    "entities",
    "entity_grants",
    "entity_types",
    "families",
    "group_members",
    "form_fields",
    "forms",
    "groups",
    "integrations",
    "ip_access_control_lists",
    "keys",
    "mails",
    "message_templates",
    "messengers",
    "system_configuration",
    "tenants",
    "text_messages",
    "themes",
    "two_factor_trusts",
    "user_action_reasons",
    "user_actions",
    "user_consents",
    "users",
    "webhooks",
    "refresh_tokens",
)


async def snapshot(service: app.Service) -> Document:
    """Everything that is stored, but for what the second tenant's own keys make."""
    found = {}
    for name in COLLECTIONS:
        async for document in internals.database(service).collection(name).find({}):
            found[f"{name} {document['_id']}"] = document
    return found


@pytest.mark.requirement("attack-54", "management-3", "users-11-22")
@pytest.mark.parametrize("kind", ["key", "header"])
async def test_other_tenant_sees_and_changes_nothing(service, client, tenants, objects, kind) -> None:
    """Its own key, or a header that names it: the first tenant's ids are worth nothing, and 200 never has them."""
    if kind == "key":
        headers = {"Authorization": await add_key(service, manager=True, tenantId=tenants[1])}
    else:
        headers = {"Authorization": SUPER_KEY, "X-FusionAuth-TenantId": tenants[1]}
    bodies = {
        **BODIES,
        "userIds": [objects["user_id"]],
        "entity": {"name": "Stolen", "type": {"id": objects["entityType"]}},
        "grant": {"userId": objects["user_id"]},
    }
    before, wrong = await snapshot(service), []
    for route, method, _ in ROUTES:
        ids = ids_for(route, objects)
        if "{" not in route.template or (method == "POST" and re.search(r"/(import|generate)/", route.template)):
            continue
        if kind == "header" and any(route.template.startswith(f"/api/{name}") for name in (*OF_INSTANCE, "tenant")):
            continue
        if (method, route.template) in SHARED:
            continue
        path = path_of(route, ids)
        for query in ("", "?hardDelete=true", "?reactivate=true", "?async=true"):
            answer = await client.request(method, path + query, json=bodies, headers=headers)
            if answer.status_code not in {400, 401, 404, 405}:
                wrong.append((method, path + query, answer.status_code))
            foreign = (value for name, value in objects.items() if name not in path and value not in path)
            if any(value in answer.text for value in foreign if not value.isdigit()):
                wrong.append((method, path, "shows"))
    after = await snapshot(service)
    assert not wrong
    assert {name: after.get(name) for name in before} == before


async def test_other_tenant_s_links_are_out_of_reach(service, client, tenants, objects) -> None:
    """A link is named by query parameters: none of the ways to name the first tenant's leads there."""
    key = await add_key(service, tenantId=tenants[1])
    link = {
        "identityProviderId": objects["identityProvider"],
        "identityProviderUserId": objects["account"],
        "userId": objects["user_id"],
    }
    before, headers = await snapshot(service), {"Authorization": key}
    for names in (link.keys(), {"userId"}, {"userId", "identityProviderId"}, link.keys() - {"userId"}):
        query = {name: link[name] for name in names}
        answer = await client.get("/api/identity-provider/link", params=query, headers=headers)
        assert answer.status_code == 404, (names, answer.text)
    assert (await client.delete("/api/identity-provider/link", params=link, headers=headers)).status_code == 404
    answer = await client.post("/api/identity-provider/link", json={"identityProviderLink": link}, headers=headers)
    assert set(answer.json()["fieldErrors"]) == {
        "identityProviderLink.identityProviderId",
        "identityProviderLink.userId",
    }
    after = await snapshot(service)
    assert {name: after.get(name) for name in before} == before


@pytest.mark.requirement("attack-54", "management-3")
@pytest.mark.parametrize(
    "path",
    [
        "identity-provider",
        "identity-provider/search",
        "application",
        "application?inactive=true",
        "application/search",
        "entity/grant/search",
        "entity/search",
        "group",
        "group/search",
        "group/member/search",
        "system/audit-log/search",
        "tenant",
        "user/comment/search",
        "user/search?queryString=*",
    ],
)
async def test_lists_of_another_tenant_s_key_hold_nothing_of_this_one(service, client, tenants, objects, path) -> None:
    key = await add_key(service, tenantId=tenants[1])
    answer = await client.get(f"/api/{path}", headers={"Authorization": key})
    assert answer.status_code == 200
    names = ("application_id", "comment", "entity", "group", "identityProvider", "member", "message", "user_id")
    for foreign in (*(objects[name] for name in names), tenants[0], DEFAULT_TENANT):
        assert foreign not in answer.text
