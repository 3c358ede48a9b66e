"""The built-in mails in every language: complete, escaped, and readable by mail clients without style sheets."""

from __future__ import annotations

import re
import typing

import pytest

from identity.domain.messaging import builtin_mails, mail_templates
from identity.domain.messaging.builtin_mails import BuiltinMail
from identity.domain.objects import catalogues

KINDS = typing.get_args(builtin_mails.Kind)
WITHOUT_LINK = {"administratorChange", "administratorLogin", "loginCode", "phoneChange"}
VALUES = {
    "link": 'https://id.example.com/x?a=1&b="2"',
    "previousEmail": "<b>old@example.com</b>",
    "oneTimeCode": "A1B2C3",
    "verificationOneTimeCode": "A1B2C3",
}


@pytest.mark.parametrize("language", sorted(catalogues.LANGUAGES))
@pytest.mark.parametrize("kind", KINDS)
def test_mail_has_subject_text_and_html_in_the_language(kind, language) -> None:
    rendered = mail_templates.render(builtin_mails.template(BuiltinMail(kind), [language]), VALUES)
    assert rendered.errors == {}
    subject, text, html = (rendered.parts[part] for part in ("subject", "text", "html"))
    assert subject
    assert (VALUES["link"] in text) is (kind not in WITHOUT_LINK)
    assert f'<html lang="{language}" dir="{catalogues.direction(language)}">' in html
    assert html.count("https://id.example.com/x?a=1&amp;b=&#34;2&#34;") + html.count(
        "https://id.example.com/x?a=1&amp;b=&quot;2&quot;"
    ) == (0 if kind in WITHOUT_LINK else 3)
    assert "<b>old" not in html
    assert ("A1B2C3" in text) is ("A1B2C3" in html) is (kind in {"loginCode", "verifyNewEmail"})
    assert not re.search(r"<<|>>|\{0\}|\$\{|\[#", text + html)


@pytest.mark.parametrize(("locales", "language"), [([], "en"), (["de_CH"], "de"), (["xx", "pt"], "pt-BR")])
def test_language_is_the_first_preferred_one_with_a_catalogue(locales, language) -> None:
    html = builtin_mails.template(BuiltinMail("forgotPassword"), locales)["defaultHtmlTemplate"]
    assert f'lang="{language}"' in html


def test_mail_without_a_code_has_no_line_for_it() -> None:
    values = {name: value for name, value in VALUES.items() if name != "verificationOneTimeCode"}
    rendered = mail_templates.render(builtin_mails.template(BuiltinMail("verifyNewEmail"), []), values)
    assert "Your code" not in rendered.parts["text"] + rendered.parts["html"]
