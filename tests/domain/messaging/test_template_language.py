"""The language of email templates: output, unsupported constructs, and resource limits."""

from __future__ import annotations

import pytest

from identity.domain.messaging import template_language as language
from identity.domain.messaging.template_budget import ParseError, RenderError

VALUES = {
    "user": {
        "firstName": "Ada <b>",
        "active": True,
        "data": {"items": [1, 2, 3], "keys": "k", "big": "x" * 200_000},
        "middleName": None,
        "age": 36,
    },
    "requestData": {"link": "https://e.com/?a=1&b=ä", "map": {"b": 1, "a": 2}},
}


def text(template: str) -> str:
    return language.render(template, VALUES, html=False)


@pytest.mark.requirement("core-18-templates-3")
@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("Hello", "Hello"),
        ("Hello {{ user.firstName }}\n", "Hello Ada <b>\n"),
        ("{{ user['firstName'] }} {{ user.data.items[1] }} {{ user.data.keys }}", "Ada <b> 2 k"),
        ("{{ user.middleName }}|{{ user.active }}|{{ user.age + 1 }}", "|true|37"),
        ("{{ 7 // 2 }}|{{ 7 % 4 }}|{{ -1 }}", "3|3|-1"),
        ("{{ requestData.map }}", '{"b": 1, "a": 2}'),
        ("{% if user.active and not user.middleName %}yes{% else %}no{% endif %}", "yes"),
        ("{% if user.unknown %}yes{% else %}no{% endif %}", "no"),
        ("{% if unknown is defined %}yes{% else %}no{% endif %}", "no"),
        ("{{ user.unknown.deeper|default('there') }}", "there"),
        ("{{ user.middleName|d('none') }} {{ ''|default('blank', true) }}", "none blank"),
        ("{% for x in user.data.items %}{{ loop.index }}:{{ x }}{{ ',' if not loop.last }}{% endfor %}", "1:1,2:2,3:3"),
        ("{% for x in user.data.items if x > 1 %}{{ x }}{% else %}none{% endfor %}", "23"),
        ("{% for x in [] %}{% else %}none{% endfor %}", "none"),
        ("{% for k, v in requestData.map|items %}{{ k }}={{ v }};{% endfor %}", "b=1;a=2;"),
        ("{% for x in range(3) %}{{ x }}{% endfor %}", "012"),
        ("{% set x = 'a' %}{{ x ~ 1 ~ user.age }}{{ x + 'b' }}{{ 'n' + 1 }}", "a136abn1"),
        ("{{ requestData.link|urlencode }}", "https%3A//e.com/%3Fa%3D1%26b%3D%C3%A4"),
        ("{{ 'aXa'|lower }}{{ 'b'|upper }}{{ 'cd'|capitalize }}{{ 'e f'|title }}{{ ' g '|trim }}", "axaBCdE Fg"),
        ("{{ 'abcdef'|truncate(4) }} {{ 'ab'|truncate(4) }} {{ 'abc'|replace('b', 'x') }}", "a... ab axc"),
        ("{{ [3, 1, 2]|sort|join('-') }} {{ [1]|first }}{{ []|first }}{{ [1, 2]|last }}{{ []|last }}", "1-2-3 12"),
        ("{{ user.data.items|length }} {{ '5'|int + 1 }} {{ requestData.map|tojson }}", '3 6 {"b": 1, "a": 2}'),
        ("{{ 'a' in 'abc' }} {{ 1 in [1] }} {{ 'b' in requestData.map }}", "true true true"),
        ("{{ 1 == 1.0 }} {{ 2 > 1 }}", "true true"),
        ("{{ {'a': 1}['a'] }} {{ ('a', 'b')[1] }}", "1 b"),
        ("{% raw %}{{ x }} ${y}{% endraw %}{# nothing #}", "{{ x }} ${y}"),
        ("{{ 5 is odd }} {{ 'x' is string }}", "true true"),
        ("{{ user is mapping }} {{ user.middleName is none }}", "true true"),
    ],
)  # fmt: skip
def test_rendering(template, expected) -> None:
    assert text(template) == expected


