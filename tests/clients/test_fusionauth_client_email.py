"""The official Python client, unmodified, on email templates, mail and themes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from fusionauth.fusionauth_client import FusionAuthClient

from identity import app
from identity.ids import new_id
from tests.conftest import SUPER_KEY
from tests.mailbox import receiving

PARTS = {"defaultSubject": "Hello", "defaultHtmlTemplate": "<p>Hello</p>", "defaultTextTemplate": "Hello"}


def successful(answer: Any, status: int = 200) -> Any:
    assert answer.status == status, (answer.status, answer.error_response, answer.exception)
    return answer.success_response


async def with_client(
    service: app.Service, work: Callable[[FusionAuthClient], None], tenant: str | None = None
) -> None:
    client = FusionAuthClient(SUPER_KEY, service.base_url)
    client.set_tenant_id(tenant)
    await asyncio.to_thread(work, client)


@pytest.mark.requirement("core-18-templates-29")
async def test_the_client_makes_reads_changes_and_removes_email_templates(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        name, template_id = new_id(), new_id()
        made = successful(client.create_email_template({"emailTemplate": {"name": name, **PARTS}}, template_id))
        assert (made["emailTemplate"]["id"], made["emailTemplate"]["defaultSubject"]) == (template_id, "Hello")
        assert successful(client.retrieve_email_template(template_id)) == made
        for answer in (client.retrieve_email_templates(), client.retrieve_email_template()):
            assert template_id in {one["id"] for one in successful(answer)["emailTemplates"]}
        search = {"search": {"name": name, "startRow": 0, "numberOfResults": 1}}
        found = successful(client.search_email_templates(search))
        assert (found["total"], found["emailTemplates"][0]["id"]) == (1, template_id)
        patch = {"emailTemplate": {"localizedSubjects": {"de": "Hallo"}}}
        patched = successful(client.patch_email_template(template_id, patch))["emailTemplate"]
        assert (patched["localizedSubjects"], patched["name"]) == ({"de": "Hallo"}, name)
        changed = {"emailTemplate": {"name": name, **PARTS, "defaultSubject": "Bye"}}
        updated = successful(client.update_email_template(template_id, changed))["emailTemplate"]
        assert (updated["defaultSubject"], updated["localizedSubjects"]) == ("Bye", {})
        successful(client.delete_email_template(template_id))
        assert client.retrieve_email_template(template_id).status == 404

    await with_client(service, work)


@pytest.mark.requirement("core-18-templates-29")
async def test_the_client_previews_email_templates(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        template = {"defaultSubject": "Hello ${user.firstName}", "localizedSubjects": {"de": "Hallo ${user.lastName}"}}
        preview = successful(client.retrieve_email_template_preview({"emailTemplate": template, "locale": "de"}))
        assert preview == {"email": {"subject": "Hallo Lovelace"}}
        broken = successful(client.retrieve_email_template_preview({"emailTemplate": {"defaultSubject": "{{"}}))
        assert broken["errors"]["fieldErrors"].keys() == {"emailTemplate.defaultSubject"}

    await with_client(service, work)


@pytest.mark.requirement("core-18-templates-29")
async def test_the_client_sends_mail(service: app.Service, tenant, api) -> None:
    async with receiving() as mailbox:
        patch = {"tenant": {"emailConfiguration": mailbox.configuration()}}
        assert (await api.patch(f"/api/tenant/{tenant['id']}", json=patch)).status_code == 200
        address = f"{new_id()}@example.com"

        def work(client: FusionAuthClient) -> None:
            template = {"name": new_id(), **PARTS, "defaultSubject": "{{ requestData.what }}"}
            template_id = successful(client.create_email_template({"emailTemplate": template}))["emailTemplate"]["id"]
            user = {"user": {"email": address, "password": "password"}}
            user_id = successful(client.create_user(user))["user"]["id"]
            request = {"userIds": [user_id], "requestData": {"what": "News"}}
            assert successful(client.send_email(template_id, request), 202) == {}
            failed = successful(client.send_email(template_id, {"userIds": [user_id]}), 202)
            assert failed == {"results": {user_id: {"renderErrors": {"subject": "Line 1: 'what' is undefined"}}}}

        await with_client(service, work, tenant["id"])
        (mail,) = await mailbox.wait_for(1)
        assert (mail.recipients, mail.message["Subject"]) == ([address], "News")


@pytest.mark.requirement("core-18-templates-29")
async def test_the_client_makes_reads_changes_and_removes_themes(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        name = new_id()
        made = successful(client.create_theme({"theme": {"name": name, "stylesheet": "h1 {}"}}))["theme"]
        theme_id = made["id"]
        assert successful(client.retrieve_theme(theme_id))["theme"] == made
        assert theme_id in {one["id"] for one in successful(client.retrieve_themes())["themes"]}
        found = successful(client.search_themes({"search": {"name": name, "type": "advanced", "startRow": 0}}))
        assert (found["total"], found["themes"][0]["id"]) == (1, theme_id)
        patched = successful(client.patch_theme(theme_id, {"theme": {"data": {"a": 1}}}))["theme"]
        assert (patched["data"], patched["stylesheet"]) == ({"a": 1}, "h1 {}")
        copy_id = new_id()
        request = {"sourceThemeId": theme_id, "theme": {"name": f"{name} copy"}}
        copied = successful(client.create_theme(request, copy_id))["theme"]
        assert (copied["id"], copied["stylesheet"], copied["data"]) == (copy_id, "h1 {}", {"a": 1})
        updated = successful(client.update_theme(theme_id, {"theme": {"name": f"{name}!"}}))["theme"]
        assert (updated["name"], updated["data"], "stylesheet" in updated) == (f"{name}!", {}, False)
        for one in (theme_id, copy_id):
            successful(client.delete_theme(one))
            assert client.retrieve_theme(one).status == 404

    await with_client(service, work)
