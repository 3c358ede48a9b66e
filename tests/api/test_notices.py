"""Mails that notify users of changes to their accounts."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from identity.ids import new_id
from tests.mailbox import Mailbox, receiving

Document = dict[str, Any]


@pytest.fixture
async def mailbox(tenant, api):
    async with receiving() as box:
        await configure(api, tenant, **box.configuration())
        yield box


async def configure(api: httpx.AsyncClient, tenant: Document, **members: Any) -> None:
    patch = {"tenant": {"emailConfiguration": members}}
    answer = await api.patch(f"/api/tenant/{tenant['id']}", json=patch)
    assert answer.status_code == 200, answer.text


async def make_template(api: httpx.AsyncClient, text: str) -> str:
    template = {
        "name": f"Notice {new_id()}", "defaultSubject": "Notice", "defaultHtmlTemplate": text,
        "defaultTextTemplate": text,
    }  # fmt: skip
    answer = await api.post("/api/email/template", json={"emailTemplate": template})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["emailTemplate"]["id"])


async def make_user(tenant_api: httpx.AsyncClient, **members: Any) -> Document:
    user = {"email": f"{new_id()}@example.com", "password": "password", **members}
    answer = await tenant_api.post("/api/user", json={"user": user})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["user"])


async def test_password_change_notice_names_origin(api, tenant, tenant_api, mailbox) -> None:
    template_id = await make_template(api, "${event.type}: ${user.id} from ${event.info.ipAddress}")
    await configure(api, tenant, passwordUpdateEmailTemplateId=template_id)
    user = await make_user(tenant_api)
    body = {"user": {"password": "another password"}, "eventInfo": {"ipAddress": "192.0.2.7"}}
    assert (await tenant_api.patch(f"/api/user/{user['id']}", json=body)).status_code == 200
    (mail,) = await mailbox.wait_for(1)
    assert mail.recipients == [user["email"]]
    assert mail.part("plain").strip() == f"UserPasswordUpdate: {user['id']} from 192.0.2.7"


@pytest.mark.requirement("users-7-30")
async def test_email_change_notice_goes_to_both_addresses(api, tenant, tenant_api, mailbox) -> None:
    template_id = await make_template(api, "${previousEmail} became ${user.email}")
    await configure(api, tenant, emailUpdateEmailTemplateId=template_id)
    user = await make_user(tenant_api)
    email = f"new-{user['email']}"
    assert (await tenant_api.patch(f"/api/user/{user['id']}", json={"user": {"email": email}})).status_code == 200
    mails = await mailbox.wait_for(2)
    assert sorted(mail.recipients[0] for mail in mails) == sorted([user["email"], email])
    assert {mail.part("plain").strip() for mail in mails} == {f"{user['email']} became {email}"}


@pytest.mark.requirement("users-7-30")
async def test_owner_of_requested_login_id_is_notified_at_limited_rate(api, tenant, tenant_api, mailbox) -> None:
    created, updated = await make_template(api, "create"), await make_template(api, "update")
    names = ("loginIdInUseOnCreateEmailTemplateId", "loginIdInUseOnUpdateEmailTemplateId")
    await configure(api, tenant, **dict(zip(names, (created, updated), strict=True)))
    user, other = await make_user(tenant_api), await make_user(tenant_api)
    wanted = {"user": {"email": user["email"], "password": "password"}}
    assert (await tenant_api.patch(f"/api/user/{other['id']}", json=wanted)).status_code == 400
    for _ in range(7):
        assert (await tenant_api.post("/api/user", json=wanted)).status_code == 400
    # One more mail of another kind: when it is there, so is all that was asked for before.
    await configure(api, tenant, passwordUpdateEmailTemplateId=await make_template(api, "password"))
    changed = {"user": {"password": "another password"}}
    assert (await tenant_api.patch(f"/api/user/{user['id']}", json=changed)).status_code == 200
    mails = await mailbox.wait_for(6)
    assert [mail.recipients for mail in mails] == [[user["email"]]] * 6
    assert sorted(mail.part("plain").strip() for mail in mails) == ["create"] * 4 + ["password", "update"]


async def test_no_notice_without_template_or_address(api, tenant, tenant_api, mailbox: Mailbox) -> None:
    user = await make_user(tenant_api)
    body = {"user": {"password": "another password"}}
    assert (await tenant_api.patch(f"/api/user/{user['id']}", json=body)).status_code == 200
    template_id = await make_template(api, "${user.id}")
    await configure(api, tenant, passwordUpdateEmailTemplateId=template_id)
    name = f"name-{new_id()}"
    unknown = await make_user(tenant_api, email=None, username=name)
    user_with_data = await make_user(tenant_api, email=None, username=f"{name}2", data={"email": "data@example.com"})
    for one in (unknown, user_with_data):
        assert (await tenant_api.patch(f"/api/user/{one['id']}", json=body)).status_code == 200
    (mail,) = await mailbox.wait_for(1)
    assert (mail.recipients, mail.part("plain").strip()) == (["data@example.com"], user_with_data["id"])
    found = (await api.get("/api/system/event-log/search", params={"message": f"*{template_id}*"})).json()
    assert found["total"] == 0
