"""FreeMarker templates: supported constructs are translated, others are rejected with an error."""

from __future__ import annotations

import contextlib

import pytest

from identity.domain.messaging import template_language as language
from identity.domain.messaging.freemarker import FreemarkerError, to_jinja
from identity.domain.messaging.template_budget import ParseError, RenderError

NOW = 1_709_209_800_000
OUTERMOST = "the syntax of a macro is [#macro name parameter other='default'], at top level"
VALUES = {
    "user": {"firstName": "ada", "fullName": None, "tenantId": "t 1", "langs": ["en", "de"]},
    "state": {"a": "1 2", "client_id": "x"},
    "application": {"oauthConfiguration": {"clientId": "c"}},
    "count": 3,
    "flag": True,
}


@pytest.mark.requirement("audit-b5-templates", "core-18-templates-3")
@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("no templates at all ${user.firstName}", "no templates at all ada"),
        ("${(user.fullName)!'you'}", "you"),
        ('${user.fullName!"you"} ${user.unknown!} ${(missing.unknown)!"-"}|', "you  -|"),
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
def test_supported_constructs(template, expected) -> None:
    assert language.render(template, VALUES, html=False) == expected


@pytest.mark.requirement("audit-b5-templates")
@pytest.mark.parametrize(
    ("template", "expected"),
    [
        # Interpolation inside of strings
        ('${"https://e.com/${user.firstName}?t=${user.tenantId?url}"}', "https://e.com/ada?t=t%201"),
        ("[#assign u = \"/${count}?c=${(missing.id)!''}&t=${user.tenantId}\" /]${u}", "/3?c=&t=t 1"),
        ("${'a\\${b}'} ${r'${x}\\n'} ${'\\x41\\n'?trim}", "a${b} ${x}\\n A"),
        ("${'x${\"y${count}\"}z'}", "xy3z"),
        # Assignments: in lists, several at once, of a block; read by Jinja as well
        (
            "[#assign u = 'x' /][#list state as key, value][#assign u = u + '&' + key + '=' + value?url/][/#list]${u}",
            "x&a=1%202&client_id=x",
        ),
        ("[#assign a=1 b='2'][#global c = a + 1]${a}${b}${c}{{ a }}", "1221"),
        ("[#assign a]x${count}[/#assign]${a}${a}", "x3x3"),
        ("[#assign count = count + 1]${count}[#list [9] as count]${count}[/#list]${count}", "494"),
        # Header and white space directives
        ('[#ftl output_format="HTML"]a[#compress]b[/#compress][#t]c<#lt>d[#escape x as x?html]e[/#escape]', "abcde"),
        ("[#ftl/]\na", "\na"),
        # Lists
        ("[#list user.langs as l]${l}[#sep], [/#sep][/#list]", "en, de"),
        ("[#list user.langs as l]${l}[#sep], [/#list]", "en, de"),
        (
            "[#list user.langs as l]${l?index}${l?counter}${l?is_first?c}${l?has_next?then('y', 'n')};[/#list]",
            "01truey;12falsen;",
        ),
        (
            "[#list user.langs as l][#list 1..2 as n]${l_index}${n_index}${l_has_next?c};[/#list][/#list]",
            "00true;01true;10false;11false;",
        ),
        ("[#list user.langs as l]${l?item_parity} [/#list]", "odd even "),
        ("[#list []  as l]x[#else]none[/#list][#list user.langs as l]x[#else]none[/#list]", "nonexx"),
        (
            (
                "[#list user.langs]<[#items as l]${l}[/#items]>[#else]none[/#list]"
                "[#list []]<[#items as l][/#items]>[#else]none[/#list]"
            ),
            "<ende>none",
        ),
        ("[#list state?keys as k]${k} [/#list][#list state?values as v]${v} [/#list]", "a client_id 1 2 x "),
        ("[#list 1..5 as n][#if n == 2][#continue][/#if][#if n == 4][#break][/#if]${n}[/#list]", "13"),
        ("[#list 3..1 as n]${n}[/#list][#list 1..<3 as n]${n}[/#list][#list 0..!2 as n]${n}[/#list]", "3211201"),
        # Switch
        ("[#switch count][#case 1]one[#break][#case 2][#case 3]few[#break][#default]many[/#switch]", "few"),
        ("[#switch user.firstName][#case 'eve']e[#break][#default]other[/#switch]", "other"),
        # Macros
        ("[#macro b url text='go']<${url}|${text}>[/#macro][@b 'x'/][@b url='y' text=count /]", "<x|go><y|3>"),
        ("[#macro box]([#nested])[/#macro][@box]a${count}[@box]b[/@box][/@box][@box/]", "(a3(b))()"),
        ("[#macro m a x='1' y]${a}${x}${(y)!'-'}[/#macro][@m 'q' 'r' 's'/][@m a='q'/]", "qrsq1-"),
        ("[#assign t='g'][#macro m t]${t}[/#macro]${t}[@m 'p'/]<#list 1..2 as i><@m i/></#list>", "gp12"),
        ("mail [@someone] <@other>", "mail [@someone] <@other>"),
        ("[#noparse]${x} [#if][/#noparse]", "${x} [#if]"),
        # Operators
        ("${7 - 2 * 3} ${7 / 2} ${8 / 2} ${7 % 4} ${-count + 10}", "1 3.5 4 3 7"),
        ("[#if !flag || count > 2 && count <= 3]a[/#if][#if !(count == 3)]b[/#if][#if !flag == false]c[/#if]", "ac"),
        (
            "${(count > 2)?then('more', 'less')} ${(user.x!false)?then(1, 2)} ${count?switch(1, 'a', 3, 'c', 'd')}",
            "more 2 c",
        ),
        ("${{'a': 'b'}.a} ${['x', 'y'][1]} ${user.langs?size - 1}", "b y 1"),
        # Built-ins of texts
        ("${'Hello'?contains('ell')?c}${'Hello'?starts_with('H')?c}${'Hello'?ends_with('x')?c}", "truetruefalse"),
        ("${'a-b-c'?replace('-', '+')} ${'a,b'?split(',')?join(' & ')} ${'Hello'?substring(1, 3)}", "a+b+c a & b el"),
        (
            "${'Hello'?uncap_first} ${'hello you'?capitalize} ${'abc'?length} ${'a.b.c'?keep_before('.')}",
            "hello Hello you 3 a",
        ),
        ("${'a.b.c'?keep_after_last('.')} ${'x'?left_pad(3, '0')}|${'x'?right_pad(3)}|", "c 00x|x  |"),
        ("${'www.e.com'?remove_beginning('www.')} ${'e.com'?ensure_starts_with('www.')}", "e.com www.e.com"),
        ("${'a/b c'?url} ${'a/b c'?url('UTF-8')} ${'a/b c'?url_path}", "a%2Fb%20c a%2Fb%20c a/b%20c"),
        ("${'\"<\\n'?js_string}", '\\"\\u003c\\n'),
        (
            (
                "${user.langs?reverse?first} ${user.langs?sort?first} ${user.langs?seq_contains('de')?c}"
                " ${user.langs?seq_index_of('de')}"
            ),
            "de de true 1",
        ),
        (
            (
                "${'x'?is_string?c} ${count?is_number?c} ${flag?is_boolean?c} ${user.langs?is_sequence?c}"
                " ${user?is_hash?c} ${flag?is_number?c}"
            ),
            "true true true true true false",
        ),
        ("${nothing?default('d')} ${nothing?if_exists}|${nothing?exists?c}", "d |false"),
        # Built-ins of numbers, booleans and dates
        (
            "${1234.5?string('#,##0.00')} ${0.256?string('0.#%')} ${5?string('000')} ${1234567?string(',##0')}",
            "1,234.50 25.6% 005 1,234,567",
        ),
        ("${2.50?string('0.##')} ${(-3)?string('0')} ${count?string} ${0.5?string.percent}", "2.5 -3 3 50%"),
        (
            "${flag?string('yes', 'no')} ${(!flag)?string('yes', 'no')} ${'12'?number + 1} ${'true'?boolean?c}",
            "yes no 13 true",
        ),
        (
            "${2.5?round} ${2.5?floor} ${2.1?ceiling} ${(-2)?abs} ${[3, 1]?max} ${[3, 1]?min} ${2.9?int}",
            "3 2 3 2 3 1 2",
        ),
        ("${user.joined?number_to_datetime?string('yyyy-MM-dd HH:mm')}", "2024-02-29 12:30"),
        (
            "${user.joined?number_to_date?string.short} ${user.joined?number_to_datetime?iso_utc}",
            "2/29/24 2024-02-29T12:30:00Z",
        ),
        (
            "${user.birthDate?date('yyyy-MM-dd')?string('d MMMM yyyy')} ${user.birthDate?date}",
            "31 January 2000 Jan 31, 2000",
        ),
        ("${.now?string('yyyy')} ${.now?date?iso('UTC')}", "2024 2024-02-29"),
        ("${'<b>'?no_esc}${'<'?esc}", "<b>&lt;"),
    ],
)
def test_constructs_of_published_templates(template, expected) -> None:
    values = {**VALUES, "user": {**VALUES["user"], "joined": NOW, "birthDate": "2000-01-31"}, language.NOW: NOW}
    assert language.render(template, values, html=False) == expected


