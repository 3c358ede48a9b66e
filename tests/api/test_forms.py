"""Forms and their fields, which are shared by all tenants, and the integrations."""

from __future__ import annotations

from typing import Any

import pytest

from identity import wiring
from identity.domain.forms.forms import FIELD_IDS, FORM_IDS
from identity.ids import new_id
from identity.operations.configuration import bootstrap
from tests.api.test_consents import codes
from tests.api.test_consents import make as make_consent
from tests.conftest import DEFAULT_TENANT, SUPER_KEY, UNKNOWN_ID, checking_client

Document = dict[str, Any]
EMAIL, PASSWORD, ROLES = (FIELD_IDS[key] for key in ("user.email", "user.password", "registration.roles"))

FIRST_STEP = {"fields": [EMAIL, PASSWORD]}


def field_body(**members: Any) -> Document:
    return {"field": {"name": f"Field {new_id()}", "key": "user.data.color", **members}}


def form_body(*steps: list[str], **members: Any) -> Document:
    listed = [{"fields": fields} for fields in steps or [[EMAIL, PASSWORD]]]
    return {"form": {"name": f"Form {new_id()}", "steps": listed, **members}}


async def make_field(api, **members: Any) -> Document:
    answer = await api.post("/api/form/field", json=field_body(**members))
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["field"])


async def make_form(api, *steps: list[str], **members: Any) -> Document:
    answer = await api.post("/api/form", json=form_body(*steps, **members))
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["form"])


@pytest.mark.requirement("forms-1")
async def test_full_cycle_of_a_field(api) -> None:
    made = await make_field(api, control="select", options=["red", "blue", "red"], data={"icon": "brush"})
    path = f"/api/form/field/{made['id']}"
    assert made["options"] == ["red", "blue"]
    assert (made["type"], made["required"], made["confirm"]) == ("string", False, False)
    assert made["validator"] == {"enabled": False}
    assert (await api.get(path)).json() == {"field": made}
    assert made in (await api.get("/api/form/field")).json()["fields"]
    patched = (await api.patch(path, json={"field": {"required": True, "key": "user.data.other"}})).json()["field"]
    assert patched["required"] is True
    replacement = {"field": {"name": made["name"], "type": "number", "control": "text", "options": ["green"]}}
    replaced = (await api.put(path, json=replacement)).json()["field"]
    fixed = ("key", "control", "type")
    assert [(patched[name], replaced[name]) for name in fixed] == [(made[name], made[name]) for name in fixed]
    assert replaced["options"] == ["green"]
    assert (await api.delete(path)).status_code == 200
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        assert (await api.request(method, path, json=field_body())).status_code == 404


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"name": " "}, {"[blank]field.name"}),
        ({"name": "x" * 192}, {"[tooLong]field.name"}),
        ({"key": None}, {"[blank]field.key"}),
        *[({"key": key}, {"[invalid]field.key"}) for key in (
            "user.id", "user.verified", "user.tenantId", "user.data", "user.data.", "user.data.a b", "user.data.$where",
            "user.data[0]", "user.data.a[100]", "user.data.__proto__.polluted", "registration.data['constructor']",
            "registration.applicationId", "registration.data.a'b", "user.data.<script>", "consents['x']", "__proto__",
            "user.data" + ".a" * 9, "user.data.a\nb",
        )],
        ({"control": "slider"}, {"[invalid]field.control"}),
        ({"type": "float"}, {"[invalid]field.type"}),
        ({"control": "radio"}, {"[missing]field.options"}),
        ({"control": "checkbox"}, {"[missing]field.options"}),
        ({"options": ["red"]}, {"[invalid]field.options"}),
        ({"control": "select", "options": [" "]}, {"[blank]field.options[0]"}),
        ({"control": "select", "type": "number", "options": ["1", "many"]}, {"[invalid]field.options[1]"}),
        ({"control": "radio", "type": "bool", "options": ["true", "yes"]}, {"[invalid]field.options[1]"}),
        ({"control": "checkbox", "type": "bool", "confirm": True}, {"[invalid]field.confirm"}),
        ({"type": "consent"}, {"[missing]field.consentId"}),
        ({"type": "consent", "consentId": UNKNOWN_ID}, {"[invalid]field.consentId"}),
        ({"type": "consent", "consentId": "x"}, {"[couldNotConvert]field.consentId"}),
        ({"validator": {"enabled": True}}, {"[blank]field.validator.expression"}),
        ({"validator": {"expression": "("}}, {"[invalid]field.validator.expression"}),
        ({"validator": {"expression": "(?=a)a"}}, {"[invalid]field.validator.expression"}),
        ({"validator": {"expression": "((a{1,99}){1,99}){1,99}"}}, {"[invalid]field.validator.expression"}),
        ({"validator": {"expression": "a" * 1001}}, {"[tooLong]field.validator.expression"}),
        ({"name": "", "key": "x", "confirm": True, "control": "radio"},
         {"[blank]field.name", "[invalid]field.key", "[invalid]field.confirm"}),
    ],
)  # fmt: skip
async def test_invalid_fields(api, members, expected) -> None:
    assert codes(await api.post("/api/form/field", json=field_body(**members))) == expected


