"""Sending mail by template: recipients, languages, and reported errors."""

from __future__ import annotations

from typing import Any

import pytest

from identity.ids import new_id
from tests import internals
from tests.conftest import SUPER_KEY, checking_client
from tests.mailbox import Mailbox, receiving

Document = dict[str, Any]

UNKNOWN_ID = "3f2b1c00-0000-4000-8000-000000000000"


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


@pytest.mark.requirement("core-18-templates-8")
async def test_mail_has_html_and_text_parts(api, tenant_api, mailbox: Mailbox) -> None:
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


@pytest.mark.requirement("core-18-templates-8")
async def test_each_recipient_gets_separate_mail_in_own_language(api, tenant_api, mailbox: Mailbox) -> None:
    template_id = await make_template(
        api,
        localizedSubjects={"de": "Hallo {{ user.firstName }}", "fr": "Bonjour"},
        localizedFromNames={"de": "Der Dienst"},
    )
    german = await make_user(tenant_api, firstName="Änne", preferredLanguages=["it", "de_CH"])
    english = await make_user(tenant_api, firstName="Bob")
    answer = await tenant_api.post(f"/api/email/send/{template_id}", json={"userIds": [german["id"], english["id"]]})
    assert answer.json() == {}
    mails = {mail.recipients[0]: mail.message for mail in await mailbox.wait_for(2)}
    assert mails[german["email"]]["Subject"] == "Hallo Änne"
    assert mails[german["email"]]["From"].startswith("Der Dienst <")
    assert mails[english["email"]]["Subject"] == "Hello Bob"
    assert mails[english["email"]]["From"].startswith("The service <")
    assert len({message["Message-ID"] for message in mails.values()}) == 2


@pytest.mark.requirement("core-18-templates-8")
async def test_addresses_without_user_receive_mail(api, tenant_api, mailbox: Mailbox) -> None:
    template_id = await make_template(
        api,
        fromEmail="other@example.com",
        defaultSubject="Hello {{ user.firstName|default('stranger') }}",
        localizedSubjects={"fr": "Bonjour"},
        defaultHtmlTemplate="<p>{{ requestData.a.b }} {{ application is defined }}</p>",
        defaultTextTemplate="{{ tenant.name }}",
    )
    body = {
        "toAddresses": [{"address": "juergen@bücher.example"}, {"address": "a@example.com", "display": "Ä, <b>"}],
        "preferredLanguages": ["de", "fr"],
        "requestData": {"a": {"b": 5}},
    }
    assert (await tenant_api.post(f"/api/email/send/{template_id}", json=body)).json() == {}
    first, second = sorted(await mailbox.wait_for(2), key=lambda mail: mail.recipients, reverse=True)
    assert first.recipients == ["juergen@xn--bcher-kva.example"]
    assert first.sender == "other@example.com"
    assert first.message["Subject"] == "Bonjour"
    assert first.part("html").strip() == "<p>5 false</p>"
    assert second.recipients == ["a@example.com"]
    assert second.message["To"].addresses[0].display_name == "Ä, <b>"
    assert second.message["To"].addresses[0].addr_spec == "a@example.com"
    assert b"\r\nTo: =?utf-8?" in second.raw


@pytest.mark.requirement("core-18-templates-8")
async def test_cc_is_visible_and_bcc_is_not(api, tenant_api, mailbox: Mailbox) -> None:
    template_id = await make_template(api)
    user = await make_user(tenant_api)
    body = {"userIds": [user["id"]], "ccAddresses": ["cc@example.com"], "bccAddresses": ["bcc@example.com"]}
    assert (await tenant_api.post(f"/api/email/send/{template_id}", json=body)).json() == {}
    (mail,) = await mailbox.wait_for(1)
    assert sorted(mail.recipients) == sorted([user["email"], "cc@example.com", "bcc@example.com"])
    assert mail.message["Cc"] == "cc@example.com"
    assert b"bcc@" not in mail.raw


