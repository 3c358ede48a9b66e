"""Every filter, test and function that templates get: what it returns, and that no input makes it run without bound."""

from __future__ import annotations

import datetime
from typing import Any

import jinja2
import pytest

from identity.domain.configuration import page_templates
from identity.domain.messaging import template_language
from identity.domain.messaging.template_budget import RenderError

NOON = int(datetime.datetime(2026, 1, 2, 12, 30, 45, tzinfo=datetime.UTC).timestamp() * 1000)
VALUES: dict[str, Any] = {
    "text": "Ada Lovelace", "html": "<b>&", "number": 2.5, "list": ["b", "a"], "map": {"k": "v"}, "none": None,
    "rows": [{"n": "b"}, {"n": "A"}], "noon": NOON, "yes": True,
}  # fmt: skip

FILTERS = {
    "absolute": ("{{ -2|absolute }}", "2"),
    "boolean": ("{{ 'true'|boolean }}", "true"),
    "cap_first": ("{{ 'ada b'|cap_first }}", "Ada b"),
    "capitalize": ("{{ 'ADA'|capitalize }}", "Ada"),
    "ceiling": ("{{ number|ceiling }}", "3"),
    "choose": ("{{ 1|choose(1, 'one', 'other') }}", "one"),
    "contains": ("{{ text|contains('Love') }}", "true"),
    "d": ("{{ nothing|d('x') }}", "x"),
    "default": ("{{ none|default('x') }}", "x"),
    "e": ("{{ html|e }}", "&lt;b&gt;&amp;"),
    "ends_with": ("{{ text|ends_with('lace') }}", "true"),
    "ensure_ends_with": ("{{ 'a'|ensure_ends_with('/') }}", "a/"),
    "ensure_starts_with": ("{{ 'a'|ensure_starts_with('/') }}", "/a"),
    "escape": ("{{ html|escape }}", "&lt;b&gt;&amp;"),
    "escape_javascript": ("{{ '</a>'|escape_javascript }}", "\\u003c/a\\u003e"),
    "first": ("{{ list|first }}", "b"),
    "floor": ("{{ number|floor }}", "2"),
    "has_content": ("{{ ''|has_content }}", "false"),
    "index_of": ("{{ text|index_of('L') }}", "4"),
    "int": ("{{ '7'|int }}", "7"),
    "is_boolean": ("{{ yes|is_boolean }}", "true"),
    "is_hash": ("{{ map|is_hash }}", "true"),
    "is_number": ("{{ number|is_number }}", "true"),
    "is_present": ("{{ nothing|is_present }}", "false"),
    "is_sequence": ("{{ list|is_sequence }}", "true"),
    "is_text": ("{{ text|is_text }}", "true"),
    "items": ("{% for k, v in map|items %}{{ k }}{{ v }}{% endfor %}", "kv"),
    "join": ("{{ list|join('-') }}", "b-a"),
    "keep_after": ("{{ 'a.b.c'|keep_after('.') }}", "b.c"),
    "keep_after_last": ("{{ 'a.b.c'|keep_after_last('.') }}", "c"),
    "keep_before": ("{{ 'a.b.c'|keep_before('.') }}", "a"),
    "keep_before_last": ("{{ 'a.b.c'|keep_before_last('.') }}", "a.b"),
    "keys": ("{{ map|keys|join }}", "k"),
    "last": ("{{ list|last }}", "a"),
    "last_index_of": ("{{ 'aba'|last_index_of('a') }}", "2"),
    "left_pad": ("{{ 'a'|left_pad(3, '.') }}", "..a"),
    "length": ("{{ text|length }}", "12"),
    "literal": ("{{ 'a'|literal }}", "a"),
    "lower": ("{{ 'ADA'|lower }}", "ada"),
    "maximum": ("{{ list|maximum }}", "b"),
    "minimum": ("{{ list|minimum }}", "a"),
    "number": ("{{ '3'|number }}", "3"),
    "range_to": ("{{ 1|range_to(3, false)|join }}", "123"),
    "remove_beginning": ("{{ 'ab'|remove_beginning('a') }}", "b"),
    "remove_ending": ("{{ 'ab'|remove_ending('b') }}", "a"),
    "replace": ("{{ 'aXa'|replace('X', '-') }}", "a-a"),
    "reversed": ("{{ list|reversed|join }}", "ab"),
    "right_pad": ("{{ 'a'|right_pad(3, '.') }}", "a.."),
    "rounded": ("{{ number|rounded }}", "3"),
    "safe": ("{{ '<b>'|safe }}", "<b>"),
    "sequence_contains": ("{{ list|sequence_contains('a') }}", "true"),
    "sort": ("{{ list|sort|join }}", "ab"),
    "sort_by": ("{% for row in rows|sort_by('n') %}{{ row.n }}{% endfor %}", "Ab"),
    "split": ("{{ 'a,b'|split(',')|join('-') }}", "a-b"),
    "starts_with": ("{{ text|starts_with('Ada') }}", "true"),
    "string": ("{{ number|string }}", "2.5"),
    "substring": ("{{ text|substring(4, 8) }}", "Love"),
    "title": ("{{ 'ada b'|title }}", "Ada B"),
    "to_date": ("{{ noon|to_date }}", "Jan 2, 2026"),
    "to_datetime": ("{{ noon|to_datetime|to_iso }}", "2026-01-02T12:30:45Z"),
    "to_iso": ("{{ noon|to_iso }}", "2026-01-02T12:30:45Z"),
    "to_text": ("{{ number|to_text('0.00') }}", "2.50"),
    "to_time": ("{{ noon|to_time|to_iso }}", "12:30:45Z"),
    "tojson": ("{{ list|tojson }}", '["b", "a"]'),
    "trim": ("{{ ' a '|trim }}", "a"),
    "truncate": ("{{ text|truncate(6) }}", "Ada..."),
    "uncap_first": ("{{ 'Ada'|uncap_first }}", "ada"),
    "upper": ("{{ 'ada'|upper }}", "ADA"),
    "url_all": ("{{ 'a/b'|url_all }}", "a%2Fb"),
    "urlencode": ("{{ 'a b'|urlencode }}", "a%20b"),
    "values": ("{{ map|values|join }}", "v"),
    "whole": ("{{ 2.0|whole }}", "2"),
}
"""Filter -> template that uses it, and its output."""

