"""Every email template of config/kickstart.yaml renders with its purpose."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
import yaml

from identity.ids import new_id
from tests.api.test_verify_email import Verification
from tests.conftest import ROOT
from tests.mailbox import receiving

Document = dict[str, Any]


def templates() -> dict[str, Document]:
    """The email templates of the kickstart, by name."""
    requests = yaml.safe_load((ROOT / "config" / "kickstart.yaml").read_text())["requests"]
    found = [one["body"]["emailTemplate"] for one in requests if one["url"].startswith("/api/email/template/")]
    return {one["name"]: one for one in found}


async def add(api: httpx.AsyncClient, name: str) -> str:
    """The id of one of them, in this service."""
    template = {**templates()[name], "name": f"{name} {new_id()}"}
    answer = await api.post("/api/email/template", json={"emailTemplate": template})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["emailTemplate"]["id"])


async def test_every_default_mail_renders(api: httpx.AsyncClient) -> None:
    assert templates()
    for name, template in templates().items():
        answer = await api.post("/api/email/template/preview", json={"emailTemplate": template})
        assert "errors" not in answer.json(), (name, answer.json())


@pytest.mark.requirement("core-18-templates-19", "users-8-12")
async def test_verification_mails_contain_link_and_code(tenant_api: httpx.AsyncClient, tenant: Document) -> None:
    async with receiving() as mailbox:
        place = Verification(tenant_api, tenant["id"], mailbox)
        email, done = await add(tenant_api, "Email verification"), await add(tenant_api, "Email verified")
        await place.configure(
            **mailbox.configuration(), verifyEmail=True, verificationEmailTemplateId=email,
            emailVerifiedEmailTemplateId=done, verificationStrategy="FormField", unverified={"behavior": "Gated"},
        )  # fmt: skip
        settings = {"verifyRegistration": True, "verificationEmailTemplateId": await add(
            tenant_api, "Registration verification"
        )}  # fmt: skip
        body = {"application": {"name": "The <b>shop</b>", **settings}}
        application_id = (await tenant_api.post("/api/application", json=body)).json()["application"]["id"]
        made = await place.made()
        registration = {"registration": {"applicationId": application_id}}
        registered = await tenant_api.post(f"/api/user/registration/{made['user']['id']}", json=registration)
        assert (await tenant_api.post("/api/user/verify-email", json={"userId": made["user"]["id"]})).status_code == 200
        mails = {mail.message["Subject"]: mail for mail in await mailbox.wait_for(3)}
    wanted = mails["Verify your email address"]
    link = f"{tenant['issuer']}/email/verify/{made['emailVerificationId']}?tenantId={tenant['id']}"
    assert link in wanted.part("plain") and made["emailVerificationOneTimeCode"] in wanted.part("plain")
    assert f'href="{link}"' in wanted.part("html") and made["emailVerificationOneTimeCode"] in wanted.part("html")
    asked = mails["Verify your registration"]
    verification_id = registered.json()["registrationVerificationId"]
    link = f"{tenant['issuer']}/registration/verify/{verification_id}?tenantId={tenant['id']}"
    assert link in asked.part("plain") and "The <b>shop</b>" in asked.part("plain")
    assert f'href="{link}"' in asked.part("html") and "The &lt;b&gt;shop&lt;/b&gt;" in asked.part("html")
    assert "code" not in asked.part("plain")
    assert made["user"]["email"] in mails["Your email address is verified"].part("plain")