@pytest.mark.requirement("audit-b5-templates")
@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("${(user.name)!'&mdash;'} ${(user.name)!'<b>'} ${user.evil}", "&mdash; &lt;b&gt; &lt;i&gt;"),
        ('[#assign u = "/x?a=1&b=${user.evil}"]<a href="${u?html}">', '<a href="/x?a=1&amp;b=&lt;i&gt;">'),
        ("[#macro m t]<b>${t}</b>[#nested][/#macro][@m user.evil]${user.evil}[/@m]", "<b>&lt;i&gt;</b>&lt;i&gt;"),
        ("[#assign a]<b>${user.evil}</b>[/#assign]${a}", "<b>&lt;i&gt;</b>"),
        ("${user.evil?no_esc}", "<i>"),
    ],
)
def test_html_is_escaped(template, expected) -> None:
    assert language.render(template, {"user": {"evil": "<i>"}}, html=True) == expected


@pytest.mark.requirement("audit-b5-templates")
@pytest.mark.parametrize(
    "template",
    [
        "[#macro m][@m/][/#macro][@m/]",
        "[#macro m][@m/][@m/][/#macro][@m/]",
        "[#macro m]" + "x" * 2000 + "[/#macro][#list 1..5000 as i][@m/][/#list]",
        "[#list 1..9000 as i][#assign s][#list 1..9000 as j]" + "x" * 5000 + "[/#list][/#assign][/#list]",
        "[#macro m][#nested][#nested][/#macro]" + "[@m]" * 30 + "x" + "[/@m]" * 30,
        "[#assign s = 'x'][#list 1..9000 as i][#assign s = s + s][/#list]",
        "${'\\''" + "?js_string" * 40 + "}",
        "[#list 1..20000 as i][/#list]",
        "${('x'?left_pad(900, ',') + 'y'?left_pad(900, ','))?replace(',', ',,,,,,,,,,,,')?split(',')?size}",
        "${''?left_pad(999)?replace(' ', '            ')?split('')?size}",
        "${'x'?left_pad(100000)}",
    ],
)
def test_excessive_templates_exceed_the_budget(template) -> None:
    with pytest.raises(RenderError):
        language.render(template, VALUES, html=False)