TESTS = {
    "boolean": ("{{ yes is boolean }}", "true"),
    "defined": ("{{ nothing is defined }}", "false"),
    "divisibleby": ("{{ 4 is divisibleby(2) }}", "true"),
    "even": ("{{ 4 is even }}", "true"),
    "false": ("{{ yes is false }}", "false"),
    "float": ("{{ number is float }}", "true"),
    "integer": ("{{ 4 is integer }}", "true"),
    "iterable": ("{{ list is iterable }}", "true"),
    "mapping": ("{{ map is mapping }}", "true"),
    "none": ("{{ none is none }}", "true"),
    "number": ("{{ number is number }}", "true"),
    "odd": ("{{ 4 is odd }}", "false"),
    "sequence": ("{{ list is sequence }}", "true"),
    "string": ("{{ text is string }}", "true"),
    "true": ("{{ yes is true }}", "true"),
    "undefined": ("{{ nothing is undefined }}", "true"),
}
"""Test -> template that uses it, and its output."""

FUNCTIONS = {"range", "__charge", "__compared", "__items", "__searched"}
"""The functions of every template; those with underscores are called by rewritten templates only."""

PAGE_FILTERS = {
    "cap_first", "capitalize", "d", "default", "e", "escape", "first", "join", "last", "length", "lower", "replace",
    "string", "title", "trim", "upper",
}  # fmt: skip


