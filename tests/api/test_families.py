"""/api/user/family: owners and members, pending children, and mails."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from identity.ids import new_id
from tests import mailbox
from tests.api.test_user_consents import birth_date, codes, make_user
from tests.conftest import UNKNOWN_ID

Document = dict[str, Any]


async def enable(api: httpx.AsyncClient, **members: Any) -> None:
    tenant_id = api.headers["X-FusionAuth-TenantId"]
    change = {"tenant": {"familyConfiguration": {"enabled": True, **members}}}
    assert (await api.patch(f"/api/tenant/{tenant_id}", json=change)).status_code == 200


@pytest.fixture
async def families(tenant_api: httpx.AsyncClient) -> httpx.AsyncClient:
    """A client inside a tenant that has families."""
    await enable(tenant_api)
    return tenant_api


async def make_family(api: httpx.AsyncClient, owner: Document) -> Document:
    answer = await api.post("/api/user/family", json={"familyMember": {"userId": owner["id"]}})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["family"])


async def put(api: httpx.AsyncClient, family: Document, user: Document, **members: Any) -> httpx.Response:
    body = {"familyMember": {"userId": user["id"], **members}}
    return await api.put(f"/api/user/family/{family['id']}", json=body)


@pytest.mark.requirement("core-18-groups-24", "users-2.1-12")
async def test_family_is_created_joined_read_and_left(families) -> None:
    owner, child = (
        await make_user(families, birthDate=birth_date(40)),
        await make_user(families, birthDate=birth_date(9)),
    )
    family_id = new_id()
    member = {"familyMember": {"userId": owner["id"], "data": {"x": 1}}}
    made = (await families.post(f"/api/user/family/{family_id}", json=member)).json()["family"]
    assert made["id"] == family_id
    (first,) = made["members"]
    assert {name: first[name] for name in ("userId", "role", "owner", "data")} == {
        "userId": owner["id"], "role": "Adult", "owner": True, "data": {"x": 1},
    }  # fmt: skip
    joined = (await put(families, made, child, role="Child")).json()["family"]
    assert [(one["userId"], one["role"], one["owner"]) for one in joined["members"]] == [
        (owner["id"], "Adult", True), (child["id"], "Child", False),
    ]  # fmt: skip
    assert "data" not in joined["members"][1], "what is empty is left out"
    assert (await families.get(f"/api/user/family/{family_id}")).json()["family"] == joined
    listed = (await families.get("/api/user/family", params={"userId": child["id"]})).json()["families"]
    assert listed == [joined]
    changed = (await put(families, made, owner, data={"y": 2})).json()["family"]
    assert changed["members"][0]["data"] == {"y": 2}
    assert changed["members"][0]["owner"] is True, "what is not spoken of stays"
    path = f"/api/user/family/{family_id}"
    assert (await families.delete(f"{path}/{child['id']}")).status_code == 200
    assert (await families.delete(f"{path}/{child['id']}")).status_code == 404
    assert (await families.delete(f"{path}/{owner['id']}")).status_code == 200
    assert (await families.get(path)).status_code == 404, "no member is left"


@pytest.mark.requirement("users-2.1-12")
async def test_roles_depend_on_age(families) -> None:
    too_young, unknown = await make_user(families, birthDate=birth_date(20)), await make_user(families)
    for user in (too_young, unknown):
        answer = await families.post("/api/user/family", json={"familyMember": {"userId": user["id"]}})
        assert codes(answer) == {"[tooYoung]familyMember.userId"}
    family = await make_family(families, await make_user(families, birthDate=birth_date(21)))
    teen, child = (
        await make_user(families, birthDate=birth_date(13)),
        await make_user(families, birthDate=birth_date(12)),
    )
    assert codes(await put(families, family, teen, role="Child")) == {"[invalid]familyMember.role"}
    assert codes(await put(families, family, child, role="Teen")) == {"[invalid]familyMember.role"}
    assert codes(await put(families, family, child, role="Child", owner=True)) == {
        "[invalid]familyMember.role", "[tooYoung]familyMember.userId",
    }  # fmt: skip
    assert (await put(families, family, teen, role="Teen")).status_code == 200
    assert (await put(families, family, child, role="Child")).status_code == 200
    assert (await put(families, family, unknown, role="Child")).status_code == 200, "no other source contradicts it"


async def test_user_owns_one_family_and_ids_are_unique(families) -> None:
    owner = await make_user(families, birthDate=birth_date(40))
    family = await make_family(families, owner)
    body = {"familyMember": {"userId": owner["id"]}}
    assert codes(await families.post("/api/user/family", json=body)) == {"[duplicate]familyMember.userId"}
    other = {"familyMember": {"userId": (await make_user(families, birthDate=birth_date(40)))["id"]}}
    assert codes(await families.post(f"/api/user/family/{family['id']}", json=other)) == {"[duplicate]familyId"}


async def test_invalid_requests(families) -> None:
    family = await make_family(families, await make_user(families, birthDate=birth_date(40)))
    path = f"/api/user/family/{family['id']}"
    for method, where in (("POST", "/api/user/family"), ("PUT", path)):
        for body, code in (
            ({"familyMember": {}}, "[missing]familyMember.userId"),
            ({"familyMember": {"userId": UNKNOWN_ID}}, "[invalid]familyMember.userId"),
            ({"familyMember": {"userId": "x"}}, "[couldNotConvert]familyMember.userId"),
            ({"familyMember": {"userId": UNKNOWN_ID, "role": "Dog"}}, "[invalid]familyMember.role"),
            ({}, "[missing]familyMember"),
        ):
            assert codes(await families.request(method, where, json=body)) == {code}
    user = await make_user(families)
    unknown = await families.put(f"/api/user/family/{UNKNOWN_ID}", json={"familyMember": {"userId": user["id"]}})
    assert unknown.status_code == 404
    assert (await families.get(f"/api/user/family/{UNKNOWN_ID}")).status_code == 404
    assert (await families.get("/api/user/family", params={"userId": UNKNOWN_ID})).status_code == 404
    assert codes(await families.get("/api/user/family")) == {"[missing]userId"}
    assert codes(await families.get("/api/user/family", params={"userId": "x"})) == {"[couldNotConvert]userId"}
    assert codes(await families.get("/api/user/family/pending")) == {"[blank]parentEmail"}
    assert codes(await families.post("/api/user/family/request", json={})) == {"[blank]parentEmail"}


@pytest.mark.requirement("audit-b5-json")
async def test_families_need_no_enabled_configuration(tenant_api) -> None:
    """Published examples create families without setting `familyConfiguration.enabled`."""
    owner, child = (
        await make_user(tenant_api, birthDate=birth_date(40)),
        await make_user(tenant_api, birthDate=birth_date(5)),
    )
    made = await tenant_api.post("/api/user/family", json={"familyMember": {"userId": owner["id"], "owner": True}})
    assert made.status_code == 200, made.text
    path = f"/api/user/family/{made.json()['family']['id']}"
    added = await tenant_api.put(path, json={"familyMember": {"userId": child["id"], "role": "Child"}})
    assert [member["userId"] for member in added.json()["family"]["members"]] == [owner["id"], child["id"]]


@pytest.mark.requirement("users-2.1-12")
async def test_another_tenant_can_neither_read_nor_change(api, families) -> None:
    owner, theirs = await make_user(families, birthDate=birth_date(40)), await make_user(api, birthDate=birth_date(40))
    family = await make_family(families, owner)
    path = f"/api/user/family/{family['id']}"
    assert (await api.get(path)).status_code == 404
    assert (await api.delete(f"{path}/{owner['id']}")).status_code == 404
    assert (await put(api, family, theirs)).status_code == 404
    assert codes(await put(families, family, theirs)) == {"[invalid]familyMember.userId"}
    assert (await api.get("/api/user/family", params={"userId": owner["id"]})).status_code == 404
    await make_user(families, parentEmail=owner["email"])
    answer = await api.get("/api/user/family/pending", params={"parentEmail": owner["email"]})
    assert answer.json() == {"users": []}


@pytest.mark.requirement("users-2.1-12")
async def test_deleted_user_leaves_family_to_another_adult(families) -> None:
    owner, partner = [await make_user(families, birthDate=birth_date(40)) for _ in range(2)]
    family = await make_family(families, owner)
    assert (await put(families, family, partner, role="Adult")).status_code == 200
    assert (await families.delete(f"/api/user/{owner['id']}", params={"hardDelete": "true"})).status_code == 200
    (left,) = (await families.get(f"/api/user/family/{family['id']}")).json()["family"]["members"]
    assert (left["userId"], left["owner"]) == (partner["id"], True)
    assert (await families.delete(f"/api/user/{partner['id']}", params={"hardDelete": "true"})).status_code == 200
    assert (await families.get(f"/api/user/family/{family['id']}")).status_code == 404


@pytest.mark.requirement("users-2.1-12")
async def test_pending_child_is_added_by_named_parent_who_is_mailed(families) -> None:
    template = {"name": f"Mail {new_id()}", "defaultSubject": "About ${parentEmail}",
                "defaultTextTemplate": "Hello", "defaultHtmlTemplate": "Hello"}  # fmt: skip
    made = await families.post("/api/email/template", json={"emailTemplate": template})
    template_id = made.json()["emailTemplate"]["id"]
    names = ("confirmChildEmailTemplateId", "familyRequestEmailTemplateId", "parentRegistrationEmailTemplateId")
    parent_email = f"{new_id()}@example.com"
    child = await make_user(families, birthDate=birth_date(9), parentEmail=parent_email.upper())
    query = {"parentEmail": parent_email}
    waiting = (await families.get("/api/user/family/pending", params=query)).json()["users"]
    assert [user["id"] for user in waiting] == [child["id"]]
    ask = {"parentEmail": parent_email}
    answer = await families.post("/api/user/family/request", json=ask)
    assert answer.json()["generalErrors"][0]["code"] == "[EmailTemplateNotConfigured]"
    unknown = await families.post("/api/user/family/request", json={"parentEmail": "x@example.com"})
    assert codes(unknown) == {"[invalid]parentEmail"}
    async with mailbox.receiving() as box:
        await enable(families, **dict.fromkeys(names, template_id))
        tenant_id = families.headers["X-FusionAuth-TenantId"]
        change = {"tenant": {"emailConfiguration": box.configuration()}}
        assert (await families.patch(f"/api/tenant/{tenant_id}", json=change)).status_code == 200
        assert (await families.post("/api/user/family/request", json=ask)).status_code == 200
        parent = await make_user(families, email=parent_email, birthDate=birth_date(40))
        assert (await families.post("/api/user/family/request", json=ask)).status_code == 200
        family = await make_family(families, parent)
        assert (await put(families, family, child, role="Child")).status_code == 200
        mails = await box.wait_for(3)
        assert [mail.recipients for mail in mails] == [[parent_email]] * 3
        assert {str(mail.message["Subject"]) for mail in mails} == {f"About {parent_email}"}
    assert (await families.get("/api/user/family/pending", params=query)).json() == {"users": []}
    assert "parentEmail" not in (await families.get(f"/api/user/{child['id']}")).json()["user"]