@pytest.mark.requirement("audit-b5-templates")
@pytest.mark.parametrize(
    "template", ["{% set ftl.v_x = 1 %}{{ ftl.__class__ }}", "{{ ftl }}", "${ftl}", "{{ ftl|tojson }}"]
)
def test_namespace_cannot_be_read(template) -> None:
    with pytest.raises(RenderError):
        language.render(template, VALUES, html=False)


@pytest.mark.requirement("audit-b5-templates")
def test_preview_shows_placeholders() -> None:
    template = "${user.name?js_string} ${user.at?number_to_date?string('yyyy')} [#assign u = \"/${code}\"]${u?html}"
    assert language.render(template, {}, html=True, preview=True) == "${user.name} ${user.at} /${code}"


@pytest.mark.requirement("audit-b5-templates", "core-18-templates-3")
@pytest.mark.parametrize(
    ("template", "line", "message"),
    [
        ("\n[#function x]", 2, "the directive [#function] is not supported; use Jinja instead"),
        ("[#macro x]", 1, "the [/#macro] of a [#macro] is missing"),
        ("\n[#if a]", 2, "the [/#if] of a [#if] is missing"),
        ("[#if a][#macro x][/#macro][/#if]", 1, OUTERMOST),
        ("[#macro x a...][/#macro]", 1, "[a...] is invalid: expected a name"),
        ("[#macro x 'a'][/#macro]", 1, "the parameters ['a'] are invalid"),
        ("[#nested]", 1, "[#nested] is only valid in [#macro], without arguments"),
        ("[#macro x][/#macro][@x a=/]", 1, "[a=] is invalid: the expression is incomplete"),
        ("[#sep]", 1, "[#break], [#continue] and [#sep] are only valid in [#list … as …]"),
        ("[#break]", 1, "[#break], [#continue] and [#sep] are only valid in [#list … as …]"),
        ("[#case 1]", 1, "[#case] and [#default] are only valid directly in [#switch]"),
        (
            "[#switch a][#case 1][#if b][#break][/#if][/#switch]", 1,
            "in [#switch], [#break] is only valid at the end of a [#case]",
        ),
        ("[#else]", 1, "[#else] is only valid in [#if] and [#list]"),
        ("[#items as x]", 1, "[#items as item] is only valid directly in [#list items]"),
        ("[#noparse]", 1, "the closing [/#noparse] is missing"),
        ("${user.name()}", 1, "[user.name()] is invalid: unexpected [(]"),
        ("${f(1)}", 1, "[f(1)] is invalid: [f] is not a function"),
        ("${.vars}", 1, "[.vars] is invalid: .vars is not supported"),
        ("${'${a'}", 1, "['${a'] is invalid: the [}] of an interpolation is missing"),
        ("${a?trim(1)}", 1, "[a?trim(1)] is invalid: ?trim takes at most 0 arguments"),
        ("[/#macro]", 1, "the directive [/#macro] is not supported; use Jinja instead"),
        (
            "<#include 'x'>", 1,
            "[#include] is not supported: templates cannot read files; define macros in the template itself",
        ),
        (
            '[#import "../_helpers.ftl" as helpers/]\n[@helpers.html /]', 1,
            "[#import] is not supported: templates cannot read files; define macros in the template itself",
        ),
        ("[#list x as y z]", 1, "the syntax of a list is [#list items as item] or [#list map as key, value]"),
        ("[#assign x]", 1, "the [/#assign] of a [#assign] is missing"),
        ("[#assign 5]", 1, 'the syntax of an assignment is [#assign name = "value" /]'),
        ("a\n${", 2, "the closing [}] is missing"),
        ("${user.firstName", 1, "the closing [}] is missing"),
        ('${"}', 1, "the closing [}] is missing"),
        ("a\n[#-- x", 2, "the closing [--]] is missing"),
        ("[#if x", 1, "the closing []] is missing"),
        ("${}", 1, "[] is invalid: the expression is incomplete"),
        ("${a b}", 1, "[a b] is invalid: unexpected [b]"),
        ("${a.}", 1, "[a.] is invalid: expected a name"),
        ("${(a}", 1, "[(a] is invalid: expected [)]"),
        ("${a[1}", 1, "[a[1] is invalid: expected []]"),
        ("${a?eval}", 1, "[a?eval] is invalid: ?eval is not supported"),
        ("${a ~ 2}", 1, "[a ~ 2] is invalid: unexpected [~]"),
        ("${?url}", 1, "[?url] is invalid: unexpected [?]"),
        ("${" + "(" * 60 + "}", 1, "[" + "(" * 60 + "] is invalid: too many nested brackets"),
        ("${a" + "!" * 500 + "}", 1, "[a" + "!" * 79 + "] is invalid: the expression is too long"),
    ],
)  # fmt: skip
def test_unsupported_constructs_are_rejected_with_their_line(template, line, message) -> None:
    with pytest.raises(FreemarkerError) as refused:
        to_jinja(template)
    assert (refused.value.line, refused.value.message) == (line, message)