def mail_environment() -> jinja2.Environment:
    return template_language._environment(html=True, preview=False)


def page(text: str, values: dict[str, Any]) -> str:
    environment = page_templates.PageEnvironment(jinja2.DictLoader({"page.html": text}))
    return page_templates.render(environment, "page.html", values)


def test_every_filter_test_and_function_of_mails_has_a_row() -> None:
    environment = mail_environment()
    assert set(environment.filters) == set(FILTERS)
    assert set(environment.tests) == set(TESTS)
    assert set(environment.globals) == FUNCTIONS


def test_pages_have_fewer_filters_and_the_same_tests_and_functions() -> None:
    environment = page_templates.PageEnvironment()
    assert set(environment.filters) == PAGE_FILTERS < set(FILTERS)
    assert set(environment.tests) == set(TESTS)
    assert set(environment.globals) == FUNCTIONS


@pytest.mark.parametrize(("text", "expected"), [*FILTERS.values(), *TESTS.values()], ids=[*FILTERS, *TESTS])
def test_result_in_a_mail(text: str, expected: str) -> None:
    assert template_language.render(text, VALUES, html=True) == expected


@pytest.mark.parametrize("name", sorted(PAGE_FILTERS))
def test_result_on_a_page(name: str) -> None:
    text, expected = FILTERS[name]
    if "nothing" not in text:
        assert page(text, VALUES) == expected


LONG = "aB <&\u00e9" * 30_000
ARGUMENTS = {
    "choose": "1, 2", "contains": "'zz'", "ends_with": "'zz'", "ensure_ends_with": "'zz'", "ensure_starts_with": "'zz'",
    "index_of": "'zz'", "keep_after": "'zz'", "keep_after_last": "'zz'", "keep_before": "'zz'",
    "keep_before_last": "'zz'", "last_index_of": "'zz'", "left_pad": "1000", "range_to": "5, false",
    "remove_beginning": "'zz'", "remove_ending": "'zz'", "replace": "'a', 'zz'", "right_pad": "1000",
    "sequence_contains": "'zz'", "sort_by": "'n'", "split": "' '", "starts_with": "'zz'", "substring": "1",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(FILTERS))
def test_repeated_filter_of_a_long_value_exceeds_the_budget(name: str) -> None:
    """Otherwise a template of a hundred characters could occupy the service for minutes."""
    call = f"{name}({ARGUMENTS[name]})" if name in ARGUMENTS else name
    text = f"{{% for i in range(9999) %}}{{% for j in range(9999) %}}{{% if (long|{call}) is none %}}{{% endif %}}"
    with pytest.raises(RenderError):
        template_language.render(f"{text}{{% endfor %}}{{% endfor %}}", {"long": LONG}, html=True)


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__ }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ range.__globals__ }}",
        "{{ text.format(1) }}",
        "{{ '{:>2000000000}'.format(text) }}",
        "{{ '{0:>2000000000}'.format_map(map) }}",
        "{{ '{0.__class__}'.format(text) }}",
        "{{ text * 1000000 }}",
        "{{ 'x'|format }}",
        "{{ lipsum(1000) }}",
        "{{ cycler }}",
        "{{ joiner }}",
        "{{ dict }}",
        "{{ self.__init__ }}",
        "{{ open('/etc/passwd') }}",
        "{% include '/etc/passwd' %}",
        "{% include '../../page_files.py' %}",
        "{% extends '/etc/passwd' %}",
        "{% import '/etc/passwd' as x %}",
        "{% include 'page.html' %}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% for x in list recursive %}{{ loop(list) }}{% endfor %}",
    ],
)
def test_nothing_reaches_files_python_or_endless_work(text: str) -> None:
    """In a mail such a template is refused or fails; a page that fails is replaced by the built-in one."""
    with pytest.raises((RenderError, template_language.ParseError)):
        template_language.render(text, VALUES, html=True)
    with pytest.raises(RenderError):
        page(text, VALUES)
