"""The steps of a form of users are arranged with buttons, without script."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from identity.domain.forms.forms import FIELD_IDS
from identity.ids import new_id
from identity.web.console import form_steps
from tests.console.administrator import Browser, Page

EMAIL, PASSWORD, USERNAME = (FIELD_IDS[f"user.{name}"] for name in ("email", "password", "username"))
STEP = "form.steps[0]"


def submitted(*steps: tuple[str, list[str]], edit: str = "") -> dict[str, list[str]]:
    form = {form_steps.EDIT: [edit]} if edit else {}
    for index, (step_type, ids) in enumerate(steps):
        form[f"form.steps[{index}].type"] = [step_type]
        form |= {f"form.steps[{index}].fields[{position}]": [each] for position, each in enumerate(ids)}
    return form


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        ("", [["a", "b", "c"], ["d"]]),
        ("form.steps add", [["a", "b", "c"], ["d"], []]),
        ("form.steps[0].fields[1] up", [["b", "a", "c"], ["d"]]),
        ("form.steps[0].fields[1] down", [["a", "c", "b"], ["d"]]),
        ("form.steps[0].fields[0] up", [["a", "b", "c"], ["d"]]),
        ("form.steps[0].fields[2] down", [["a", "b", "c"], ["d"]]),
        ("form.steps[0].fields[2] remove", [["a", "b"], ["d"]]),
        ("form.steps[1] up", [["d"], ["a", "b", "c"]]),
        ("form.steps[0] remove", [["d"]]),
        ("form.steps[7] remove", [["a", "b", "c"], ["d"]]),
        ("form.steps[0].fields[7] up", [["a", "b", "c"], ["d"]]),
        ("form.steps[7].fields[0] up", [["a", "b", "c"], ["d"]]),
        ("other.steps[0] remove", [["a", "b", "c"], ["d"]]),
        ("form.steps[0] sort", [["a", "b", "c"], ["d"]]),
    ],
)
def test_button_changes_the_steps(edit: str, expected: list[list[str]]) -> None:
    form = submitted(("collectData", ["a", "b", "c"]), ("collectData", ["d"]), edit=edit)
    assert [step["fields"] for step in form_steps.read("form.steps", form)] == expected


def test_step_that_verifies_has_no_fields_unless_some_are_left() -> None:
    form = submitted(("verifyEmail", []), ("verifyPhoneNumber", ["a", ""]), ("collectData", [""]))
    assert form_steps.read("form.steps", form) == [
        {"type": "verifyEmail"},
        {"type": "verifyPhoneNumber", "fields": ["a"]},
        {"type": "collectData", "fields": []},
    ]


async def press(browser: Browser, shown: httpx.Response, edit: str, **fields: Any) -> httpx.Response:
    """Press a button of the editor; the page is shown again with the change, and nothing is stored."""
    given = {form_steps.EDIT: edit, **fields}
    assert edit in [tag.get("value") for name, tag in Page(shown).tags if name == "button"]
    answer = await browser.submit(shown, "", **given)
    assert answer.status_code == 200, Page(answer).text
    return answer


async def test_form_is_arranged_with_buttons_and_then_stored(
    roles: dict[str, Browser], every_tenant: httpx.AsyncClient
) -> None:
    admin, name = roles["admin"], f"Form {new_id()}"
    shown = await admin.open("/admin/forms/new")
    shown = await press(admin, shown, f"{STEP} add", **{"form.name": name, f"{STEP}.fields[0]": PASSWORD})
    shown = await press(admin, shown, f"{STEP} add", **{f"{STEP}.fields[1]": EMAIL})
    shown = await press(admin, shown, f"{STEP}.fields[1] up")
    shown = await press(admin, shown, "form.steps add")
    shown = await press(admin, shown, "form.steps add", **{"form.steps[1].type": "verifyEmail"})
    assert name not in str((await every_tenant.get("/api/form")).json())
    wrong = await admin.submit(shown, "")
    assert wrong.status_code == 400
    assert "[missing]" in Page(wrong).text or "[empty]" in Page(wrong).text
    assert 'aria-describedby="form-steps-3-wrong"' in wrong.text
    shown = await press(admin, wrong, "form.steps[2] remove")
    created = await admin.submit(shown, "")
    assert created.status_code == 303, Page(created).text
    page = await admin.follow(created)
    assert "1. Email, Password" in Page(page).text
    assert "2. Verify email" in Page(page).text
    form_id = page.url.path.rpartition("/")[2]
    stored = (await every_tenant.get(f"/api/form/{form_id}")).json()["form"]
    assert [(step["type"], step.get("fields")) for step in stored["steps"]] == [
        ("collectData", [EMAIL, PASSWORD]),
        ("verifyEmail", None),
    ]
    edited = await admin.open(f"{page.url.path}/edit")
    saved = await admin.submit(edited, "", **{f"{STEP}.fields[2]": USERNAME})
    assert saved.status_code == 303, Page(saved).text
    stored = (await every_tenant.get(f"/api/form/{form_id}")).json()["form"]
    assert stored["steps"][0]["fields"] == [EMAIL, PASSWORD, USERNAME]


async def test_error_is_shown_at_the_field_of_the_step(roles: dict[str, Browser]) -> None:
    admin = roles["admin"]
    shown = await admin.open("/admin/forms/new")
    fields = {"form.name": new_id(), "form.type": "adminRegistration", f"{STEP}.fields[0]": EMAIL}
    answer = await admin.submit(shown, "", **fields)
    assert answer.status_code == 400
    item = answer.text.partition("<ol>")[2].partition("</ol>")[0]
    assert "A form of type [adminRegistration] cannot have a field for [user.email]." in item


async def test_enter_key_saves_a_form(roles: dict[str, Browser]) -> None:
    shown = Page(await roles["admin"].open("/admin/forms/new"))
    start = next(index for index, (tag, _) in enumerate(shown.tags) if tag == "input")
    buttons = [given for tag, given in shown.tags[start:] if tag == "button"]
    assert buttons[0].get("name") in {None, ""}