@pytest.mark.requirement("core-18-templates-8")
async def test_template_sees_application_without_secrets(api, tenant_api, mailbox: Mailbox) -> None:
    application = (await tenant_api.post("/api/application", json={"application": {"name": "An app"}})).json()
    template_id = await make_template(
        api,
        defaultSubject="{{ application.name }} {{ application.oauthConfiguration.clientId }}",
        defaultTextTemplate="{{ application }} {{ tenant }} {{ user }}",
    )
    user = await make_user(tenant_api, data={"likes": "tea"})
    body = {"userIds": [user["id"]], "applicationId": application["application"]["id"]}
    assert (await tenant_api.post(f"/api/email/send/{template_id}", json=body)).json() == {}
    (mail,) = await mailbox.wait_for(1)
    assert mail.message["Subject"] == f"An app {application['application']['id']}"
    text = mail.part("plain")
    assert "tea" in text
    secret = application["application"]["oauthConfiguration"]["clientSecret"]
    for hidden in (secret, "clientSecret", "private", "salt", '"password":'):
        assert hidden not in text


@pytest.mark.requirement("core-18-templates-9")
async def test_unsent_recipients_are_reported_and_others_receive_mail(
    api, tenant_api, service, mailbox: Mailbox
) -> None:
    template_id = await make_template(
        api,
        defaultSubject="{{ user.firstName }}",
        defaultHtmlTemplate="\n{{ user.lastName }}",
        defaultTextTemplate="${requestData.x}",
    )
    whole = await make_user(tenant_api, lastName="Lovelace")
    partial = await make_user(tenant_api)
    homeless = await make_user(tenant_api, email=None, username=f"u{new_id()}", lastName="L")
    body = {
        "userIds": [whole["id"], partial["id"], homeless["id"]],
        "toAddresses": [{"address": "a@example.com"}, {"address": "ä@example.com"}],
        "requestData": {"x": 1},
    }
    answer = await tenant_api.post(f"/api/email/send/{template_id}", json=body)
    assert answer.status_code == 202
    missing = {"subject": "Line 1: 'user.firstName' is undefined", "html": "Line 2: 'user.lastName' is undefined"}
    assert answer.json() == {
        "results": {
            partial["id"]: {"renderErrors": {"html": "Line 2: 'lastName' is undefined"}},
            homeless["id"]: {"renderErrors": {"to": "The user has no email address."}},
        },
        "anonymousResults": {
            "a@example.com": {"renderErrors": missing},
            "ä@example.com": {"renderErrors": missing},
        },
    }
    (mail,) = await mailbox.wait_for(1)
    assert mail.recipients == [whole["email"]]
    rows = internals.database(service).collection("event_logs").find({"message": {"$regex": template_id}})
    messages = [row["message"] async for row in rows if row["type"] == "Error"]
    assert len(messages) == 4
    assert sum("html: Line 2: 'lastName' is undefined" in message for message in messages) == 1


@pytest.mark.requirement("core-18-templates-9")
async def test_undeliverable_address_is_reported(api, tenant_api, mailbox: Mailbox) -> None:
    template_id = await make_template(api, defaultSubject="x", defaultHtmlTemplate="x", defaultTextTemplate="x")
    for address in ("ä@example.com", "a@exa mple.com", f"a@{'x' * 64}.com", "a..b@example.com"):
        answer = await tenant_api.post(f"/api/email/send/{template_id}", json={"toAddresses": [{"address": address}]})
        if answer.status_code == 400:
            assert "[notEmail]toAddresses[0].address" in answer.text
        else:
            assert answer.json()["anonymousResults"][address]["renderErrors"].keys() == {"to"}
    assert mailbox.mails == []


