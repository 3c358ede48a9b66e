"""The generic screens: every resource is listed, shown, created, changed and deleted through its form."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import httpx
import pymongo
import pytest

from identity.domain.forms.forms import FIELD_IDS
from identity.ids import new_id
from identity.schemas import load
from identity.web.console import forms, layouts
from tests.conftest import DEFAULT_TENANT
from tests.console.administrator import Browser, Page
from tests.receiver import until

MAXIMUM_BYTES = 60_000


@pytest.fixture
def admin(roles: dict[str, Browser]) -> Browser:
    """An administrator who is signed in."""
    return roles["admin"]


@pytest.mark.parametrize("slug", layouts.slugs())
def test_layout_names_only_members_that_the_schema_has(slug: str) -> None:
    layout = layouts.load(slug)
    schema = load(layout.schema)
    members = [member for group in layout.groups for member in group.members]
    members += [*layout.references, *layout.secrets, *layout.code, *layout.labels, *layout.creation, *layout.matrix]
    members += layout.steps
    members += [member for preset in layout.presets for member in preset.members]
    for member in members if layout.has_items else []:
        forms.declaration(schema, layout.path_of(member))
    for reference in (*layout.references.values(), *layout.filters.values()):
        assert reference in {"", "text", "roles", *layouts.slugs()}


@pytest.mark.parametrize("slug", layouts.slugs())
async def test_every_list_is_shown(admin: Browser, slug: str) -> None:
    answer = await admin.open(f"/admin/{slug}")
    assert answer.status_code == 200, answer.text
    assert layouts.load(slug).title in Page(answer).text
    assert len(answer.content) < MAXIMUM_BYTES


CREATABLE = [slug for slug in layouts.slugs() if "create" in layouts.load(slug).verbs]


@pytest.mark.parametrize("slug", CREATABLE)
async def test_every_form_is_shown(admin: Browser, slug: str) -> None:
    answer = await admin.open(f"/admin/{slug}/new?kind=other")
    assert answer.status_code == 200, answer.text
    assert len(answer.content) < MAXIMUM_BYTES
    assert "curl -X POST" in answer.text


def editable(answer: httpx.Response) -> dict[str, Any]:
    """The fields of the form of an object."""
    return next(form["fields"] for form in Page(answer).forms if form["action"] == "")


async def post(browser: Browser, path: str, **fields: Any) -> httpx.Response:
    """Submit the form of a page with these fields changed; those of the page keep their values."""
    shown = await browser.open(path)
    assert shown.status_code == 200, shown.text
    given = {**editable(shown), **fields}
    return await browser.http.post(path, data={name: value for name, value in given.items() if value not in ("", None)})


FILLED: dict[str, dict[str, Any]] = {
    "api-keys": {"apiKey.name": "{name}"},
    "applications": {"application.name": "{name}", "console.tenantId": DEFAULT_TENANT},
    "connectors": {"connector.name": "{name}", "connector.type": "Generic",
                   "connector.authenticationURL": "https://users.example.com/login",
                   "connector.connectTimeout": "1000", "connector.readTimeout": "2000"},
    "consents": {"consent.name": "{name}", "consent.defaultMinimumAgeForSelfConsent": "13"},
    "email-templates": {
        "emailTemplate.name": "{name}",
        "emailTemplate.defaultSubject": "s",
        "emailTemplate.defaultTextTemplate": "t",
        "emailTemplate.defaultHtmlTemplate": "h",
    },
    "entity-types": {"entityType.name": "{name}"},
    "form-fields": {"field.name": "{name}", "field.key": "user.data.color"},
    "forms": {
        "form.name": "{name}",
        "form.type": "selfServiceUser",
        "form.steps[0].fields[0]": FIELD_IDS["user.email"],
    },
    "groups": {"group.name": "{name}", "console.tenantId": DEFAULT_TENANT},
    "identity-providers": {"identityProvider.name": "{name}", "identityProvider.type": "ExternalJWT"},
    "ip-acls": {
        "ipAccessControlList.name": "{name}",
        "ipAccessControlList.entries": '[{{"startIPAddress": "*", "action": "Allow"}}]',
    },
    "keys": {"key.name": "{name}", "key.algorithm": "ES256"},
    "lambdas": {"lambda.name": "{name}", "lambda.type": "JWTPopulate", "lambda.body": "function populate(jwt) {{}}"},
    "message-templates": {"messageTemplate.name": "{name}", "messageTemplate.defaultTemplate": "t"},
    "messengers": {"messenger.name": "{name}", "messenger.type": "Generic", "messenger.url": "https://sms.example.com/",
                   "messenger.connectTimeout": "1000", "messenger.readTimeout": "2000"},
    "tenants": {"tenant.name": "{name}"},
    "themes": {"theme.name": "{name}"},
    "user-actions": {"userAction.name": "{name}"},
    "user-action-reasons": {"userActionReason.text": "{name}", "userActionReason.code": "{name}"},
    "users": {"user.fullName": "{name}", "user.username": "{name}", "user.password": "a long password",
              "console.tenantId": DEFAULT_TENANT},
    "webhooks": {"webhook.description": "{name}", "webhook.url": "https://hooks.example.com/",
                 "webhook.connectTimeout": "1000", "webhook.readTimeout": "2000"},
}  # fmt: skip


@pytest.mark.requirement("oauth-12-23")
@pytest.mark.parametrize("slug", sorted(FILLED))
async def test_object_is_created_shown_changed_and_deleted(admin: Browser, api: httpx.AsyncClient, slug: str) -> None:
    layout = layouts.load(slug)
    name = f"Name {new_id()}"
    filled = {field: value.format(name=name) for field, value in FILLED[slug].items()}
    created = await post(admin, f"/admin/{slug}/new?kind=other", **filled)
    assert created.status_code == 303, Page(created).text
    shown = await admin.follow(created)
    assert name in Page(shown).text
    assert "Created." in Page(shown).text
    screen = shown.url.path
    renamed = f"Other {new_id()}"
    field = next(field for field, value in FILLED[slug].items() if value == "{name}")
    changed = await post(admin, f"{screen}/edit", **{field: renamed})
    assert changed.status_code == 303, Page(changed).text
    assert renamed in Page(await admin.follow(changed)).text
    as_json = await admin.open(f"{screen}/json")
    document = json.loads(editable(as_json)["json"])
    assert renamed in json.dumps(document)
    assert (await post(admin, f"{screen}/json")).status_code in {303, 400}
    name = layout.name_of(document)
    wrong = await post(admin, f"{screen}/delete", name="another name")
    assert wrong.status_code == 400
    assert (await admin.open(screen)).status_code == 200
    gone = await post(admin, f"{screen}/delete", name=name)
    assert gone.status_code == 303, Page(gone).text
    assert (await admin.open(screen)).status_code in {404, 200} if slug == "tenants" else 404


async def test_every_creatable_resource_is_tried() -> None:
    assert {*FILLED, "entities"} == set(CREATABLE)


async def test_change_sends_only_what_changed(admin: Browser, api: httpx.AsyncClient) -> None:
    webhook = {
        "url": "https://a.example.com",
        "connectTimeout": 1,
        "readTimeout": 1,
        "data": {"kept": [1, {"a": 2}]},
    }
    webhook |= {"eventsEnabled": {"user.create": True, "user.delete": True}, "headers": {"X-A": "1"}}
    made = (await api.post("/api/webhook", json={"webhook": webhook})).json()["webhook"]
    preview = await post(
        admin, f"/admin/webhooks/{made['id']}/edit", **{"webhook.url": "https://b.example.com", "preview": "true"}
    )
    assert preview.status_code == 200
    body = re.search(r"-d &#39;(.*?)&#39;", preview.text, re.DOTALL)
    assert body is not None
    assert json.loads(body[1].replace("&#34;", '"')) == {"webhook": {"url": "https://b.example.com"}}
    unchanged = (await api.get(f"/api/webhook/{made['id']}")).json()["webhook"]
    assert unchanged == made
    sent = await post(
        admin,
        f"/admin/webhooks/{made['id']}/edit",
        **{"webhook.eventsEnabled": ["user.create"], "webhook.headers": "X-B: 2"},
    )
    assert sent.status_code == 303
    stored = (await api.get(f"/api/webhook/{made['id']}")).json()["webhook"]
    assert stored["eventsEnabled"] == {"user.create": True}
    assert stored["headers"] == {"X-B": "2"}
    assert stored["data"] == webhook["data"]


@pytest.mark.requirement("console-9")
async def test_errors_of_the_api_are_at_their_fields_and_nothing_is_lost(admin: Browser) -> None:
    answer = await post(
        admin,
        "/admin/webhooks/new",
        **{
            "webhook.url": "no url",
            "webhook.connectTimeout": "soon",
            "webhook.description": "Kept",
            "webhook.data": "{",
        },
    )
    assert answer.status_code == 400
    assert "This is not JSON" in answer.text
    answer = await post(
        admin,
        "/admin/webhooks/new",
        **{"webhook.url": "no url", "webhook.connectTimeout": "soon", "webhook.description": "Kept"},
    )
    assert answer.status_code == 400
    invalid = {attributes["name"] for _, attributes in Page(answer).tags if attributes.get("aria-invalid") == "true"}
    assert {"webhook.url", "webhook.connectTimeout", "webhook.readTimeout"} <= invalid
    assert "[missing]" in answer.text
    assert editable(answer)["webhook.description"] == "Kept"
    assert editable(answer)["webhook.connectTimeout"] == "soon"


@pytest.mark.parametrize("path", ["search", "..%2f..%2fapi", "00000000-0000-4000-8000-00000000dead", "new%2f"])
async def test_path_that_is_no_id_shows_nothing(admin: Browser, path: str) -> None:
    assert (await admin.open(f"/admin/webhooks/{path}")).status_code == 404


async def test_list_is_searched_sorted_and_paged(admin: Browser, api: httpx.AsyncClient) -> None:
    mark = new_id()
    for number in range(27):
        await api.post(
            "/api/lambda",
            json={
                "lambda": {"name": f"{mark} {number:02}", "type": "JWTPopulate", "body": "function populate(jwt) {}"}
            },
        )
    first = await admin.open(f"/admin/lambdas?q={mark}&sort=name&order=desc")
    text = Page(first).text
    assert "25 of 27" in text
    assert text.index(f"{mark} 26") < text.index(f"{mark} 25")
    assert f"{mark} 00" not in text
    following = next(link for link in Page(first).links if "page=2" in link)
    assert f"{mark} 00" in Page(await admin.open(following)).text
    assert "Nothing matches" in Page(await admin.open(f"/admin/lambdas?q={new_id()}")).text
    for nonsense in ("page=-1", "page=99999999999", "sort=%00", "order=up", "type=no", "q=" + "a" * 300):
        assert (await admin.open(f"/admin/lambdas?{nonsense}")).status_code in {200, 400}


async def test_users_are_searched_by_queries(admin: Browser, api: httpx.AsyncClient) -> None:
    mark = new_id()[:8]
    for name in (f"{mark}-ann", f"{mark}-bob"):
        user = {"username": name, "password": "a long password", "encryptionScheme": "salted-hmac-sha256", "factor": 1}
        await api.post("/api/user", json={"user": user}, headers={"X-FusionAuth-TenantId": DEFAULT_TENANT})
    found = await admin.open(f"/admin/users?q=username:{mark}*+AND+NOT+username:*bob")
    assert f"{mark}-ann" in found.text
    assert f"{mark}-bob" not in found.text
    refused = await admin.open("/admin/users?q=(ann")
    assert refused.status_code == 400
    assert "parenthesis that is not closed" in Page(refused).text


async def test_users_are_paged_by_cursor(admin: Browser, api: httpx.AsyncClient) -> None:
    mark = new_id()[:8]
    for number in range(26):
        user = {
            "username": f"{mark}-{number:02}",
            "password": "a long password",
            "encryptionScheme": "salted-hmac-sha256",
            "factor": 1,
        }
        answer = await api.post("/api/user", json={"user": user}, headers={"X-FusionAuth-TenantId": DEFAULT_TENANT})
        assert answer.status_code == 200
    first = await admin.open(f"/admin/users?q={mark}*&sort=login")
    assert f"{mark}-00" in first.text
    assert f"{mark}-25" not in first.text
    following = next(link for link in Page(first).links if "next=" in link)
    assert f"{mark}-25" in (await admin.open(following)).text


MARKUP = "<img src=x onerror=alert(1)>\"'--></textarea><script>alert(2)</script>{{77777*3}}"


MARKED = {
    "webhooks": {
        "webhook.description": MARKUP,
        "webhook.url": "https://example.com/?a='b'",
        "webhook.connectTimeout": "1",
        "webhook.readTimeout": "1",
        "webhook.data": json.dumps({MARKUP: MARKUP}),
    },
    "users": {
        "user.fullName": MARKUP,
        "user.username": "{id}<b>",
        "user.password": "a long password",
        "user.data": json.dumps({MARKUP: MARKUP}),
        "console.tenantId": DEFAULT_TENANT,
    },
    "groups": {
        "group.name": MARKUP + "{id}",
        "group.data": json.dumps({MARKUP: MARKUP}),
        "console.tenantId": DEFAULT_TENANT,
    },
    "lambdas": {
        "lambda.name": MARKUP,
        "lambda.type": "JWTPopulate",
        "lambda.body": f"function populate(jwt) {{}} // {MARKUP}",
    },
    "consents": {
        "consent.name": MARKUP + "{id}",
        "consent.defaultMinimumAgeForSelfConsent": "1",
        "consent.values": MARKUP,
    },
}


@pytest.mark.parametrize("slug", sorted(MARKED))
@pytest.mark.requirement("console-10")
async def test_markup_in_values_is_only_text(admin: Browser, slug: str) -> None:
    filled = {name: value.replace("{id}", new_id()) for name, value in MARKED[slug].items()}
    created = await post(admin, f"/admin/{slug}/new", **filled)
    assert created.status_code == 303, Page(created).text
    screen = (await admin.follow(created)).url.path
    for path in (f"/admin/{slug}", screen, f"{screen}/edit", f"{screen}/json", f"{screen}/delete"):
        answer = await admin.open(path)
        assert answer.status_code == 200
        tags = Page(answer).tags
        assert not [tag for tag, attributes in tags if tag in {"img", "b"} or "onerror" in attributes], path
        assert [attributes.get("src", "") for tag, attributes in tags if tag == "script"] == [
            attributes["src"] for tag, attributes in tags if tag == "script"
        ]
        assert "<script>alert" not in answer.text
        assert "233331" not in answer.text


# Roles

READABLE = {
    "user-manager": {
        "users",
        "groups",
        "consents",
        "user-actions",
        "user-action-reasons",
        "applications",
        "identity-providers",
        "tenants",
        "audit-log",
        "login-records",
    },
    "developer": {
        "groups", "consents", "user-actions", "user-action-reasons", "messengers",
        "applications", "entities", "entity-types", "identity-providers",
        "lambdas", "themes", "forms", "form-fields",
        "email-templates", "message-templates", "webhooks", "webhook-log", "keys", "event-log",
        "tenants", "ip-acls",
    },
    "auditor": {*layouts.slugs()} - {"api-keys"},
    "tenant-admin": {"users", "groups", "applications", "entities", "identity-providers", "audit-log"},
    "admin": {*layouts.slugs()},
}  # fmt: skip
CREATABLE_BY = {
    "user-manager": {"users"},
    "developer": {
        "applications", "entities", "entity-types", "identity-providers", "lambdas", "themes", "forms", "form-fields",
        "email-templates", "message-templates", "messengers", "webhooks", "keys",
    },
    "auditor": set(),
    "tenant-admin": {"users", "groups", "applications", "entities", "identity-providers"},
    "admin": {*CREATABLE},
}  # fmt: skip


@pytest.mark.parametrize("role", sorted(READABLE))
@pytest.mark.requirement("console-3")
async def test_home_links_to_the_resources_that_the_role_reads(roles: dict[str, Browser], role: str) -> None:
    links = Page(await roles[role].open("/admin")).links
    assert {slug for slug in layouts.slugs() if f"/admin/{slug}" in links} == READABLE[role]


@pytest.mark.parametrize("slug", layouts.slugs())
@pytest.mark.parametrize("role", sorted(READABLE))
@pytest.mark.requirement("console-3")
async def test_role_reads_and_creates_what_its_permissions_include(
    roles: dict[str, Browser], role: str, slug: str
) -> None:
    browser = roles[role]
    is_readable, is_creatable = slug in READABLE[role], slug in CREATABLE_BY[role]
    answer = await browser.open(f"/admin/{slug}")
    assert answer.status_code == (200 if is_readable else 403)
    assert (f"/admin/{slug}/new" in Page(answer).links) is (is_readable and is_creatable)
    if slug not in FILLED or is_creatable:
        return
    token = await browser.csrf_token()
    filled = {field: value.format(name=new_id()) for field, value in FILLED[slug].items()}
    refused = await browser.http.post(f"/admin/{slug}/new", data={**filled, "csrf_token": token})
    assert refused.status_code in {400, 403}
    assert "not permit" in refused.text


@pytest.mark.parametrize("role", ["user-manager", "developer", "auditor", "tenant-admin"])
@pytest.mark.parametrize("action", ["edit", "json", "delete"])
async def test_role_without_the_permission_changes_nothing(
    roles: dict[str, Browser], api: httpx.AsyncClient, role: str, action: str
) -> None:
    name = new_id()
    made = (
        await api.post(
            "/api/ip-acl",
            json={"ipAccessControlList": {"name": name, "entries": [{"startIPAddress": "*", "action": "Allow"}]}},
        )
    ).json()["ipAccessControlList"]
    data = {
        "csrf_token": await roles[role].csrf_token(),
        "name": name,
        "ipAccessControlList.name": "stolen",
        "json": json.dumps({**made, "name": "stolen"}),
    }
    answer = await roles[role].http.post(f"/admin/ip-acls/{made['id']}/{action}", data=data)
    assert answer.status_code in {400, 403}
    assert (await api.get(f"/api/ip-acl/{made['id']}")).json()["ipAccessControlList"] == made


@pytest.mark.requirement("console-11")
async def test_administrator_of_one_tenant_sees_nothing_of_another(
    as_role: Any, every_tenant: httpx.AsyncClient
) -> None:
    tenant = (await every_tenant.post("/api/tenant", json={"tenant": {"name": new_id()}})).json()["tenant"]
    headers = {"X-FusionAuth-TenantId": tenant["id"]}
    theirs = (
        await every_tenant.post(
            "/api/application",
            json={"application": {"name": new_id()}},
            headers={"X-FusionAuth-TenantId": DEFAULT_TENANT},
        )
    ).json()["application"]
    own = (
        await every_tenant.post("/api/application", json={"application": {"name": new_id()}}, headers=headers)
    ).json()["application"]
    browser = await as_role("tenant-admin", data={"tenantId": tenant["id"]})
    listed = (await browser.open("/admin/applications")).text
    assert own["name"] in listed
    assert theirs["name"] not in listed
    assert (await browser.open(f"/admin/applications/{theirs['id']}")).status_code == 404
    assert (await browser.open(f"/admin/applications/{own['id']}")).status_code == 200
    created = await post(browser, "/admin/groups/new", **{"group.name": "Of this tenant"})
    assert created.status_code == 303, Page(created).text
    group = (
        await every_tenant.get(f"/api/group/{(await browser.follow(created)).url.path.rpartition('/')[2]}")
    ).json()["group"]
    assert group["tenantId"] == tenant["id"]


@pytest.mark.requirement("console-8")
async def test_every_change_is_in_the_audit_log_with_the_name_of_the_person(
    admin: Browser, every_tenant: httpx.AsyncClient
) -> None:
    name = new_id()
    created = await post(admin, "/admin/groups/new", **{"group.name": name, "console.tenantId": DEFAULT_TENANT})
    assert created.status_code == 303, Page(created).text
    screen = (await admin.follow(created)).url.path
    assert (await post(admin, f"{screen}/edit", **{"group.name": f"{name} changed"})).status_code == 303
    assert (await post(admin, f"{screen}/delete", name=f"{name} changed")).status_code == 303
    group_id = screen.rpartition("/")[2]
    rows = (await every_tenant.get("/api/system/audit-log/search", params={"message": group_id})).json()["auditLogs"]
    assert sorted(row["message"] for row in rows) == [f"DELETE /api/group/{group_id}", f"PATCH /api/group/{group_id}"]
    assert all(row["insertUser"].startswith("Ada Lovelace (") for row in rows)
    assert {row["reason"] for row in rows} == {"A change on the console"}
    assert f"PATCH /api/group/{group_id}" in Page(await admin.open(f"/admin/audit-log?q={group_id}")).text


# Secrets and recent logins


async def test_secret_is_revealed_after_a_recent_login_only(as_role: Any, api: httpx.AsyncClient, clock: Any) -> None:
    browser = await as_role("admin")
    made = (
        await api.post(
            "/api/application",
            json={"application": {"name": new_id()}},
            headers={"X-FusionAuth-TenantId": DEFAULT_TENANT},
        )
    ).json()["application"]
    secret, screen = made["oauthConfiguration"]["clientSecret"], f"/admin/applications/{made['id']}"
    for path in (screen, f"{screen}/edit", f"{screen}/json"):
        assert secret not in (await browser.open(path)).text
    assert secret in (await browser.open(f"{screen}?reveal=true")).text
    clock.advance(seconds=901)
    assert (await browser.open(screen)).status_code == 200
    asked = await browser.http.get(f"{screen}?reveal=true")
    assert asked.status_code == 302
    assert "prompt=login" in asked.headers["Location"]
    assert 'type="password"' in (await browser.open(f"{screen}/delete")).text


async def test_auditor_is_shown_no_secret(roles: dict[str, Browser], api: httpx.AsyncClient) -> None:
    made = (
        await api.post(
            "/api/application",
            json={"application": {"name": new_id()}},
            headers={"X-FusionAuth-TenantId": DEFAULT_TENANT},
        )
    ).json()["application"]
    for suffix in ("", "?reveal=true", "/json"):
        shown = await roles["auditor"].open(f"/admin/applications/{made['id']}{suffix}")
        assert shown.status_code == 200
        assert made["oauthConfiguration"]["clientSecret"] not in shown.text


@pytest.mark.requirement("console-7")
async def test_deletion_asks_for_a_recent_login_and_says_what_goes_with_the_object(
    as_role: Any, api: httpx.AsyncClient, clock: Any
) -> None:
    browser = await as_role("admin")
    headers = {"X-FusionAuth-TenantId": DEFAULT_TENANT}
    made = (await api.post("/api/group", json={"group": {"name": new_id()}}, headers=headers)).json()["group"]
    user = {"username": new_id(), "password": "a long password"}
    user_id = (await api.post("/api/user", json={"user": user}, headers=headers)).json()["user"]["id"]
    await api.post("/api/group/member", json={"members": {made["id"]: [{"userId": user_id}]}}, headers=headers)
    path = f"/admin/groups/{made['id']}/delete"
    shown = await browser.open(path)
    assert "1 memberships" in " ".join(Page(shown).text.split())
    clock.advance(seconds=901)
    answer = await browser.http.post(path, data={**editable(shown), "name": made["name"]})
    assert answer.status_code == 302
    assert "prompt=login" in answer.headers["Location"]
    assert (await api.get(f"/api/group/{made['id']}")).status_code == 200


# Kinds, permissions, settings, exports

PROVIDER_SECRETS = {
    *("appId", "client_id", "client_secret", "consumerKey", "consumerSecret", "oauth2.client_id"),
    *("oauth2.client_secret", "servicesId", "teamId", "webAPIKey"),
}


@pytest.mark.parametrize("kind", [preset.name for preset in layouts.load("applications").presets])
async def test_application_of_a_kind_is_created_with_the_settings_that_fit(
    admin: Browser, api: httpx.AsyncClient, kind: str
) -> None:
    fields = {"application.name": new_id(), "console.tenantId": DEFAULT_TENANT}
    chooser = await admin.open("/admin/applications/new")
    assert f"/admin/applications/new?kind={kind}" in Page(chooser).links
    if kind == "device":
        fields["application.oauthConfiguration.deviceVerificationURL"] = "https://example.com/device"
    else:
        fields["application.oauthConfiguration.authorizedRedirectURLs"] = "https://example.com/callback"
    created = await post(admin, f"/admin/applications/new?kind={kind}", **fields)
    assert created.status_code == 303, Page(created).text
    object_id = (await admin.follow(created)).url.path.rpartition("/")[2]
    oauth = (await api.get(f"/api/application/{object_id}")).json()["application"]["oauthConfiguration"]
    wanted = layouts.load("applications").preset(kind)
    assert wanted is not None
    for name, value in wanted.values["oauthConfiguration"].items():
        assert oauth[name] == value


@pytest.mark.parametrize("kind", [preset.name for preset in layouts.load("identity-providers").presets])
async def test_identity_provider_of_a_kind_is_created_with_its_settings(
    admin: Browser, api: httpx.AsyncClient, kind: str
) -> None:
    wanted = layouts.load("identity-providers").preset(kind)
    assert wanted is not None
    chooser = await admin.open("/admin/identity-providers/new")
    assert f"/admin/identity-providers/new?kind={kind}" in Page(chooser).links
    fields = {f"identityProvider.{name}": new_id() for name in wanted.members if name in PROVIDER_SECRETS}
    fields["identityProvider.name"] = new_id()
    if kind == "Apple":
        key = (await api.post("/api/key/generate", json={"key": {"name": new_id(), "algorithm": "ES256"}})).json()[
            "key"
        ]
        fields["identityProvider.keyId"] = key["id"]
    if kind == "EntraID":
        refused = await post(admin, f"/admin/identity-providers/new?kind={kind}", **fields)
        assert "oauth2.issuer" in refused.text
        fields["identityProvider.oauth2.issuer"] = "https://login.microsoftonline.com/the-directory/v2.0"
    created = await post(admin, f"/admin/identity-providers/new?kind={kind}", **fields)
    assert created.status_code == 303, Page(created).text
    object_id = (await admin.follow(created)).url.path.rpartition("/")[2]
    provider = (await api.get(f"/api/identity-provider/{object_id}")).json()["identityProvider"]
    assert (provider["type"], provider["enabled"]) == (wanted.values["type"], True)
    for name, value in wanted.values.get("oauth2", {}).items():
        assert provider["oauth2"][name] == value or name == "issuer"


async def test_api_key_gets_the_permissions_of_the_matrix(admin: Browser, every_tenant: httpx.AsyncClient) -> None:
    name = new_id()
    chosen = ["GET /api/user", "POST /api/user", "GET /api/tenant"]
    created = await post(admin, "/admin/api-keys/new", **{"apiKey.name": name, "apiKey.permissions.endpoints": chosen})
    assert created.status_code == 303, Page(created).text
    screen = (await admin.follow(created)).url.path
    revealed = Page(await admin.open(f"{screen}?reveal=true"))
    document = json.loads(editable(await admin.open(f"{screen}/json"))["json"])
    assert document["permissions"] == {"endpoints": {"/api/tenant": ["GET"], "/api/user": ["GET", "POST"]}}
    key = re.search(r"Key\s+([A-Za-z0-9_-]{64})", revealed.text)
    assert key is not None
    answer = await every_tenant.get("/api/tenant", headers={"Authorization": key[1]})
    assert answer.status_code == 200
    assert (await every_tenant.get("/api/key", headers={"Authorization": key[1]})).status_code == 401
    without = await post(admin, f"{screen}/edit", **{"apiKey.permissions.endpoints": ["GET /api/tenant"]})
    assert without.status_code == 303
    assert (await every_tenant.get("/api/user", headers={"Authorization": key[1]})).status_code == 401


async def test_settings_are_shown_and_changed(admin: Browser, every_tenant: httpx.AsyncClient) -> None:
    before = (await every_tenant.get("/api/system-configuration")).json()["systemConfiguration"]
    try:
        saved = await post(admin, "/admin/settings", **{"systemConfiguration.reportTimezone": "Europe/Zurich"})
        assert saved.status_code == 303, Page(saved).text
        after = (await every_tenant.get("/api/system-configuration")).json()["systemConfiguration"]
        assert after["reportTimezone"] == "Europe/Zurich"
        assert after["corsConfiguration"] == before["corsConfiguration"]
        wrong = await post(admin, "/admin/settings", **{"systemConfiguration.reportTimezone": "Mars"})
        assert wrong.status_code == 400
    finally:
        await every_tenant.put("/api/system-configuration", json={"systemConfiguration": before})


@pytest.mark.parametrize("slug", ["audit-log", "login-records"])
async def test_log_is_exported(roles: dict[str, Browser], slug: str) -> None:
    answer = await roles["auditor"].http.get(f"/admin/{slug}/export?q=POST")
    assert answer.headers["Content-Type"] == "application/zip"
    assert answer.content.startswith(b"PK")
    assert "attachment" in answer.headers["Content-Disposition"]


async def test_home_and_reports_show_what_the_roles_permit(roles: dict[str, Browser]) -> None:
    for role, browser in roles.items():
        for path in ("/admin", "/admin/reports", "/admin/reports?days=7&applicationId=nonsense"):
            answer = await browser.open(path)
            assert answer.status_code == 200, (role, path)
            assert len(answer.content) < MAXIMUM_BYTES
    home = Page(await roles["admin"].open("/admin"))
    assert "Logins" in home.text
    assert "Before production" in home.text
    assert [tag for tag, _ in home.tags if tag == "svg"]


async def test_role_that_may_only_read_is_offered_no_change(roles: dict[str, Browser], api: httpx.AsyncClient) -> None:
    body = {"application": {"name": new_id()}}
    made = (await api.post("/api/application", json=body, headers={"X-FusionAuth-TenantId": DEFAULT_TENANT})).json()
    screen = f"/admin/applications/{made['application']['id']}"
    for path in (screen, f"{screen}/json", f"{screen}/connect", f"{screen}/try"):
        shown = Page(await roles["auditor"].open(path))
        assert [form["action"] for form in shown.forms] in (["/admin/sign-out"], ["/admin/sign-out", ""]), path
        assert not [link for link in shown.links if link.endswith(("/edit", "/delete")) or "/do/" in link], path
        assert "Replace" not in shown.text
        assert "Reveal" not in shown.text


async def test_users_are_filtered_by_tenant(admin: Browser, every_tenant: httpx.AsyncClient) -> None:
    tenant = (await every_tenant.post("/api/tenant", json={"tenant": {"name": new_id()}})).json()["tenant"]
    user = {"username": new_id(), "password": "a long password"}
    headers = {"X-FusionAuth-TenantId": tenant["id"]}
    assert (await every_tenant.post("/api/user", json={"user": user}, headers=headers)).status_code == 200
    assert user["username"] in (await admin.open(f"/admin/users?tenantId={tenant['id']}")).text
    elsewhere = await admin.open(f"/admin/users?tenantId={DEFAULT_TENANT}&q={user['username']}")
    assert "Nothing matches" in elsewhere.text
    assert (await admin.open("/admin/users?tenantId=nonsense")).status_code == 400


async def test_failed_logins_and_tokens_by_grant_are_counted(
    roles: dict[str, Browser], api: httpx.AsyncClient, http: httpx.AsyncClient, every_tenant: httpx.AsyncClient
) -> None:
    body = {"application": {"name": new_id(), "oauthConfiguration": {"enabledGrants": ["password"]}}}
    headers = {"X-FusionAuth-TenantId": DEFAULT_TENANT}
    client = (await api.post("/api/application", json=body, headers=headers)).json()["application"]
    user = {"username": new_id(), "password": "a long password"}
    await api.post("/api/user", json={"user": user}, headers=headers)
    form = {"grant_type": "password", "username": user["username"], "client_id": client["id"]}
    form["client_secret"] = client["oauthConfiguration"]["clientSecret"]
    now = round(time.time() * 1000)

    async def counts() -> dict[str, int]:
        query = {"start": now, "end": now}
        answer = await every_tenant.get("/api/report/activity", params=query, headers=headers)
        return dict((answer.json()["dailyActivities"] or [{"counts": {}}])[-1]["counts"])

    before = await counts()
    assert (await http.post("/oauth2/token", data={**form, "password": "a long password"})).status_code == 200
    assert (await http.post("/oauth2/token", data={**form, "password": "wrong"})).status_code == 400

    async def is_counted() -> bool:
        found = await counts()
        return all(found.get(name, 0) > before.get(name, 0) for name in ("login.failed", "token.password"))

    await until(is_counted)
    home = Page(await roles["auditor"].open("/admin")).text
    for expected in ("Failed logins", "Tokens by grant", "password"):
        assert expected in home
    assert (await every_tenant.get("/api/report/activity")).status_code == 400
    tenant = (await every_tenant.post("/api/tenant", json={"tenant": {"name": new_id()}})).json()["tenant"]
    other = {"X-FusionAuth-TenantId": tenant["id"]}
    answer = await every_tenant.get("/api/report/activity", params={"start": now, "end": now}, headers=other)
    assert answer.json() == {"dailyActivities": []}


@pytest.mark.parametrize(
    "path",
    [
        "/admin",
        "/admin/users",
        "/admin/users?sort=login",
        "/admin/users?sort=insertInstant&order=desc",
        "/admin/users?q=ada",
        f"/admin/users?tenantId={DEFAULT_TENANT}",
    ],
)
@pytest.mark.requirement("console-23")
async def test_list_of_users_is_answered_from_an_index(
    admin: Browser, service: Any, stores: Any, api: httpx.AsyncClient, every_tenant: httpx.AsyncClient, path: str
) -> None:
    await every_tenant.post("/api/tenant", json={"tenant": {"name": new_id()}})
    users = [{"username": new_id(), "fullName": "Ada"} for _ in range(300)]
    headers = {"X-FusionAuth-TenantId": DEFAULT_TENANT}
    assert (await api.post("/api/user/import", json={"users": users}, headers=headers)).status_code == 200
    mongo = pymongo.AsyncMongoClient(str(stores.mongodb_uri))
    database = mongo[service.services.config.mongodb.database]
    await database.command("profile", 2, filter={"ns": f"{database.name}.users"})
    try:
        answer = await admin.http.get(path)
    finally:
        await database.command("profile", 0)
    assert answer.status_code == 200
    assert len(answer.content) < MAXIMUM_BYTES
    rows = await database["system.profile"].find({"ns": f"{database.name}.users"}).to_list()
    await database["system.profile"].drop()
    await mongo.close()
    plans = [(row.get("planSummary", ""), row["command"].get("pipeline", [])) for row in rows]
    assert plans
    # The number of users is counted up to ten thousand.
    assert not [plan for plan, stages in plans if "COLLSCAN" in plan and {"$limit": 10_000} not in stages], plans
    # Reports sort their counts, not users.
    assert not [row for row in rows if row.get("hasSortStage") and "$group" not in str(row["command"])]
    assert all(row.get("docsExamined", 0) <= 10_001 for row in rows)


@pytest.mark.requirement("console-23")
@pytest.mark.parametrize("scope", ["", f"&tenantId={DEFAULT_TENANT}"])
async def test_newest_users_of_a_common_name_are_read_without_the_others(
    admin: Browser, service: Any, stores: Any, api: httpx.AsyncClient, scope: str
) -> None:
    name = f"Grace {new_id()}"
    headers = {"X-FusionAuth-TenantId": DEFAULT_TENANT}
    users = [{"username": new_id(), "fullName": name} for _ in range(500)]
    assert (await api.post("/api/user/import", json={"users": users}, headers=headers)).status_code == 200
    newest = {"username": new_id(), "fullName": name, "password": "a long password"}
    assert (await api.post("/api/user", json={"user": newest}, headers=headers)).status_code == 200
    mongo = pymongo.AsyncMongoClient(str(stores.mongodb_uri))
    database = mongo[service.services.config.mongodb.database]
    await database.command("profile", 2, filter={"ns": f"{database.name}.users"})
    try:
        shown = await admin.http.get(f"/admin/users?q={name}{scope}")
    finally:
        await database.command("profile", 0)
    rows = await database["system.profile"].find({"ns": f"{database.name}.users"}).to_list()
    await database["system.profile"].drop()
    await mongo.close()
    searches = [row for row in rows if name.lower() in str(row["command"])]
    assert len(searches) == 2, "a page and a count"
    assert sum(row["docsExamined"] for row in searches) <= 25
    assert not [row for row in searches if row.get("hasSortStage")]
    usernames = re.findall(r"<td[^>]*>([0-9a-f-]{36})</td>", shown.text)
    assert (len(usernames), usernames[0]) == (25, newest["username"])
    assert "501" in Page(shown).text


async def test_pages_of_users_of_a_common_name_are_disjoint(admin: Browser, api: httpx.AsyncClient) -> None:
    name = f"Grace {new_id()}"
    users = [{"username": new_id(), "fullName": name} for _ in range(60)]
    headers = {"X-FusionAuth-TenantId": DEFAULT_TENANT}
    assert (await api.post("/api/user/import", json={"users": users}, headers=headers)).status_code == 200
    shown, found = await admin.open(f"/admin/users?q={name}"), list[str]()
    for _ in range(3):
        found += re.findall(r"<td[^>]*>([0-9a-f-]{36})</td>", shown.text)
        following = [link for link in Page(shown).links if "next=" in link]
        shown = await admin.open(following[-1]) if following else shown
    assert sorted(found) == sorted(user["username"] for user in users)


async def test_url_is_entered_in_one_line(admin: Browser) -> None:
    text = (await admin.open("/admin/connectors/new")).text
    assert re.search(r'<input[^>]*name="connector\.authenticationURL"', text)


async def test_list_of_an_object_is_replaced(admin: Browser, api: httpx.AsyncClient) -> None:
    urls = ["https://one.example.com/", "https://two.example.com/"]
    body = {"application": {"name": new_id(), "oauthConfiguration": {"authorizedRedirectURLs": urls}}}
    headers = {"X-FusionAuth-TenantId": DEFAULT_TENANT}
    made = (await api.post("/api/application", json=body, headers=headers)).json()["application"]
    fields = {"application.oauthConfiguration.authorizedRedirectURLs": urls[1]}
    assert (await post(admin, f"/admin/applications/{made['id']}/edit", **fields)).status_code == 303
    stored = (await api.get(f"/api/application/{made['id']}")).json()["application"]
    assert stored["oauthConfiguration"]["authorizedRedirectURLs"] == urls[1:]
