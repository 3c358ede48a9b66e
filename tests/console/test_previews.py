"""Previews of templates, themes and lambdas: they show the values of the form, store nothing and run no script."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest

from identity.domain.lambdas import lambdas
from identity.ids import new_id
from tests.console.administrator import Browser, Page
from tests.receiver import Receiver

MAIL = {
    "emailTemplate.name": "x", "emailTemplate.defaultSubject": "Hello ${user.firstName}",
    "emailTemplate.defaultTextTemplate": "Dear ${user.fullName}",
    "emailTemplate.defaultHtmlTemplate": "<p style='color:red'>Hi</p><script>alert(1)</script>",
}  # fmt: skip


async def preview(browser: Browser, slug: str, query: str = "", **fields: Any) -> httpx.Response:
    token = await browser.csrf_token()
    return await browser.http.post(f"/admin/{slug}/preview{query}", data={"csrf_token": token, **fields})


@pytest.mark.requirement("console-19")
async def test_email_is_rendered_for_an_example_user(roles: dict[str, Browser]) -> None:
    shown = await preview(roles["developer"], "email-templates", **MAIL)
    assert shown.status_code == 200
    assert "Hello Ada" in Page(shown).text
    assert "Dear Ada Lovelace" in Page(shown).text
    assert "<script" not in shown.text
    assert "&lt;script&gt;" in shown.text
    policy = shown.headers["Content-Security-Policy"]
    assert policy.startswith("sandbox;")
    assert "script-src" not in policy
    assert shown.headers["X-Frame-Options"] == "SAMEORIGIN"
    broken = {**MAIL, "emailTemplate.defaultTextTemplate": "Dear ${user."}
    assert "alert" in (await preview(roles["developer"], "email-templates", **broken)).text
    assert (await preview(roles["user-manager"], "email-templates", **MAIL)).status_code == 403


async def test_message_is_rendered(roles: dict[str, Browser]) -> None:
    fields = {"messageTemplate.name": "x", "messageTemplate.defaultTemplate": "Code for ${user.firstName}"}
    shown = await preview(roles["admin"], "message-templates", **fields)
    assert "Code for Ada" in Page(shown).text


async def test_theme_form_says_that_freemarker_templates_are_not_rendered(roles: dict[str, Browser]) -> None:
    shown = await roles["developer"].http.get("/admin/themes/new?kind=advanced")
    assert "FreeMarker templates of an imported theme are stored, not rendered" in Page(shown).text
    assert "docs/email.md" in Page(shown).text


async def test_theme_is_shown_on_the_login_page_with_its_contrast(roles: dict[str, Browser]) -> None:
    fields = {
        "theme.name": "x",
        "theme.variables.fontColor": "#eeeeee",
        "theme.variables.panelBackgroundColor": "#ffffff",
        "theme.stylesheet": "p { color: red } </style><script>alert(1)</script>",
        "theme.defaultMessages": "login.heading=Welcome back",
    }
    shown = await preview(roles["developer"], "themes", "?kind=simple", **fields)
    assert shown.status_code == 200
    assert "--text: #eeeeee" in shown.text
    assert "Welcome back" in Page(shown).text
    assert "The contrast of fontColor" in Page(shown).text
    assert "</style><script>" not in shown.text
    fields["theme.variables.fontColor"] = "url(x)"
    wrong = await preview(roles["developer"], "themes", "?kind=simple", **fields)
    assert "not a CSS value" in Page(wrong).text
    assert (await preview(roles["auditor"], "themes", **fields)).status_code == 403
    assert (await preview(roles["auditor"], "lambdas", **{"lambda.name": "x"})).status_code == 403


@pytest.mark.parametrize(
    ("body", "sample", "expected"),
    [
        ("function populate(jwt, user) { jwt.plan = user.data.plan; console.log('hi') }", "", ['"plan": "gold"', "hi"]),
        ("function populate(jwt) { jwt.a = 1 }", '[{"b": 2}, null, null]', ['"a": 1', '"b": 2']),
        ("function populate(jwt) {\n  jwt.a = ;\n}", "", ["line 2"]),
        ("function other() {}", "", ["populate"]),
        ("function populate(jwt) { throw new Error('no') }", "", ["no"]),
        ("function populate(jwt) { while (true) {} }", "", ["alert"]),
        ("function populate() {}", "{", ["not JSON"]),
        ("function populate() {}", "{}", ["must be a JSON list"]),
        ("", "", ["Choose a type"]),
    ],
)
async def test_lambda_runs_on_a_sample(roles: dict[str, Browser], body: str, sample: str, expected: list[str]) -> None:
    fields = {"lambda.name": "x", "lambda.type": "JWTPopulate", "lambda.body": body, "console.sample": sample}
    shown = await preview(roles["developer"], "lambdas", **fields)
    assert shown.status_code == 200
    for text in expected:
        assert text in Page(shown).text or text in shown.text


async def test_context_of_a_test_run_comes_after_the_arguments_and_may_be_absent(roles: dict[str, Browser]) -> None:
    body = "function populate(jwt, user, registration, context) { jwt.seen = [registration.a, context.scopes] }"
    fields = {"lambda.name": "x", "lambda.type": "JWTPopulate", "lambda.body": body}
    for sample, expected in (
        ('[{}, {}, {"a": 1}, {"scopes": ["x"]}]', [1, ["x"]]),
        ('[{}, {}, {"a": 1}]', [1, None]),
    ):
        shown = await preview(roles["developer"], "lambdas", **fields, **{"console.sample": sample})
        text = re.sub(r"\s", "", Page(shown).text)
        assert f'"seen":{json.dumps(expected, separators=(",", ":"))}' in text


async def test_test_run_sends_requests_and_masks_secrets(
    roles: dict[str, Browser], api: httpx.AsyncClient, receiver: Receiver
) -> None:
    value = f'value "{new_id()}"'
    key = {"name": f"key {new_id()}", "type": "Secret", "secret": value}
    assert (await api.post("/api/key/import", json={"key": key})).status_code == 200
    body = (
        "function populate(jwt, user, registration, context) {"
        f" jwt.secret = context.services.secrets.get('{key['name']}'); console.log(jwt.secret);"
        f" jwt.status = fetch('{receiver.url}', {{headers: {{a: jwt.secret}}}}).status }}"
    )
    fields = {"lambda.name": "x", "lambda.type": "JWTPopulate", "lambda.body": body}
    shown = await preview(roles["developer"], "lambdas", **fields)
    assert receiver.requests[0].headers["a"] == value
    assert '"status": 200' in Page(shown).text
    assert '"secret": "***"' in Page(shown).text
    assert value not in shown.text


@pytest.mark.parametrize("kind", sorted(lambdas.FUNCTIONS))
def test_every_type_has_sample_arguments(kind: str) -> None:
    found = lambdas.sample_arguments(kind)
    assert found
    found[0]["changed"] = True
    assert "changed" not in lambdas.sample_arguments(kind)[0]