@pytest.mark.requirement("core-18-templates-8")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "[empty]userIds"),
        ({"userIds": [], "toAddresses": []}, "[empty]userIds"),
        ({"userIds": ["x"]}, "[couldNotConvert]userIds[0]"),
        ({"userIds": [UNKNOWN_ID]}, "[invalid]userIds[0]"),
        ({"userIds": "x"}, "[invalidJSON]"),
        ({"userIds": [f"{UNKNOWN_ID[:-4]}{number:04}" for number in range(1001)]}, "[tooMany]userIds"),
        ({"toAddresses": [{}]}, "[blank]toAddresses[0].address"),
        ({"toAddresses": [{"address": "x"}]}, "[notEmail]toAddresses[0].address"),
        ({"toAddresses": [{"address": "a@b.c\r\nRCPT TO:<x@y.z>"}]}, "[notEmail]toAddresses[0].address"),
        ({"toAddresses": [{"address": "a@b.c"}], "ccAddresses": ["x"]}, "[notEmail]ccAddresses[0]"),
        ({"toAddresses": [{"address": "a@b.c"}], "bccAddresses": ["x"]}, "[notEmail]bccAddresses[0]"),
        ({"toAddresses": [{"address": "a@b.c"}], "preferredLanguages": ["??"]}, "[invalid]preferredLanguages[0]"),
        ({"toAddresses": [{"address": "a@b.c"}], "applicationId": UNKNOWN_ID}, "[invalid]applicationId"),
        ({"toAddresses": [{"address": "a@b.c"}], "requestData": []}, "[invalidJSON]"),
    ],
)
async def test_malformed_requests_send_nothing(api, tenant_api, service, tenant, body, code) -> None:
    template_id = await make_template(api)
    answer = await tenant_api.post(f"/api/email/send/{template_id}", json=body)
    assert answer.status_code == 400
    assert {e["code"] for entries in answer.json()["fieldErrors"].values() for e in entries} == {code}
    assert await internals.store(service, "mails").count(tenant["id"]) == 0


@pytest.mark.requirement("core-18-templates-8")
async def test_unknown_template_is_404(tenant_api) -> None:
    body = {"toAddresses": [{"address": "a@example.com"}]}
    assert (await tenant_api.post(f"/api/email/send/{new_id()}", json=body)).status_code == 404


@pytest.mark.requirement("core-18-templates-10")
async def test_application_or_first_user_determines_tenant(api, tenant_api, tenant, service, mailbox: Mailbox) -> None:
    template_id = await make_template(api, defaultHtmlTemplate="x", defaultTextTemplate="x", defaultSubject="x")
    user = await make_user(tenant_api)
    application = (await tenant_api.post("/api/application", json={"application": {"name": "App"}})).json()
    address = {"toAddresses": [{"address": "a@example.com"}]}
    async with checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as bare:
        path = f"/api/email/send/{template_id}"
        assert (await bare.post(path, json={"userIds": [user["id"]]})).json() == {}
        await mailbox.wait_for(1)
        body = {**address, "applicationId": application["application"]["id"]}
        assert (await bare.post(path, json=body)).json() == {}
        await mailbox.wait_for(2)
        refused = await bare.post(path, json=address)
        assert refused.json()["generalErrors"][0]["code"] == "[TenantIdRequired]"
        unknown = await bare.post(path, json={"userIds": [new_id()]})
        assert unknown.json()["generalErrors"][0]["code"] == "[TenantIdRequired]"


@pytest.mark.requirement("core-18-templates-10")
async def test_users_and_applications_of_another_tenant_are_unknown(api, tenant_api, mailbox: Mailbox) -> None:
    """`api` belongs to the default tenant."""
    template_id = await make_template(api)
    user = await make_user(tenant_api)
    application = (await tenant_api.post("/api/application", json={"application": {"name": "App"}})).json()
    path = f"/api/email/send/{template_id}"
    answer = await api.post(path, json={"userIds": [user["id"]]})
    assert answer.json()["fieldErrors"].keys() == {"userIds[0]"}
    body = {"toAddresses": [{"address": "a@example.com"}], "applicationId": application["application"]["id"]}
    assert (await api.post(path, json=body)).json()["fieldErrors"].keys() == {"applicationId"}
    assert mailbox.mails == []


@pytest.mark.requirement("core-18-templates-16")
async def test_template_output_cannot_inject_header(api, tenant_api, mailbox: Mailbox) -> None:
    template_id = await make_template(
        api,
        defaultSubject="{{ requestData.x }}",
        defaultFromName="{{ requestData.x }}",
        defaultHtmlTemplate="x",
        defaultTextTemplate="x",
    )
    nasty = "a\r\nBcc: evil@example.com\r\n\r\nbody\u2028c\u0085d\x00e\u202ef"
    user = await make_user(tenant_api, fullName="b\u2028X-Evil: yes")
    body = {
        "userIds": [user["id"]],
        "toAddresses": [{"address": "a@example.com", "display": nasty}],
        "requestData": {"x": nasty},
    }
    assert (await tenant_api.post(f"/api/email/send/{template_id}", json=body)).json() == {}
    for mail in await mailbox.wait_for(2):
        assert "evil@example.com" not in mail.recipients
        assert mail.message["Bcc"] is None
        assert mail.message["X-Evil"] is None
        assert mail.message["Subject"] == "a Bcc: evil@example.com body c d ef"
        assert mail.part("plain").strip() == "x"


