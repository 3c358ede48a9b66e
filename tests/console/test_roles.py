"""The matrix of roles, pages and actions beyond lists and forms: each cell is tried."""

from __future__ import annotations

from typing import Any, Final

import httpx
import pytest

from identity.ids import new_id
from identity.web.console import layouts
from tests.conftest import DEFAULT_TENANT
from tests.console.administrator import Browser, Page
from tests.console.test_injection import minimal
from tests.console.test_resources import FILLED, READABLE

HEADERS: Final = {"X-FusionAuth-TenantId": DEFAULT_TENANT}
ROLES: Final = ("admin", "auditor", "developer", "tenant-admin", "user-manager")
CHANGING: Final = {
    "applications": {"admin", "developer", "tenant-admin"},
    "groups": {"admin", "tenant-admin", "user-manager"},
    "users": {"admin", "tenant-admin", "user-manager"},
    "webhooks": {"admin", "developer"},
}
"""The roles that may act on objects, of the resources with actions; user managers add members to groups."""


async def made(api: httpx.AsyncClient, slug: str) -> dict[str, Any]:
    layout = layouts.load(slug)
    body = {layout.wrapper: minimal(slug)}
    answer = await api.post(layout.create_path or layout.path, json=body, headers=HEADERS)
    assert answer.status_code == 200, answer.text
    return dict(answer.json()[layout.wrapper])


@pytest.mark.requirement("console-3")
@pytest.mark.parametrize("slug", sorted(slug for slug in FILLED if layouts.load(slug).tabs or layouts.load(slug).pages))
@pytest.mark.parametrize("role", ROLES)
async def test_tabs_and_pages_are_shown_to_the_roles_that_read_the_resource(
    roles: dict[str, Browser], api: httpx.AsyncClient, role: str, slug: str
) -> None:
    if slug == "api-keys":
        assert (slug in READABLE[role]) is (role == "admin")
        return
    layout, document = layouts.load(slug), await made(api, slug)
    paths = [f"tab/{tab.name}" for tab in layout.tabs] + list(layout.pages)
    for path in paths:
        answer = await roles[role].open(f"{layout.screen}/{document['id']}/{path}")
        assert answer.status_code == (200 if slug in READABLE[role] else 403), path


@pytest.mark.requirement("console-3")
@pytest.mark.parametrize("slug", sorted(CHANGING))
@pytest.mark.parametrize("role", ROLES)
async def test_actions_of_other_roles_are_neither_offered_nor_performed(
    roles: dict[str, Browser], api: httpx.AsyncClient, role: str, slug: str
) -> None:
    layout, document, browser = layouts.load(slug), await made(api, slug), roles[role]
    screen = f"{layout.screen}/{document['id']}"
    shown = await browser.open(screen)
    offered = [link for link in Page(shown).links if "/do/" in link]
    if role in CHANGING[slug]:
        assert offered or slug == "groups"
        return
    assert offered == []
    before = (await api.get(f"{layout.path}/{document['id']}")).json()
    token = await browser.csrf_token()
    for action in (each for each in layout.actions if not each.page):
        keys = "&".join(f"{name}={new_id()}" for name in action.keys)
        refused = await browser.http.post(f"{screen}/do/{action.name}?{keys}", data={"csrf_token": token})
        assert refused.status_code in {400, 403}, action.name
        assert "not permit" in refused.text, action.name
    assert (await api.get(f"{layout.path}/{document['id']}")).json() == before


PAGES: Final = {
    "/admin/users/import": {"admin", "tenant-admin", "user-manager"},
    "/admin/users/export.csv": {"admin", "auditor", "tenant-admin", "user-manager"},
    "/admin/users/export.json": {"admin", "auditor", "tenant-admin", "user-manager"},
    "/admin/refusals": {*ROLES},
    "/admin/reports": {*ROLES},
}
FORMS: Final = {
    "/admin/users/import": {"admin", "tenant-admin", "user-manager"},
    "/admin/lambdas/preview": {"admin", "developer"},
    "/admin/themes/preview": {"admin", "developer"},
    "/admin/email-templates/preview": {"admin", "auditor", "developer"},
    "/admin/message-templates/preview": {"admin", "auditor", "developer"},
}


@pytest.mark.requirement("console-3")
@pytest.mark.parametrize("role", ROLES)
async def test_pages_of_their_own_follow_the_permissions(roles: dict[str, Browser], role: str) -> None:
    browser = roles[role]
    for path, permitted in PAGES.items():
        assert (await browser.http.get(path)).status_code == (200 if role in permitted else 403), path
    token = await browser.csrf_token()
    for path, permitted in FORMS.items():
        assert (await browser.http.post(path, data={})).status_code == 403, path
        multipart = {"files": {"file": ("x.csv", b"")}} if path.endswith("import") else {}
        answer = await browser.http.post(path, data={"csrf_token": token}, **multipart)
        assert answer.status_code == ((400 if multipart else 200) if role in permitted else 403), path