async def test_control_and_type_of_a_predefined_key_are_fixed(api) -> None:
    made = await make_field(api, key="user.birthDate", control="textarea", type="number", consentId=UNKNOWN_ID)
    assert (made["control"], made["type"], "consentId" in made) == ("text", "date", False)


async def test_field_of_a_consent_has_the_key_of_the_consent_and_keeps_it_from_deletion(api) -> None:
    consent = await make_consent(api)
    made = await make_field(api, type="consent", consentId=consent["id"], key="user.id", control="text")
    assert (made["key"], made["control"]) == (f"consents['{consent['id']}']", "checkbox")
    assert codes(await api.delete(f"/api/consent/{consent['id']}")) == {"[inUse]consentId"}
    assert (await api.delete(f"/api/form/field/{made['id']}")).status_code == 200
    assert (await api.delete(f"/api/consent/{consent['id']}")).status_code == 200


async def test_names_are_unique(api) -> None:
    field, form = await make_field(api), await make_form(api)
    assert codes(await api.post("/api/form/field", json=field_body(name=field["name"]))) == {"[duplicate]field.name"}
    assert codes(await api.post("/api/form", json=form_body(name=form["name"]))) == {"[duplicate]form.name"}


@pytest.mark.requirement("forms-1")
async def test_full_cycle_of_a_form(api) -> None:
    color = await make_field(api)
    made = await make_form(api, [EMAIL, PASSWORD], [color["id"]], data={"a": 1})
    path = f"/api/form/{made['id']}"
    assert made["type"] == "registration"
    assert made["steps"] == [
        {"fields": [EMAIL, PASSWORD], "type": "collectData"}, {"fields": [color["id"]], "type": "collectData"}
    ]  # fmt: skip
    assert (await api.get(path)).json() == {"form": made}
    assert made in (await api.get("/api/form")).json()["forms"]
    assert codes(await api.delete(f"/api/form/field/{color['id']}")) == {"[inUse]fieldId"}
    renamed = (await api.patch(path, json={"form": {"name": new_id(), "type": "adminUser"}})).json()["form"]
    assert renamed["type"] == "registration"
    replaced = await api.put(path, json=form_body([PASSWORD, EMAIL], name=made["name"]))
    assert replaced.json()["form"]["steps"] == [{"fields": [PASSWORD, EMAIL], "type": "collectData"}]
    assert (await api.delete(f"/api/form/field/{color['id']}")).status_code == 200
    assert (await api.delete(path)).status_code == 200
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        assert (await api.request(method, path, json=form_body())).status_code == 404


@pytest.mark.parametrize(
    ("steps", "members", "expected"),
    [
        ([], {"name": ""}, {"[blank]form.name"}),
        ([], {"steps": []}, {"[empty]form.steps"}),
        ([], {"steps": None}, {"[missing]form.steps"}),
        ([], {"steps": [{}]}, {"[missing]form.steps[0].fields"}),
        ([[]], {}, {"[empty]form.steps[0].fields"}),
        ([], {"type": "popup"}, {"[invalid]form.type"}),
        ([], {"steps": [FIRST_STEP, {"type": "popup"}]}, {"[invalid]form.steps[1].type"}),
        ([], {"steps": [{"type": "verifyEmail"}, FIRST_STEP]}, {"[invalid]form.steps[0].type"}),
        ([], {"steps": [FIRST_STEP, {"type": "verifyPhoneNumber"}]}, {"[invalid]form.steps[1].type"}),
        ([], {"steps": [FIRST_STEP, *[{"type": "verifyEmail"}] * 2]}, {"[invalid]form.steps[2].type"}),
        ([], {"steps": [FIRST_STEP, {"type": "verifyEmail", "fields": [ROLES]}]}, {"[invalid]form.steps[1].fields"}),
        (
            [],
            {"type": "selfServiceUser", "steps": [FIRST_STEP, {"type": "verifyEmail"}]},
            {"[invalid]form.steps[1].type"},
        ),
        ([[EMAIL, PASSWORD], ["x"]], {}, {"[couldNotConvert]form.steps[1].fields[0]"}),
        ([[EMAIL, PASSWORD], [UNKNOWN_ID]], {}, {"[invalid]form.steps[1].fields[0]"}),
        ([[EMAIL, PASSWORD], [EMAIL]], {}, {"[duplicate]form.steps"}),
        ([[EMAIL]], {}, {"[missingPassword]form.steps"}),
        ([[PASSWORD]], {}, {"[missingLoginId]form.steps"}),
        ([[EMAIL, PASSWORD], [ROLES]], {}, {"[invalid]form.steps[1].fields[0]"}),
        ([[EMAIL, ROLES]], {"type": "selfServiceUser"}, {"[invalid]form.steps[0].fields[1]"}),
        ([[EMAIL]], {"type": "adminRegistration"}, {"[invalid]form.steps[0].fields[0]"}),
        ([[ROLES]], {"type": "adminUser"}, {"[invalid]form.steps[0].fields[0]"}),
    ],
)
async def test_invalid_forms(api, steps, members, expected) -> None:
    assert codes(await api.post("/api/form", json=form_body(*steps, **members))) == expected