@pytest.mark.requirement("audit-b5-templates", "core-18-templates-3")
@pytest.mark.parametrize(
    "before", ["[#if a??]\n[/#if]\n", "[#-- \n\n --]", "${a!\n''\n}", "[#assign x =\n1]", "[#if\n\na??]x[/#if]"]
)
def test_translation_preserves_line_numbers(before) -> None:
    with pytest.raises(ParseError) as refused:
        language.check(f"{before}{{% if %}}")
    assert refused.value.line == before.count("\n") + 1


@pytest.mark.requirement("audit-b5-templates", "core-18-templates-4")
@pytest.mark.parametrize(
    "piece",
    ["{{", "{%", "{#", "[#--", "<#--", "[#if ", "{% raw %}", "{%  ", "[#a", "</#", "${a", "$", "{% endraw", "[#"],
)
def test_unclosed_constructs_take_linear_time(piece) -> None:
    """There are a hundred thousand of them: a search from each to the end of the text would exceed the timeout."""
    with contextlib.suppress(ParseError):
        language.check("${x}" + piece * (language.MAX_TEMPLATE_CHARACTERS // len(piece) - 4))


@pytest.mark.requirement("audit-b5-templates")
def test_size_of_translation_is_linear() -> None:
    template = "${x" + "?switch(1, 2, 3)" * 40 + "}"
    assert len(to_jinja(template)) < 4 * len(template)
