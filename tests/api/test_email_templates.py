"""Email templates: the full cycle, validation, previews, and protection from deletion."""

from __future__ import annotations

from typing import Any

import pytest

from identity.ids import new_id

Document = dict[str, Any]
PARTS = {"defaultSubject": "Hello", "defaultHtmlTemplate": "<p>Hello</p>", "defaultTextTemplate": "Hello\n"}


def errors(answer: Any) -> dict[str, str]:
    """Code to message."""
    assert answer.status_code == 400, answer.text
    body = answer.json()
    fields = [e for found in body.get("fieldErrors", {}).values() for e in found]
    return {e["code"]: e["message"] for e in [*fields, *body.get("generalErrors", [])]}


async def make(api, **members: Any) -> Document:
    template = {"name": f"Template {new_id()}", **PARTS, **members}
    answer = await api.post("/api/email/template", json={"emailTemplate": template})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["emailTemplate"])


@pytest.mark.requirement("core-18-templates-1")
async def test_full_cycle(api) -> None:
    localized = {
        "localizedFromNames": {"de": "Wir"},
        "localizedSubjects": {"de": "Hallo"},
        "localizedHtmlTemplates": {"es_MX": " <p>Hola</p> "},
        "localizedTextTemplates": {"de": "Hallo", "fr": ""},
    }
    made = await make(api, fromEmail="we@example.com", defaultFromName=" We ", **localized)
    assert made["defaultFromName"] == "We"
    assert made["defaultTextTemplate"] == "Hello\n"
    assert {name: made[name] for name in localized} == localized
    path = f"/api/email/template/{made['id']}"
    assert (await api.get(path)).json() == {"emailTemplate": made}
    assert made in (await api.get("/api/email/template")).json()["emailTemplates"]
    changed = (await api.put(path, json={"emailTemplate": {"name": made["name"], **PARTS}})).json()["emailTemplate"]
    assert "fromEmail" not in changed
    assert changed["localizedSubjects"] == {}
    assert changed["insertInstant"] == made["insertInstant"]
    assert changed["lastUpdateInstant"] > made["lastUpdateInstant"]
    assert (await api.delete(path)).status_code == 200
    assert (await api.get(path)).status_code == 404
    assert (await api.delete(path)).status_code == 404
    assert (await api.put(path, json={"emailTemplate": {"name": "x", **PARTS}})).status_code == 404


@pytest.mark.requirement("core-18-templates-1")
async def test_given_id_is_used_and_unique(api) -> None:
    path, body = f"/api/email/template/{new_id()}", {"emailTemplate": {"name": new_id(), **PARTS}}
    assert (await api.post(path, json=body)).json()["emailTemplate"]["id"] == path.rpartition("/")[2]
    body["emailTemplate"]["name"] = new_id()
    assert errors(await api.post(path, json=body)).keys() == {"[duplicate]emailTemplateId"}


@pytest.mark.requirement("core-18-templates-1")
@pytest.mark.parametrize(
    ("kind", "patch", "expected"),
    [
        ("application/json", {"emailTemplate": {"localizedSubjects": {"fr": "b"}}}, {"de": "a", "fr": "b"}),
        (
            "application/merge-patch+json",
            {"emailTemplate": {"localizedSubjects": {"de": None, "fr": "b"}}},
            {"fr": "b"},
        ),
        (
            "application/json-patch+json",
            [{"op": "add", "path": "/emailTemplate/localizedSubjects/fr", "value": "b"}],
            {"de": "a", "fr": "b"},
        ),
    ],
)
async def test_each_kind_of_patch(api, kind, patch, expected) -> None:
    made = await make(api, localizedSubjects={"de": "a"})
    path = f"/api/email/template/{made['id']}"
    answer = await api.patch(path, json=patch, headers={"Content-Type": kind})
    assert answer.status_code == 200, answer.text
    assert answer.json()["emailTemplate"]["localizedSubjects"] == expected
    assert answer.json()["emailTemplate"]["defaultSubject"] == "Hello"
    assert errors(await api.patch(path, json={"emailTemplate": {"defaultSubject": None}})).keys() == {
        "[blank]emailTemplate.defaultSubject"
    }


@pytest.mark.requirement("core-18-templates-2")
async def test_all_errors_of_empty_template_are_reported_together(api) -> None:
    assert errors(await api.post("/api/email/template", json={"emailTemplate": {}})).keys() == {
        "[blank]emailTemplate.name",
        "[blank]emailTemplate.defaultSubject",
        "[blank]emailTemplate.defaultHtmlTemplate",
        "[blank]emailTemplate.defaultTextTemplate",
    }
    assert errors(await api.post("/api/email/template", json={})).keys() == {"[missing]emailTemplate"}