def test_html_escapes_values() -> None:
    def html(template: str) -> str:
        return language.render(template, VALUES, html=True)

    assert html("<p>{{ user.firstName }}</p>") == "<p>Ada &lt;b&gt;</p>"
    assert html("<p>${user.firstName}</p>") == "<p>Ada &lt;b&gt;</p>"
    assert html("{{ '<i>' ~ user.firstName }}") == "&lt;i&gt;Ada &lt;b&gt;"
    assert html("{{ '<i>'|safe ~ user.firstName }}") == "<i>Ada &lt;b&gt;"
    assert html("{{ user.firstName|e }}") == "Ada &lt;b&gt;"
    assert html("{{ user.firstName|e|upper }}") == "ADA &amp;LT;B&amp;GT;"
    assert html('<a href="{{ requestData.link }}">') == '<a href="https://e.com/?a=1&amp;b=ä">'


@pytest.mark.requirement("core-18-templates-4")
@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ user.unknown }}", "Line 1: 'unknown' is undefined"),
        ("\n\n{{ unknown.deeper }}", "Line 3: 'unknown.deeper' is undefined"),
        ("{% for x in unknown %}{% endfor %}", "Line 1: 'unknown' is undefined"),
        ("{{ unknown == 1 }}", "Line 1: 'unknown' is undefined"),
        ("{{ unknown + 1 }}", "Line 1: 'unknown' is undefined"),
        ("{{ user.age / 0 }}", "Line 1: division by zero"),
        ("{{ user.age + user.active.x }}", "Line 1: 'x' is undefined"),
        ("{{ 'a' * 10 }}", "Line 1: the operator * is for numbers"),
        ("{{ 'a' % 10 }}", "Line 1: the operator % is for numbers"),
        ("{{ 9223372036854775807 * 2 }}", "Line 1: a number is too large"),
        ("{{ user|items|first == user }}", "Line 1: only texts, numbers and the like can be compared"),
        ("{{ 5|items|first }}", "Line 1: only a map has items"),
        ("{{ range }}", "Line 1: this cannot be shown"),
        ("{{ self }}", "Line 1: this cannot be shown"),
        ("{{ range(10001)|length }}", "Line 1: a range is too long"),
        ("{{ range(9223372036854775807, -9223372036854775807, -1) }}", None),
        ("{{ 'a'|replace('', 'b') }}", "Line 1: a text is too long"),
        ("{{ 5|length }}", "Line 1: object of type 'int' has no len()"),
        ("{{ loop.index }}", "Line 1: 'loop.index' is undefined"),
        ("{% for x in range(2) %}{{ loop.__class__ }}{% endfor %}", None),
        ("{{ user.firstName.upper }}", "Line 1: 'upper' is undefined"),
        ("{{ user.__class__ }}", "Line 1: '__class__' is undefined"),
        ("{{ user['__class__']['__mro__'] }}", "Line 1: '__class__.__mro__' is undefined"),
        ("{{ ''.__class__.__base__ }}", "Line 1: '__class__.__base__' is undefined"),
    ],
)  # fmt: skip
def test_render_errors_have_their_line(template, message) -> None:
    with pytest.raises(RenderError) as failed:
        text(template)
    assert message is None or failed.value.message == message


@pytest.mark.requirement("core-18-templates-4")
@pytest.mark.parametrize(
    ("template", "line"),
    [
        ("{% if %}", 1),
        ("\n{{ user.", 2),
        ("\n\n{% for x in y %}", 3),
        ("{# never ends", 1),
        ("{% include 'x' %}", 1),
        ("{% import 'x' as y %}", 1),
        ("{% from 'x' import y %}", 1),
        ("{% extends 'x' %}", 1),
        ("\n{% block a %}{% endblock %}", 2),
        ("\n{% macro a() %}{% endmacro %}", 2),
        ("{% call a() %}{% endcall %}", 1),
        ("{% filter upper %}{% endfilter %}", 1),
        ("{% set a %}{% endset %}", 1),
        ("{% set a.b = 1 %}", 1),
        ("{% autoescape false %}{% endautoescape %}", 1),
        ("{% for x in y recursive %}{% endfor %}", 1),
        ("\n{{ 2 ** 3 }}", 2),
        ("{{ user.data.big[1:] }}", 1),
        ("{{ user.firstName.upper() }}", 1),
        ("{{ loop.cycle('a') }}", 1),
        ("{{ lipsum() }}", 1),
        ("{{ 'x'|format(1) }}", 1),
        ("{{ user|map(attribute='x') }}", 1),
        ("{{ 'x'|attr('y') }}", 1),
        ("{{ 'x' is sameas 'x' }}", 1),
        ("{{ __ticked }}", 1),
        ("{{ [user, user] }}", 1),
        ("{{ {'a': user} }}", 1),
        ("{% do x %}", 1),
        ("{% break %}", 1),
    ],
)
def test_unsupported_constructs_are_parse_errors(template, line) -> None:
    with pytest.raises(ParseError) as refused:
        language.check(template)
    assert refused.value.line == line
    assert refused.value.message.startswith(f"Line {line}: ")
    with pytest.raises(ParseError):
        text(template)


