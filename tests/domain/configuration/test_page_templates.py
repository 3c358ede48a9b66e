"""Page templates of themes: what they may do, what they may not, and what the linter names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
import pytest
from jinja2 import meta

from identity.domain.configuration import page_templates
from identity.domain.messaging.template_budget import RenderError
from tests.conftest import ROOT

FOLDER = ROOT / "identity" / "web" / "hosted" / "templates"


class Texts:
    """Stands in for the texts of a page."""

    secret = "no"

    def __getitem__(self, key: str) -> str:
        return f"text of {key}"

    def fill(self, key: str, value: str) -> str:
        return f"{key} {value}"


def render(**sources: str) -> str:
    loader = jinja2.DictLoader({f"{name}.html": text for name, text in sources.items()})
    values = {"texts": Texts(), "name": "<b>", "items": ["x", "y"], "languages": []}
    return page_templates.render(page_templates.PageEnvironment(loader), "login.html", values)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ name }}", "&lt;b&gt;"),
        ('{{ texts["a"] }} {{ texts.fill("b", name) }}', "text of a b &lt;b&gt;"),
        ("{% for each in items %}{{ loop.index }}{{ each | upper }}{% endfor %}", "1X2Y"),
        ("{{ 2 * 3 + 1 }}{{ 'a' ~ 'b' }}", "7ab"),
        ("{% if name == '<b>' and items is sequence %}yes{% endif %}", "yes"),
    ],
)
def test_template_renders_escaped_values(text: str, expected: str) -> None:
    assert not list(page_templates.problems({"pageTemplates": {"login": text}}))
    assert render(login=text) == expected


def test_page_extends_the_frame_of_the_theme() -> None:
    base = "<main>{% block content %}{% endblock %}</main>"
    assert render(base=base, login='{% extends "base.html" %}{% block content %}x{% endblock %}') == "<main>x</main>"


@pytest.mark.parametrize(
    "text",
    [
        "{{ 'a' * 1000000000 }}",
        "{{ 'a'.ljust(1000000000) }}",
        "{{ '{0:1000000000}'.format(1) }}",
        "{% for a in range(10000) %}{% for b in range(10000) %}{{ a }}{% endfor %}{% endfor %}",
        "{% for a in range(100000000) %}{% endfor %}",
        "{{ ''.__class__.__mro__ }}",
        "{{ texts.__init__.__globals__ }}",
        "{{ texts.fill.__func__ }}",
        '{% include "login.html" %}{% include "login.html" %}',
        '{% extends "login.html" %}',
        "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
        "{{ unknown }}",
        "{{ items.append('z') }}",
        "{% set x %}{% for a in range(999) %}long{% endfor %}{% endset %}{% for a in range(999) %}{{ x }}{% endfor %}",
        '{% include "/etc/passwd" %}',
        "{{ 9007199254740991 * 9007199254740991 }}",
    ],
)
@pytest.mark.requirement("console-21")
def test_template_that_does_too_much_or_leaves_the_sandbox_fails(text: str) -> None:
    with pytest.raises(RenderError):
        render(login=text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{% if %}", "Line 1"),
        ("a\n{{ name | safe }}", "No filter named 'safe'"),
        ("{{ 9 ** 9 }}", "[**]"),
        ("{% set a = [name, name] %}", "may hold only texts"),
        ("{{ __charge(-1000000) }}", "is no name"),
        ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "pageTemplates.login"),
        ("{{ name is weird }}", "No test named"),
        ("{% block a %}{% block a %}{% endblock %}{% endblock %}", "Line 1"),
    ],
)
def test_invalid_template_is_refused_with_its_line(text: str, expected: str) -> None:
    (error,) = page_templates.problems({"pageTemplates": {"login": text, "base": "fine"}})
    assert error.path == "theme.pageTemplates.login"
    assert expected in error.message


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("{{ action }}{{ usrname }}", "[usrname]"),
        ('{{ texts["login.heading"] }}{{ texts["login.haeding"] }}{{ texts["own"] }}', '[texts["login.haeding"]]'),
        ('{% extends "base.html" %}{% include "nothing.html" %}{% include "builtin/hidden.html" %}', "[nothing.html]"),
        ("{% for a in offer.buttons %}{{ a }}{% endfor %}{{ asset('style.css') }}", ""),
    ],
)
@pytest.mark.requirement("console-21")
def test_linter_names_what_does_not_exist(text: str, missing: str) -> None:
    theme: dict[str, Any] = {"pageTemplates": {"login": text}, "defaultMessages": "own=mine"}
    found = list(page_templates.notices(theme))
    expected = [f"The page template [login] uses what does not exist: {missing}."] if missing else []
    assert found == expected
    assert list(page_templates.notices({**theme, "type": "simple"})) == []


def values_of(file: Path, environment: jinja2.Environment) -> set[str]:
    tree = environment.parse(file.read_text())
    found = set(meta.find_undeclared_variables(tree))
    for name in filter(None, meta.find_referenced_templates(tree)):
        found |= values_of(FOLDER / name, environment)
    return found - page_templates.COMMON


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.html")), ids=lambda file: str(file.stem))
def test_values_of_every_built_in_page_are_listed(file: Path) -> None:
    assert values_of(file, jinja2.Environment()) == set(page_templates.VALUES[file.stem])


def test_every_listed_page_exists() -> None:
    assert {file.stem for file in FOLDER.glob("*.html")} == set(page_templates.VALUES)