@pytest.mark.requirement("core-18-templates-5")
@pytest.mark.parametrize(
    ("members", "code", "message"),
    [
        ({"defaultHtmlTemplate": "\n\n{% if %}"}, "[invalid]defaultHtmlTemplate", "Line 3: Expected an exp"),
        ({"defaultTextTemplate": "{{ x|nope }}"}, "[invalid]defaultTextTemplate", "Line 1: there is no filter"),
        ({"defaultSubject": "a ${"}, "[invalid]defaultSubject", "Line 1: the closing [}] is missing"),
        ({"defaultFromName": "{{"}, "[invalid]defaultFromName", "Line 1: "),
        ({"localizedHtmlTemplates": {"de": "\n{% x %}"}}, "[invalid]localizedHtmlTemplates.de", "Line 2: "),
        ({"localizedSubjects": {"de": "[#function a]"}}, "[invalid]localizedSubjects.de", "Line 1: the directive"),
        ({"localizedSubjects": {"not a locale": "a"}}, "[invalid]localizedSubjects", ""),
        ({"localizedSubjects": {"de": [5]}}, "[invalidJSON]", ""),
        ({"localizedSubjects": []}, "[invalidJSON]", ""),
        ({"fromEmail": "unknown"}, "[notEmail]fromEmail", ""),
        ({"fromEmail": "ä@example.com"}, "[notEmail]fromEmail", "The [emailTemplate.fromEmail] cannot be used: [ä@exa"),
        ({"fromEmail": "a@b.c\r\nBcc: x@y.z"}, "[notEmail]fromEmail", ""),
        ({"name": "x" * 192}, "[tooLong]name", ""),
        ({"defaultHtmlTemplate": "x" * 262_145}, "[tooLong]defaultHtmlTemplate", ""),
        ({"defaultHtmlTemplate": " \n"}, "[blank]defaultHtmlTemplate", ""),
    ],
)
async def test_invalid_template_is_refused(api, members, code, message) -> None:
    body = {"emailTemplate": {"name": new_id(), **PARTS, **members}}
    found = errors(await api.post("/api/email/template", json=body))
    whole = code if code == "[invalidJSON]" else code.replace("]", "]emailTemplate.")
    assert found.keys() == {whole}
    assert found[whole].startswith(message)


@pytest.mark.requirement("core-18-templates-2")
async def test_name_is_unique(api) -> None:
    made, other = await make(api), await make(api)
    taken = {"emailTemplate": {"name": made["name"], **PARTS}}
    assert errors(await api.post("/api/email/template", json=taken)).keys() == {"[duplicate]emailTemplate.name"}
    assert errors(await api.put(f"/api/email/template/{other['id']}", json=taken)).keys() == {
        "[duplicate]emailTemplate.name"
    }


@pytest.mark.requirement("core-18-templates-7")
async def test_search(api) -> None:
    mark = new_id()
    first, second = await make(api, name=f"{mark} b"), await make(api, name=f"{mark} a")
    found = (await api.get("/api/email/template/search", params={"name": mark})).json()
    assert (found["total"], [one["id"] for one in found["emailTemplates"]]) == (2, [second["id"], first["id"]])
    body = {"search": {"name": f"{mark}*", "orderBy": "insertInstant DESC", "startRow": 1, "numberOfResults": 1}}
    found = (await api.post("/api/email/template/search", json=body)).json()
    assert (found["total"], [one["id"] for one in found["emailTemplates"]]) == (2, [first["id"]])
    wrong = await api.get("/api/email/template/search", params={"orderBy": "defaultSubject"})
    assert errors(wrong).keys() == {"[invalid]orderBy"}


# References


@pytest.mark.requirement("core-18-templates-11")
@pytest.mark.parametrize(
    ("wrapper", "members"),
    [
        ("tenant", {"emailConfiguration": {"forgotPasswordEmailTemplateId": "ID"}}),
        ("tenant", {"emailConfiguration": {"verifyEmail": True, "verificationEmailTemplateId": "ID"}}),
        ("tenant", {"multiFactorConfiguration": {"email": {"enabled": True, "templateId": "ID"}}}),
        ("tenant", {"familyConfiguration": {"familyRequestEmailTemplateId": "ID"}}),
        ("tenant", {"passwordValidationRules": {"breachDetection": {"notifyUserEmailTemplateId": "ID"}}}),
        ("application", {"emailConfiguration": {"emailVerificationEmailTemplateId": "ID"}}),
        ("application", {"emailConfiguration": {"passwordlessEmailTemplateId": "ID"}}),
        ("application", {"verificationEmailTemplateId": "ID"}),
        ("consent", {"defaultMinimumAgeForSelfConsent": 13, "consentEmailTemplateId": "ID"}),
        ("userAction", {"startEmailTemplateId": "ID"}),
    ],
)
async def test_referenced_template_must_exist_and_cannot_be_deleted(api, tenant_api, wrapper, members) -> None:
    def body(template_id: str) -> Document:
        return {wrapper: {"name": new_id(), **_filled(members, template_id)}}

    path = {"userAction": "/api/user-action"}.get(wrapper, f"/api/{wrapper}")
    template = await make(api)
    (code,) = errors(await tenant_api.post(path, json=body(new_id())))
    assert code == f"[invalid]{wrapper}.{_place(members)}"
    answer = await tenant_api.post(path, json=body(template["id"]))
    assert answer.status_code == 200, answer.text
    assert errors(await api.delete(f"/api/email/template/{template['id']}")).keys() == {"[inUse]emailTemplateId"}
    object_id = answer.json()[wrapper]["id"]
    removed = await tenant_api.delete(f"{path}/{object_id}", params={"hardDelete": "true"})
    assert removed.status_code == 200
    assert (await api.delete(f"/api/email/template/{template['id']}")).status_code == 200