@pytest.mark.requirement("core-18-templates-4")
@pytest.mark.parametrize(
    "template",
    [
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
        "{{ " + "1 + " * 5000 + "1 }}",
        "{{ " + "[" * 500 + "]" * 500 + " }}",
        "{% for x in user %}" * 30 + "{% endfor %}" * 30,
        "{{ user }}" * 10_001,
        "x" * (language.MAX_TEMPLATE_CHARACTERS + 1),
        "${" + "(" * 5000 + "1" + ")" * 5000 + "}",
        "{{ 0x" + "f" * 5000 + " }}" + "{{ " + "9" * 5000 + " }}",
    ],
    ids=["brackets", "sums", "lists", "loops", "parts", "length", "freemarker", "digits"],
)
def test_excessive_templates_are_parse_errors(template) -> None:
    with pytest.raises(ParseError):
        language.check(template)


@pytest.mark.requirement("core-18-templates-4")
@pytest.mark.parametrize(
    "template",
    [
        "{% for a in range(10000) %}{% for b in range(10000) %}{% endfor %}{% endfor %}",
        "{% for a in range(10000) %}" + "{% if user %}{% endif %}" * 500 + "{% endfor %}",
        "{% for a in range(10000) %}{{ user.data.big }}{% endfor %}",
        "{% for a in range(10000) %}{{ user.data.big|upper|length }}{% endfor %}",
        "{% for a in range(10000) %}{% if user.data.big == user.data.big %}{% endif %}{% endfor %}",
        "{% for a in range(10000) %}{% if 'y' in user.data.big %}{% endif %}{% endfor %}",
        "{% for a in range(9000) %}{% if 'y' in user.data.items %}{% endif %}{% if 1 in user %}{% endif %}{% endfor %}",
        "{% for a in range(10000) %}{{ user.data.big ~ user.data.big }}{% endfor %}",
        "{% for a in range(10000) %}" + "x" * 100 + "{% endfor %}",
        "{{ (user.data.big + user.data.big) + (user.data.big + user.data.big) }}",
        "{{ user.data.big|replace('x', user.data.big) }}",
        "{{ [1, 2]|join(user.data.big) ~ [1, 2, 3]|join(user.data.big) }}",
        "{{ user.data.big }}{{ user.data.big }}{{ user.data.big }}",
    ],
)
def test_excessive_rendering_exceeds_the_budget(template) -> None:
    with pytest.raises(RenderError, match=r"too (much|long)"):
        text(template)


def test_stopped_template_does_not_affect_others() -> None:
    with pytest.raises(RenderError):
        text("{% for a in range(10000) %}{% for b in range(10000) %}{% endfor %}{% endfor %}")
    assert text("{{ user.age }}") == "36"


def test_preview_shows_unknown_values_as_placeholders() -> None:
    template = "{{ a.b }} ${c} {{ d|default('e') }} {% if f %}g{% endif %}{% for h in i %}j{% endfor %} ${'k' + l.m}"
    assert language.render(template, {}, html=False, preview=True) == "${a.b} ${c} e  k${l.m}"
    assert language.render("{{ a }}", {}, html=True, preview=True) == "${a}"
    items = "{% for k, v in state|items %}{{ k }}{% else %}none{% endfor %}"
    assert language.render(items, {}, html=True, preview=True) == "none"


@pytest.mark.parametrize("template", ["\n{{ 1e999 }}", "\n{% if a == -1e999 %}{% endif %}", "\n${1 + 1}{{ [1e400] }}"])
def test_a_number_that_is_infinite_is_refused(template) -> None:
    with pytest.raises(ParseError) as refused:
        language.check(template)
    assert refused.value.message == "Line 2: a number is too large"
