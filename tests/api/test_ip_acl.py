"""IP access control lists: entries, order, and references."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from identity.domain.objects import ip_access
from identity.ids import new_id
from tests.conftest import MANAGER_KEY

Document = dict[str, Any]
DEFAULT = {"startIPAddress": "*", "action": "Block"}


def entry(start: str, end: str | None = None, action: str = "Allow") -> Document:
    return {"action": action, "endIPAddress": end or start, "startIPAddress": start}


def codes(answer: httpx.Response) -> set[str]:
    assert answer.status_code == 400, answer.text
    body = answer.json()
    fields = {e["code"] for errors in body.get("fieldErrors", {}).values() for e in errors}
    return fields | {e["code"] for e in body.get("generalErrors", [])}


async def make(api: httpx.AsyncClient, *entries: Document, **members: Any) -> Document:
    acl = {"name": f"List {new_id()}", "entries": list(entries), **members}
    answer = await api.post("/api/ip-acl", json={"ipAccessControlList": acl})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["ipAccessControlList"])


@pytest.mark.requirement("core-6-3")
async def test_entries_are_sorted(api) -> None:
    made = await make(
        api,
        entry("10.0.0.9"),
        entry("9.9.9.9", "10.0.0.8"),
        {"startIPAddress": " * ", "endIPAddress": "1.2.3.4"},
        {"startIPAddress": "*", "action": "Allow"},
        {"startIPAddress": "192.168.0.1", "endIPAddress": "192.168.0.1"},
    )
    assert made.keys() == {"id", "name", "entries", "insertInstant", "lastUpdateInstant"}
    assert made["entries"] == [
        DEFAULT,
        entry("9.9.9.9", "10.0.0.8"),
        entry("10.0.0.9"),
        entry("192.168.0.1", action="Block"),
    ]


@pytest.mark.requirement("core-6-1", "core-6-7")
async def test_full_cycle(api) -> None:
    made = await make(api, DEFAULT, data={"a": 1})
    path = f"/api/ip-acl/{made['id']}"
    assert (await api.get(path)).json() == {"ipAccessControlList": made}
    assert made in (await api.get("/api/ip-acl")).json()["ipAccessControlLists"]
    body = {"ipAccessControlList": {"name": made["name"], "entries": [{"startIPAddress": "*", "action": "Allow"}]}}
    changed = (await api.put(path, json=body)).json()["ipAccessControlList"]
    assert "data" not in changed
    assert changed["entries"] == [{"startIPAddress": "*", "action": "Allow"}]
    patch = {"ipAccessControlList": {"entries": [entry("1.1.1.1", action="Block")]}}
    patched = (await api.patch(path, json=patch)).json()["ipAccessControlList"]
    assert patched["entries"] == [{"startIPAddress": "*", "action": "Allow"}, entry("1.1.1.1", action="Block")]
    assert (await api.delete(path)).status_code == 200
    assert (await api.get(path)).status_code == 404


@pytest.mark.requirement("core-6-2", "core-6-3")
@pytest.mark.parametrize(
    ("entries", "code"),
    [
        (None, "[missing]ipAccessControlList.entries"),
        ([], "[empty]ipAccessControlList.entries"),
        ("x", "[invalidJSON]"),
        ([5], "[invalidJSON]"),
        ([{}], "[blank]ipAccessControlList.entries[0].startIPAddress"),
        ([entry("1.1.1.1")], "[missing]ipAccessControlList.entries"),
        ([DEFAULT, {"startIPAddress": "1.1.1.1"}], "[blank]ipAccessControlList.entries[1].endIPAddress"),
        ([DEFAULT, entry("1.1.1.2", "1.1.1.1")], "[invalid]ipAccessControlList.entries[1].endIPAddress"),
        ([DEFAULT, entry("1.1.1.256", "1.1.1.1")], "[invalid]ipAccessControlList.entries[1].startIPAddress"),
        ([DEFAULT, entry("01.1.1.1", "1.1.1.1")], "[invalid]ipAccessControlList.entries[1].startIPAddress"),
        ([DEFAULT, entry("::1", "1.1.1.1")], "[invalid]ipAccessControlList.entries[1].startIPAddress"),
        ([DEFAULT, entry("10.0.0.0/8", "10.0.0.1")], "[invalid]ipAccessControlList.entries[1].startIPAddress"),
        ([DEFAULT, entry("1.1.1.1", "*")], "[invalid]ipAccessControlList.entries[1].endIPAddress"),
        ([DEFAULT, entry("1.1.1.1", action="Deny")], "[invalid]ipAccessControlList.entries[1].action"),
        ([DEFAULT, entry("1.1.1.1", "1.1.1.9"), entry("1.1.1.9", "1.1.2.0")], "[invalid]ipAccessControlList.entries"),
        ([DEFAULT, entry("1.1.1.1"), entry("1.1.1.1")], "[invalid]ipAccessControlList.entries"),
    ],
)
async def test_invalid_entries(api, entries, code) -> None:
    acl = {"name": f"List {new_id()}", **({} if entries is None else {"entries": entries})}
    found = codes(await api.post("/api/ip-acl", json={"ipAccessControlList": acl}))
    assert code in found


@pytest.mark.requirement("core-6-1")
async def test_name_is_required_and_unique(api) -> None:
    made = await make(api, DEFAULT)
    body = {"ipAccessControlList": {"name": made["name"], "entries": [DEFAULT]}}
    assert codes(await api.post("/api/ip-acl", json=body)) == {"[duplicate]ipAccessControlList.name"}
    assert codes(await api.post("/api/ip-acl", json={"ipAccessControlList": {}})) == {
        "[blank]ipAccessControlList.name",
        "[missing]ipAccessControlList.entries",
    }
    assert codes(await api.post("/api/ip-acl", json={})) == {"[missing]ipAccessControlList"}


@pytest.mark.requirement("core-6-8")
async def test_list_in_use_cannot_be_deleted(api, manager, tenant) -> None:
    made = await make(api, DEFAULT)
    path, refused = f"/api/ip-acl/{made['id']}", {"[inUse]ipAccessControlListId"}
    reference = {"accessControlConfiguration": {"uiIPAccessControlListId": made["id"]}}
    none = {"accessControlConfiguration": {"uiIPAccessControlListId": None}}
    tenant_path = f"/api/tenant/{tenant['id']}"
    assert (await api.patch(tenant_path, json={"tenant": reference})).status_code == 200
    assert codes(await api.delete(path)) == refused
    await api.patch(tenant_path, json={"tenant": none})
    body = {"application": {"name": f"A {new_id()}", **reference}}
    application = (await api.post("/api/application", json=body)).json()["application"]
    assert codes(await api.delete(path)) == refused
    await api.patch(f"/api/application/{application['id']}", json={"application": none})
    key = (await manager.post("/api/api-key", json={"apiKey": {"ipAccessControlListId": made["id"]}})).json()["apiKey"]
    assert codes(await api.delete(path)) == refused
    await api.delete(f"/api/api-key/{key['id']}", headers={"Authorization": MANAGER_KEY})
    assert (await api.delete(path)).status_code == 200


@pytest.mark.requirement("core-6-7")
async def test_search(api) -> None:
    mark = new_id()
    made = [await make(api, DEFAULT, name=f"{mark} {letter}") for letter in "ba"]
    answer = (await api.get("/api/ip-acl/search", params={"name": f"{mark}*"})).json()
    assert answer == {"total": 2, "ipAccessControlLists": made[::-1]}
    by_age = {"search": {"name": mark, "orderBy": "insertInstant, lastUpdateInstant, id", "numberOfResults": 1}}
    answer = (await api.post("/api/ip-acl/search", json=by_age)).json()
    assert answer == {"total": 2, "ipAccessControlLists": made[:1]}


@pytest.mark.requirement("core-6-4")
@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("10.0.0.1", True),
        ("10.0.0.4", True),
        ("10.0.0.5", False),
        ("9.255.255.255", False),
        ("::ffff:10.0.0.1", True),
        ("2001:db8::1", False),
        ("nonsense", False),
        ("", False),
    ],
)
def test_most_specific_entry_wins_over_default(address, allowed) -> None:
    entries = ip_access.arranged([entry("10.0.0.1", "10.0.0.4"), DEFAULT])
    assert ip_access.allows(entries, address) is allowed
    turned = [{**e, "action": "Block" if e["action"] == "Allow" else "Allow"} for e in entries]
    assert ip_access.allows(turned, address) is not allowed


@pytest.mark.requirement("core-6-4")
def test_list_without_default_blocks() -> None:
    assert not ip_access.allows([], "10.0.0.1")
