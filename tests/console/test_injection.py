"""Stored XSS and template injection: a payload in every text of every object, on every screen that shows it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import httpx
import pytest

from identity.domain.forms.forms import FIELD_IDS
from identity.ids import new_id
from identity.schemas import load
from identity.web.console import layouts
from tests.conftest import DEFAULT_TENANT
from tests.console.administrator import Browser, Page
from tests.console.test_resources import FILLED
from tests.relying_party import REDIRECT_URI

PAYLOAD: Final = "\"'><xss-mark onload=1></textarea></script>{{1337*1337}}${1337*1337}"
RESULT: Final = "1787569"
HEADERS: Final = {"X-FusionAuth-TenantId": DEFAULT_TENANT}
SELECTED: Final[Mapping[str, dict[str, Any]]] = {
    "forms": {"steps": [{"fields": [FIELD_IDS["user.email"]]}]},
    "message-templates": {"type": "SMS"},
}
"""Members that the form preselects, or that have several inputs."""
UNTOUCHED: Final = {"id", "password", "type", "algorithm", "body", "encryptionScheme"}


def texts(schema: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of all texts below a schema that a caller may set, and one below every free-form object."""
    for name, member in schema.get("properties", {}).items():
        kind = member.get("type")
        if member.get("readOnly") or name in UNTOUCHED or "enum" in member or len(path) > 3:
            continue
        if kind == "object" and "properties" in member:
            yield from texts(member, (*path, name))
        elif kind == "object":
            yield (*path, name, "en" if "ocalized" in name else PAYLOAD)
        elif kind == "array" and member.get("items", {}).get("type") == "string":
            yield (*path, name, "[]")
        elif kind == "string":
            yield (*path, name)


def with_texts(document: Mapping[str, Any], paths: set[tuple[str, ...]]) -> dict[str, Any]:
    """The document with the payload at all paths."""
    found = copy.deepcopy(dict(document))
    for path in sorted(paths):
        holder: Any = found
        *steps, last = path
        if last == "[]":
            *steps, list_name = steps
        for step in steps:
            holder = holder.setdefault(step, {})
        if last == "[]":
            holder[list_name] = [PAYLOAD]
        else:
            holder[last] = PAYLOAD
    return found


def refused(answer: httpx.Response, paths: set[tuple[str, ...]]) -> set[tuple[str, ...]]:
    """The paths that the errors of a response are about, else those next to what is missing."""
    named = [path.partition("[")[0].split(".")[1:] for path in answer.json().get("fieldErrors", {})]
    found = {path for path in paths if any(list(path[: len(each)]) == each for each in named)}
    holders = [each[:-1] for each in named if len(each) > 1]
    return found or {path for path in paths if any(list(path[: len(each)]) == each for each in holders)}


async def stored_with_payload(
    api: httpx.AsyncClient, method: str, url: str, wrapper: str, schema: str, document: Mapping[str, Any]
) -> tuple[dict[str, Any], set[tuple[str, ...]]]:
    """Store an object with the payload in every text that accepts it; returns the response and these paths."""
    paths = set(texts(load(schema)["properties"][wrapper]))
    while True:
        body = {wrapper: with_texts(document, paths)}
        answer = await api.request(method, url, json=body)
        if answer.status_code == 200:
            return dict(answer.json()[wrapper]), paths
        assert answer.status_code == 400, answer.text
        dropped = refused(answer, paths)
        assert dropped, answer.text
        paths -= dropped


def assert_harmless(answer: httpx.Response, where: str) -> bool:
    """The payload is nothing but text on a page; returns whether the page shows it."""
    assert "<xss-mark" not in answer.text, where
    assert RESULT not in answer.text, where
    tags = Page(answer).tags
    assert not [attributes for _, attributes in tags if "onload" in attributes], where
    return "xss-mark" in answer.text


def minimal(slug: str) -> dict[str, Any]:
    """The smallest object of a resource, from the form that creates it."""
    wrapper, found = layouts.load(slug).wrapper, dict(SELECTED.get(slug, {}))
    for name, value in FILLED[slug].items():
        first, _, path = name.partition(".")
        if first == wrapper and "[" not in path:
            holder = found
            *steps, last = path.split(".")
            for step in steps:
                holder = holder.setdefault(step, {})
            text = value.format(name=new_id())
            holder[last] = int(text) if text.isdecimal() else json.loads(text) if text[:1] in "[{" else text
    return found


@pytest.mark.requirement("console-10")
@pytest.mark.parametrize("slug", sorted(set(FILLED) - {"api-keys", "keys"}))
async def test_texts_of_every_object_are_only_text_on_every_screen(
    roles: dict[str, Browser], api: httpx.AsyncClient, slug: str
) -> None:
    layout, admin = layouts.load(slug), roles["admin"]
    if slug != "tenants":
        api.headers.update(HEADERS)
    path = layout.create_path or layout.path
    document, accepted = await stored_with_payload(api, "POST", path, layout.wrapper, layout.schema, minimal(slug))
    assert accepted
    screen = f"{layout.screen}/{document['id']}"
    tabs = [f"{screen}/tab/{tab.name}" for tab in layout.tabs]
    pages = [f"{screen}/{name}" for name in layout.pages]
    shown_actions = [action for action in layout.actions if not (action.keys or action.address.endswith(".json"))]
    actions = [f"{screen}/{action.address}" for action in shown_actions]
    shown = False
    for each in (
        layout.screen,
        screen,
        f"{screen}/edit",
        f"{screen}/json",
        f"{screen}/delete",
        *tabs,
        *pages,
        *actions,
    ):
        answer = await admin.open(each)
        assert answer.status_code == 200, each
        shown |= assert_harmless(answer, each)
    assert shown
    if slug == "tenants":
        await api.delete(f"/api/tenant/{document['id']}")