def _filled(members: Any, template_id: str) -> Any:
    if isinstance(members, dict):
        return {name: _filled(member, template_id) for name, member in members.items()}
    return template_id if members == "ID" else members


def _place(members: Any) -> str:
    for name, member in members.items():
        if member == "ID":
            return str(name)
        if isinstance(member, dict):
            return f"{name}.{_place(member)}"
    raise AssertionError


# Previews


async def preview(api, template: Document, **more: Any) -> Document:
    answer = await api.post("/api/email/template/preview", json={"emailTemplate": template, **more})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


@pytest.mark.requirement("core-18-templates-6")
async def test_preview_renders_for_an_example_user(api) -> None:
    template = {
        "name": "not looked at",
        "fromEmail": "we@example.com",
        "defaultFromName": "The {{ tenant.name }} team",
        "defaultSubject": "Hello ${user.firstName}\nand more",
        "defaultHtmlTemplate": "<a href='?id=${changePasswordId}&t=${user.tenantId}'>{{ application.name }}</a>",
        "defaultTextTemplate": "{{ requestData.what.ever }} {{ user.email }}",
    }
    answer = await preview(api, template)
    assert answer.keys() == {"email"}
    email = answer["email"]
    assert email["from"] == {"address": "we@example.com", "display": "The Default team"}
    assert email["subject"] == "Hello Ada and more"
    assert email["html"].startswith("<a href='?id=${changePasswordId}&t=")
    assert email["html"].endswith("'>Example application</a>")
    assert email["text"] == "${requestData.what.ever} ada.lovelace@example.com"


@pytest.mark.requirement("core-18-templates-6")
async def test_preview_contains_only_given_parts(api) -> None:
    assert await preview(api, {}) == {"email": {}}
    assert await preview(api, {"defaultSubject": "x"}) == {"email": {"subject": "x"}}
    assert await preview(api, {"defaultFromName": "x"}) == {"email": {"from": {"display": "x"}}}


@pytest.mark.requirement("core-18-templates-6")
@pytest.mark.parametrize(
    ("locale", "subject"), [("de_CH", "Hallo"), ("de", "Hallo"), ("fr", "Hello"), (None, "Hello"), (" ", "Hello")]
)
async def test_preview_renders_variant_of_locale(api, locale, subject) -> None:
    template = {"defaultSubject": "Hello", "localizedSubjects": {"de": "Hallo"}, "defaultTextTemplate": "text"}
    answer = await preview(api, template, **({} if locale is None else {"locale": locale}))
    assert answer == {"email": {"subject": subject, "text": "text"}}


@pytest.mark.requirement("core-18-templates-6")
async def test_preview_reports_errors_per_part_and_renders_others(api) -> None:
    template = {
        "defaultSubject": "Hello",
        "defaultHtmlTemplate": "\n{% if %}",
        "defaultTextTemplate": "default",
        "localizedTextTemplates": {"de": "{{ 1 / 0 }}"},
        "defaultFromName": "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
    }
    answer = await preview(api, template, locale="de")
    assert answer["email"] == {"subject": "Hello"}
    found = answer["errors"]["fieldErrors"]
    assert {path: [(e["code"], e["message"]) for e in entries] for path, entries in found.items()} == {
        "emailTemplate.defaultHtmlTemplate": [
            (
                "[invalid]emailTemplate.defaultHtmlTemplate",
                "Line 2: Expected an expression, got 'end of statement block'",
            )
        ],
        "emailTemplate.localizedTextTemplates.de": [
            ("[invalid]emailTemplate.localizedTextTemplates.de", "Line 1: division by zero")
        ],
        "emailTemplate.defaultFromName": [
            ("[invalid]emailTemplate.defaultFromName", "Line 1: the template does too much")
        ],
    }


@pytest.mark.requirement("core-18-templates-6")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "[missing]emailTemplate"),
        ({"emailTemplate": {}, "locale": "not a locale"}, "[invalid]locale"),
        ({"emailTemplate": {"defaultSubject": [5]}}, "[invalidJSON]"),
        ({"emailTemplate": []}, "[invalidJSON]"),
    ],
)
async def test_preview_of_a_malformed_request_is_refused(api, body, code) -> None:
    assert errors(await api.post("/api/email/template/preview", json=body)).keys() == {code}


async def test_template_that_imports_helpers_is_refused_when_it_is_saved(api) -> None:
    html = '<p>Hello</p>\n[#import "../_helpers.ftl" as helpers/]\n[@helpers.html]Hello[/@helpers.html]'
    body = {"emailTemplate": {"name": f"Template {new_id()}", **PARTS, "defaultHtmlTemplate": html}}
    code = "[invalid]emailTemplate.defaultHtmlTemplate"
    refusal = "[#import] is not supported: templates cannot read files; define macros in the template itself"
    assert refusal in errors(await api.post("/api/email/template", json=body))[code]
