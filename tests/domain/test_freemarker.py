"""What templates may hold of FreeMarker: understood as it is meant, or refused by name."""

from __future__ import annotations

import contextlib

import pytest

from identity.domain import template_language as language
from identity.domain.freemarker import FreemarkerError, to_jinja

VALUES = {
    "user": {"firstName": "ada", "fullName": None, "tenantId": "t 1", "langs": ["en", "de"]},
    "state": {"a": "1 2", "client_id": "x"},
    "application": {"oauthConfiguration": {"clientId": "c"}},
    "count": 3,
    "flag": True,
}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("no templates at all ${user.firstName}", "no templates at all ada"),
        ("${(user.fullName)!'you'}", "you"),
        ('${user.fullName!"you"} ${user.unknown!} ${(nobody.unknown)!"-"}|', "you  -|"),
        ("${(application.oauthConfiguration.clientId)!''}", "c"),
        ("${user['firstName']} ${user.langs[0]}", "ada en"),
        ("${user.tenantId?url} ${user.firstName?cap_first} ${user.firstName?upper_case}", "t%201 Ada ADA"),
        ("${'A'?lower_case}${' b '?trim}${user.langs?size}${user.langs?first}${user.langs?last}", "ab2ende"),
        ("${count?c} ${flag?string} ${'<'?html}", "3 true &lt;"),
        ("${'a' + user.firstName + 1}", "aada1"),
        ('${"say \\"hi\\""} ${\'it\\\'s\'}', 'say "hi" it\'s'),
        ("[#if user.firstName??]a[#else]b[/#if]", "a"),
        ("[#if user.fullName??]a[#elseif count == 3 && flag]b[#else]c[/#if]", "b"),
        ("<#if !(user.fullName??) || false>a<#else>b</#if>", "a"),
        ("[#if user.firstName?has_content]a[/#if][#if user.fullName?has_content]b[/#if]", "a"),
        ("[#if count gt 2 && count lte 3 && count != 4 && (count >= 3)]a[/#if]", "a"),
        ("[#if user.firstName = 'ada']a[/#if][#if !flag]b[/#if]", "a"),
        ("[#list user.langs as l]${l};[/#list]", "en;de;"),
        ("[#list state!{} as key, value][#if key != 'client_id']&${key?url}=${value?url}[/#if][/#list]", "&a=1%202"),
        ("[#list nothing!{} as key, value]x[/#list]|", "|"),
        ('[#assign url = "https://e.com/" + user.firstName /]${url}', "https://e.com/ada"),
        ("[#assign a = 1][#if flag][#assign a = 2][/#if]${a}", "2"),
        ('[#setting url_escaping_charset="UTF-8"]a[#-- a comment ${x} [#if] --]b<#-- c -->d', "abd"),
        ("Bug [#1234] <#anchor [/#x] #{x} $5 $x [a]", "Bug [#1234] <#anchor [/#x] #{x} $5 $x [a]"),
        ("{% raw %}${user}{% endraw %} {{ '${x}' }}", "${user} ${x}"),
        ("${true} ${false}", "true false"),
        ("[#if user.langs[0] == 'en']a[/#if] ${(nothing!{})?size} ${'}'}${\"]\"}", "a 0 }]"),
    ],
)
def test_what_is_understood(template, expected) -> None:
    assert language.render(template, VALUES, html=False) == expected


@pytest.mark.parametrize(
    ("template", "line", "message"),
    [
        ("\n[#macro x]", 2, "the directive [#macro] is not understood here; write it in Jinja"),
        ("[/#macro]", 1, "the directive [/#macro] is not understood here; write it in Jinja"),
        ("<#include 'x'>", 1, "the directive [#include] is not understood here; write it in Jinja"),
        ("[#list x]", 1, "a list is written [#list items as item] or [#list map as key, value]"),
        ("[#assign x]", 1, 'an assignment is written [#assign name = "value" /]'),
        (
            "\n\n[#list x as y][#assign z = y][/#list]",
            3,
            "an assignment inside of a list would be forgotten after it; write it differently",
        ),
        ("a\n${", 2, "there is no [}] that ends what begins here"),
        ("${user.firstName", 1, "there is no [}] that ends what begins here"),
        ('${"}', 1, "there is no [}] that ends what begins here"),
        ("a\n[#-- x", 2, "there is no [--]] that ends what begins here"),
        ("[#if x", 1, "there is no []] that ends what begins here"),
        ("${}", 1, "[] is not understood: something is missing at its end"),
        ("${a b}", 1, "[a b] is not understood: unexpected [b]"),
        ("${a.}", 1, "[a.] is not understood: a name is missing"),
        ("${(a}", 1, "[(a] is not understood: a [)] is missing"),
        ("${a[1}", 1, "[a[1] is not understood: a []] is missing"),
        ("${a?eval}", 1, "[a?eval] is not understood: there is no ?eval here"),
        ("${a * 2}", 1, "[a * 2] is not understood: unexpected [*]"),
        ("${?url}", 1, "[?url] is not understood: unexpected [?]"),
        ('${"a${b}"}', 1, '["a${b}"] is not understood: an interpolation inside of a text; join with + instead'),
        ("${" + "(" * 60 + "}", 1, "[" + "(" * 60 + "] is not understood: too many brackets"),
        ("${a" + "!" * 500 + "}", 1, "[a" + "!" * 79 + "] is not understood: it is too long"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused_by_name_with_its_line(template, line, message) -> None:
    with pytest.raises(FreemarkerError) as refused:
        to_jinja(template)
    assert (refused.value.line, refused.value.message) == (line, message)


@pytest.mark.parametrize(
    "before", ["[#if a??]\n[/#if]\n", "[#-- \n\n --]", "${a!\n''\n}", "[#assign x =\n1]", "[#if\n\na??]x[/#if]"]
)
def test_lines_stay_where_they_are(before) -> None:
    with pytest.raises(language.ParseError) as refused:
        language.check(f"{before}{{% if %}}")
    assert refused.value.line == before.count("\n") + 1


@pytest.mark.parametrize(
    "piece",
    ["{{", "{%", "{#", "[#--", "<#--", "[#if ", "{% raw %}", "{%  ", "[#a", "</#", "${a", "$", "{% endraw", "[#"],
)
def test_openings_without_an_end_are_looked_through_once(piece) -> None:
    """A hundred thousand of them: where each cost a look at the rest, nobody would wait for this."""
    with contextlib.suppress(language.ParseError):
        language.check("${x}" + piece * (language.MAXIMUM_TEMPLATE // len(piece) - 4))