@pytest.mark.requirement("console-10")
async def test_names_in_logs_and_in_an_import_are_only_text(roles: dict[str, Browser], api: httpx.AsyncClient) -> None:
    admin = roles["admin"]
    for address in (
        f"/admin/users?q={PAYLOAD}",
        f"/admin/audit-log?q={PAYLOAD}",
        f"/admin/webhook-log?eventType={PAYLOAD}",
        f"/admin/applications/new?kind={PAYLOAD}",
        f"/admin/reports?days={PAYLOAD}&applicationId={PAYLOAD}",
    ):
        answer = await admin.http.get(address)
        assert answer.status_code in {200, 400}
        assert_harmless(answer, address)
    token = await admin.csrf_token()
    pasted = await admin.http.post("/admin/refusals", data={"csrf_token": token, "request": PAYLOAD})
    assert assert_harmless(pasted, "refusals")
    for text in (f"{PAYLOAD}\nx", f"email\n{PAYLOAD}", f'[{{"email": {json.dumps(PAYLOAD)}}}]'):
        shown = await admin.http.post(
            "/admin/users/import",
            data={"csrf_token": token, "console.tenantId": DEFAULT_TENANT},
            files={"file": ("x.csv", text.encode())},
        )
        assert shown.status_code in {200, 400}
        assert_harmless(shown, text)


@pytest.mark.requirement("console-10")
async def test_texts_of_user_and_application_are_only_text_on_hosted_pages(
    rp: Any, browser: Any, api: httpx.AsyncClient
) -> None:
    client: httpx.AsyncClient = browser.http
    api.headers.update({"X-FusionAuth-TenantId": rp.tenant["id"]})
    path = f"/api/application/{rp.client_id}"
    members = {"oauthConfiguration": {"authorizedRedirectURLs": [REDIRECT_URI]}}
    _, accepted = await stored_with_payload(api, "PATCH", path, "application", "api/application.json", members)
    assert ("name",) in accepted
    await rp.configure(authorizedRedirectURLs=[REDIRECT_URI], enabledGrants=["authorization_code", "refresh_token"])
    scope = {"name": "orders", "defaultConsentMessage": PAYLOAD, "defaultConsentDetail": PAYLOAD}
    assert (await api.post(f"{path}/scope", json={"scope": scope})).status_code == 200
    url = f"/api/user/{rp.user['id']}"
    _, accepted = await stored_with_payload(api, "PATCH", url, "user", "api/user.json", {"email": rp.login_id})
    assert ("firstName",) in accepted
    shown = await rp.authorize(client)
    assert assert_harmless(shown, "login")
    wrong = await rp.submit(client, shown, loginId=PAYLOAD, password=PAYLOAD)
    assert assert_harmless(wrong, "login error")
    assert (await rp.submit(client, shown)).status_code == 302
    seen = set()
    place = {"client_id": rp.client_id, "tenantId": rp.tenant["id"]}
    for name in ("", "/edit", "/password", "/sessions", "/applications", "/links", "/data", "/delete", "/two-factor"):
        page = await client.get(f"/account{name}", params=place)
        if assert_harmless(page, name):
            seen.add(name)
    assert {"", "/edit"} & seen
    for target in ("/oauth2/register", "/oauth2/device", "/password/forgot", "/oauth2/logout"):
        assert_harmless(await client.get(target, params={**rp.query(), "state": PAYLOAD, "user_code": PAYLOAD}), target)
    for target in ("/oauth2/authorize", "/password/change/x", "/email/verify/x", f"/{PAYLOAD}"):
        assert_harmless(await client.get(target, params={"client_id": PAYLOAD, "error": PAYLOAD}), target)


async def test_names_of_roles_and_form_fields_are_only_text_where_they_are_chosen(
    roles: dict[str, Browser], every_tenant: httpx.AsyncClient
) -> None:
    api = every_tenant
    tenant = (await api.post("/api/tenant", json={"tenant": {"name": new_id()}})).json()["tenant"]
    api.headers["X-FusionAuth-TenantId"] = tenant["id"]
    body = {"application": {"name": f"{PAYLOAD} {new_id()}", "roles": [{"name": PAYLOAD}]}}
    application = (await api.post("/api/application", json=body)).json()["application"]
    role = application["roles"][0]["id"]
    group = (await api.post("/api/group", json={"group": {"name": new_id()}, "roleIds": [role]})).json()["group"]
    user = (await api.post("/api/user", json={"user": {"username": new_id(), "password": "a long password"}})).json()[
        "user"
    ]
    field = {"field": {"name": f"{PAYLOAD} {new_id()}", "key": f"user.data.{new_id()[:8]}"}}
    field_id = (await api.post("/api/form/field", json=field)).json()["field"]["id"]
    form = {"name": new_id(), "type": "selfServiceUser", "steps": [{"fields": [field_id]}]}
    form_id = (await api.post("/api/form", json={"form": form})).json()["form"]["id"]
    for path in (
        f"/admin/groups/{group['id']}",
        f"/admin/groups/{group['id']}/edit",
        f"/admin/users/{user['id']}/registration",
        f"/admin/users/{user['id']}/registration?applicationId={application['id']}",
        f"/admin/forms/{form_id}",
        f"/admin/forms/{form_id}/edit",
        "/admin/forms/new",
    ):
        answer = await roles["admin"].open(path)
        assert answer.status_code == 200, path
        assert assert_harmless(answer, path), path
