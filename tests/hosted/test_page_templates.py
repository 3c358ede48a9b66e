"""Hosted pages that a theme replaces by templates of its own."""

from __future__ import annotations

import re
from typing import Any

import pytest

from identity.ids import new_id
from tests.relying_party import page, response

HEADING = "<h1>Shop of {{ application_name }}</h1>"
LOGIN = f'{{% extends "builtin/login.html" %}}{{% block content %}}{HEADING}{{{{ super() }}}}{{% endblock %}}'
FREEMARKER = "[#ftl/][#if user??]${user.email}[/#if]"


async def use(rp: Any, api: Any, **members: Any) -> dict[str, Any]:
    answer = await api.post("/api/theme", json={"theme": {"name": new_id(), **members}})
    assert answer.status_code == 200, answer.text
    await rp.configure_tenant(themeId=answer.json()["theme"]["id"])
    return dict(answer.json()["theme"])


async def test_login_page_of_a_theme_is_shown_and_logs_in(rp: Any, browser: Any, api: Any) -> None:
    await rp.patch(f"/api/application/{rp.client_id}", {"application": {"name": "<b>Shoes</b>"}})
    theme = await use(rp, api, pageTemplates={"login": LOGIN}, templates={"oauth2Authorize": FREEMARKER})
    assert "The template [oauth2Authorize] is not rendered." in theme["notices"]
    assert theme["templates"] == {"oauth2Authorize": FREEMARKER}
    shown = await rp.authorize(browser)
    assert "<h1>Shop of &lt;b&gt;Shoes&lt;/b&gt;</h1>" in shown.text
    assert "code" in response(await rp.submit(browser, shown))


async def test_frame_of_a_theme_is_used_by_every_page(rp: Any, browser: Any, api: Any) -> None:
    await use(
        rp, api, pageTemplates={"base": "<!doctype html><title>x</title>Own frame {% block content %}{% endblock %}"}
    )
    for path in ("/oauth2/authorize", "/password/forgot"):
        shown = await browser.get(path, params=rp.query())
        assert shown.text.startswith("<!doctype html><title>x</title>Own frame"), path
    assert "code" in response(await rp.submit(browser, await rp.authorize(browser)))


@pytest.mark.parametrize("name", ["/etc/passwd", "../render.py", "/dev/zero", "login.html", "style.css/", ""])
async def test_template_reaches_the_static_files_only(rp: Any, browser: Any, api: Any, name: str) -> None:
    """The path of any other file would reveal a digest of it, and a device would occupy the service forever."""
    await use(rp, api, pageTemplates={"login": f"<p>{{{{ asset('{name}') }}}}</p>"})
    shown = await rp.authorize(browser)
    assert page(shown).forms, "the built-in page is shown"
    await use(rp, api, pageTemplates={"login": "<p>{{ asset('style.css') }}</p>"})
    assert re.fullmatch(r"<p>/static/style-[0-9A-Za-z_-]{16}\.css</p>", (await rp.authorize(browser)).text)


@pytest.mark.parametrize(
    "text", ["{{ nothing }}", "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}"]
)
async def test_failing_template_is_replaced_by_the_built_in_page(rp: Any, browser: Any, api: Any, text: str) -> None:
    theme = await use(rp, api, pageTemplates={"login": text})
    if "nothing" in text:
        assert theme["notices"] == ["The page template [login] uses what does not exist: [nothing]."]
    shown = await rp.authorize(browser)
    assert page(shown).forms
    assert "code" in response(await rp.submit(browser, shown))


async def test_invalid_template_is_refused(api: Any) -> None:
    theme = {"name": new_id(), "pageTemplates": {"login": "a\n{% if %}"}}
    answer = await api.post("/api/theme", json={"theme": theme})
    assert answer.status_code == 400
    (error,) = answer.json()["fieldErrors"]["theme.pageTemplates.login"]
    assert re.match(r"Line 2 of \[theme.pageTemplates.login\]", error["message"])