@pytest.mark.requirement("core-18-templates-13")
async def test_tenant_headers_do_not_override_mail_headers(api, tenant_api, tenant, mailbox) -> None:
    headers = [{"name": "X-Service", "value": "identity ä"}, {"name": "Reply-To", "value": "help@example.com"}]
    patch = {"tenant": {"emailConfiguration": {"additionalHeaders": headers}}}
    assert (await api.patch(f"/api/tenant/{tenant['id']}", json=patch)).status_code == 200
    template_id = await make_template(api, defaultSubject="s", defaultHtmlTemplate="h", defaultTextTemplate="t")
    body = {"toAddresses": [{"address": "a@example.com"}]}
    assert (await tenant_api.post(f"/api/email/send/{template_id}", json=body)).json() == {}
    (mail,) = await mailbox.wait_for(1)
    assert mail.message["X-Service"] == "identity ä"
    assert mail.message["Reply-To"] == "help@example.com"


@pytest.mark.requirement("core-18-templates-13")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X-A: b", "c"),
        ("X A", "c"),
        ("X-Ä", "c"),
        ("X-A\r\nBcc", "c"),
        ("X-A", "b\r\nBcc: c@example.com"),
        ("bcc", "a@example.com"),
        ("Content-Type", "text/html"),
        ("FROM", "a@example.com"),
    ],
)
async def test_invalid_mail_headers_are_refused(api, tenant, name, value) -> None:
    patch = {"tenant": {"emailConfiguration": {"additionalHeaders": [{"name": name, "value": value}]}}}
    answer = await api.patch(f"/api/tenant/{tenant['id']}", json=patch)
    assert answer.status_code == 400
    path = "tenant.emailConfiguration.additionalHeaders[0]"
    assert answer.json()["fieldErrors"][path][0]["code"] == f"[invalid]{path}"


async def test_invalid_sender_address_is_refused(api, tenant) -> None:
    for address, code in (("x", "notEmail"), ("ä@example.com", "notEmail"), ("a@b..c", "notEmail")):
        patch = {"tenant": {"emailConfiguration": {"defaultFromEmail": address}}}
        answer = await api.patch(f"/api/tenant/{tenant['id']}", json=patch)
        path = "tenant.emailConfiguration.defaultFromEmail"
        assert [e["code"] for e in answer.json()["fieldErrors"][path]] == [f"[{code}]{path}"]


async def test_many_recipients_each_receive_one_mail(api, tenant_api, mailbox: Mailbox) -> None:
    template_id = await make_template(api, defaultSubject="s", defaultHtmlTemplate="h", defaultTextTemplate="t")
    wanted = [f"{number}@example.com" for number in range(60)]
    body = {"toAddresses": [{"address": address} for address in wanted]}
    assert (await tenant_api.post(f"/api/email/send/{template_id}", json=body)).json() == {}
    mails = await mailbox.wait_for(60)
    assert sorted(mail.recipients[0] for mail in mails) == sorted(wanted)


@pytest.mark.requirement("core-18-templates-14")
async def test_tenant_properties_set_host_and_bounce_address(api, tenant_api, tenant, mailbox: Mailbox) -> None:
    properties = "mail.smtp.localhost=us.example.com\n# a comment\nmail.smtp.from=bounces@example.com"
    patch = {"tenant": {"emailConfiguration": {"properties": properties}}}
    assert (await api.patch(f"/api/tenant/{tenant['id']}", json=patch)).status_code == 200
    template_id = await make_template(api, defaultSubject="s", defaultHtmlTemplate="h", defaultTextTemplate="t")
    body = {"toAddresses": [{"address": "a@example.com"}]}
    assert (await tenant_api.post(f"/api/email/send/{template_id}", json=body)).json() == {}
    (mail,) = await mailbox.wait_for(1)
    assert mail.sender == "bounces@example.com"
    assert mail.message["From"].endswith("<service@example.com>")
    assert mailbox.names == ["us.example.com"]