async def test_fields_of_a_form_do_not_set_parts_of_one_another(api) -> None:
    whole, part = await make_field(api, key="user.data.a"), await make_field(api, key="user.data.a['b']")
    same = await make_field(api, key="user.data['a']")
    for other in (part, same):
        body = form_body([EMAIL, PASSWORD, whole["id"], other["id"]])
        assert codes(await api.post("/api/form", json=body)) == {"[invalid]form.steps"}


@pytest.mark.requirement("forms-1")
async def test_form_in_use_cannot_be_deleted(api, tenant_api) -> None:
    form, account = await make_form(api), await make_form(api, [EMAIL], type="selfServiceUser")
    members = {
        "registrationConfiguration": {"enabled": True, "type": "advanced", "formId": form["id"]},
        "formConfiguration": {"selfServiceFormId": account["id"]},
    }
    made = await tenant_api.post("/api/application", json={"application": {"name": new_id(), **members}})
    application = made.json()["application"]
    assert application["registrationConfiguration"]["formId"] == form["id"]
    for used in (form, account):
        assert codes(await api.delete(f"/api/form/{used['id']}")) == {"[inUse]formId"}
    assert (await tenant_api.delete(f"/api/application/{application['id']}?hardDelete=true")).status_code == 200
    for unused in (form, account):
        assert (await api.delete(f"/api/form/{unused['id']}")).status_code == 200


@pytest.mark.parametrize(
    ("member", "form_type"),
    [
        ("registrationConfiguration.formId", "selfServiceUser"),
        ("formConfiguration.selfServiceFormId", "registration"),
        ("formConfiguration.adminRegistrationFormId", "registration"),
    ],
)
async def test_application_names_existing_forms_of_the_right_type(api, tenant_api, member, form_type) -> None:
    form = await make_form(api, type=form_type)
    holder, _, name = member.partition(".")
    for form_id in (form["id"], UNKNOWN_ID):
        body = {"application": {"name": new_id(), holder: {name: form_id}}}
        assert codes(await tenant_api.post("/api/application", json=body)) == {f"[invalid]application.{member}"}


async def test_advanced_registration_requires_a_form(tenant_api) -> None:
    registration = {"enabled": True, "type": "advanced"}
    body = {"application": {"name": new_id(), "registrationConfiguration": registration}}
    expected = {"[missing]application.registrationConfiguration.formId"}
    assert codes(await tenant_api.post("/api/application", json=body)) == expected


async def test_tenant_names_an_existing_form_for_its_users(api) -> None:
    form = await make_form(api)
    for form_id in (form["id"], UNKNOWN_ID):
        body = {"tenant": {"name": new_id(), "formConfiguration": {"adminUserFormId": form_id}}}
        assert codes(await api.post("/api/tenant", json=body)) == {"[invalid]tenant.formConfiguration.adminUserFormId"}


@pytest.mark.requirement("forms-2")
async def test_every_instance_has_the_default_forms_and_fields(api) -> None:
    forms = {form["id"]: form for form in (await api.get("/api/form")).json()["forms"]}
    fields = {field["id"]: field for field in (await api.get("/api/form/field")).json()["fields"]}
    defaults = [forms[form_id] for form_id in FORM_IDS.values()]
    assert {form["type"] for form in defaults} == {"adminRegistration", "adminUser", "selfServiceUser"}
    assert {field_id for form in defaults for step in form["steps"] for field_id in step["fields"]} <= fields.keys()
    assert {fields[field_id]["key"] for field_id in FIELD_IDS.values()} == FIELD_IDS.keys()


@pytest.mark.requirement("forms-2")
async def test_deleted_default_does_not_return_where_there_are_other_forms(build) -> None:
    path = f"/api/form/{FORM_IDS['adminUser']}"
    headers = {"Authorization": SUPER_KEY, "X-FusionAuth-TenantId": DEFAULT_TENANT}
    # A service of its own: objects of other tests may refer to the form.
    async with build() as service, checking_client(service.base_url, headers=headers) as api:
        assert (await api.delete(path)).status_code == 200
        await bootstrap.ensure(service.services, wiring.own_call(service.services.clock, service.base_url))
        assert (await api.get(path)).status_code == 404
