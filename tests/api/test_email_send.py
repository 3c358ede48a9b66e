"""Sending mail by template: who gets what, in which language, and what is told of the rest."""

from __future__ import annotations

from typing import Any

import pytest

from identity.ids import new_id
from tests.mailbox import Mailbox, receiving

Document = dict[str, Any]


@pytest.fixture
async def mailbox(tenant, api):
    async with receiving() as box:
        patch = {"tenant": {"emailConfiguration": box.configuration(defaultFromName="The service")}}
        assert (await api.patch(f"/api/tenant/{tenant['id']}", json=patch)).status_code == 200
        yield box


async def make_template(api, **members: Any) -> str:
    template = {
        "name": f"Template {new_id()}",
        "defaultSubject": "Hello {{ user.firstName }}",
        "defaultHtmlTemplate": "<p>Hello ${user.firstName}, ${requestData.what!'nothing'}</p>",
        "defaultTextTemplate": "Hello {{ user.firstName }}, {{ requestData.what|default('nothing') }}",
        **members,
    }
    answer = await api.post("/api/email/template", json={"emailTemplate": template})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["emailTemplate"]["id"])


async def make_user(tenant_api, **members: Any) -> Document:
    user = {"email": f"{new_id()}@example.com", "password": "password", "firstName": "Ada", **members}
    answer = await tenant_api.post("/api/user", json={"user": user})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["user"])


async def test_user_gets_a_mail_with_both_parts(api, tenant_api, mailbox: Mailbox) -> None:
    template_id = await make_template(api)
    user = await make_user(tenant_api, firstName="Ada <b>", fullName="Ada Lovelace")
    body = {"userIds": [user["id"]], "requestData": {"what": "a & b"}}
    answer = await tenant_api.post(f"/api/email/send/{template_id}", json=body)
    assert (answer.status_code, answer.json()) == (202, {})
    (mail,) = await mailbox.wait_for(1)
    assert mail.recipients == [user["email"]]
    assert mail.sender == "service@example.com"
    assert mail.message["From"] == "The service <service@example.com>"
    assert mail.message["To"] == f"Ada Lovelace <{user['email']}>"
    assert mail.message["Subject"] == "Hello Ada <b>"
    assert mail.part("html").strip() == "<p>Hello Ada &lt;b&gt;, a &amp; b</p>"
    assert mail.part("plain").strip() == "Hello Ada <b>, a & b"
    assert mail.message.get_content_type() == "multipart/alternative"
    assert mail.message["Message-ID"].endswith("@example.com>")
    assert mail.message["Date"]
