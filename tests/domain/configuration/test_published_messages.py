"""The published keys of theme messages, and the texts of the pages that they replace."""

from __future__ import annotations

import pytest

from identity.domain.configuration import page_texts, published_messages, themes
from identity.domain.configuration.published_messages import PUBLISHED
from identity.web.hosted.page_theme import PageTheme

PAIRS = [(published, key) for published, keys in PUBLISHED.items() for key in keys]


@pytest.mark.parametrize(("published", "key"), PAIRS)
def test_published_key_replaces_the_text_of_the_pages(published: str, key: str) -> None:
    assert key in page_texts.TEXTS, "the data file names a text that does not exist"
    assert key != published, "a key of the pages replaces its own text anyway"
    theme = PageTheme({"id": "x", "defaultMessages": f"{published}=Of the theme"}, ("de",))
    assert theme[key] == "Of the theme"


def test_data_file_numbers_values_of_texts_that_exist() -> None:
    for key, values in published_messages._TABLE["values"].items():
        assert published_messages.values_of(key).issuperset(values)
    for published, values in published_messages._TABLE["parameters"].items():
        assert all(published_messages.values_of(key).issuperset(values) for key in PUBLISHED[published])


@pytest.mark.parametrize(
    ("messages", "key", "text"),
    [
        ("logged-in-as=You are %s.", "consent.lead", "You are {0}."),
        ("logged-in-as=You are {0}.", "consent.lead", "You are {0}."),
        ("password-length-constraint=%2$s at most, %1$s at least", "passwordRules.length", "{1} at most, {0} at least"),
        ("register-step=Step %d of %d", "form.step", "Step {1} of {2}"),
        ("consent-required-intro=%s asks for", "consent.required", "{0} asks for"),
        ("trust-computer=Trust it for %s days", "twoFactor.trustComputer", "Trust it for {0} days"),
        ("submit=Go\nlogin.submit=Own", "login.submit", "Own"),
        ("login-with-passkey=Second\nwebauthn-button-text=First", "passkey.submit", "First"),
        ("[invalid]code=Wrong", "twoFactor.wrong", "Wrong"),
        ("[invalid]code=Wrong", "[invalid]code", "Wrong"),
        ("email-verification-sent=%s 100% sure", "email-verification-sent", "%s 100% sure"),
    ],
)
def test_parameters_of_a_message_become_those_of_the_page(messages: str, key: str, text: str) -> None:
    assert published_messages.read(messages)[key] == text


@pytest.mark.parametrize("message", ["submit=Go %s", "[LinkCountExceeded]=Limit of %d", "register-step=%d of %d of %d"])
def test_message_with_a_value_that_the_page_does_not_have_is_not_shown(message: str) -> None:
    key = message.partition("=")[0]
    shown = published_messages.read(message)
    assert not [each for each in (key, *PUBLISHED.get(key, ())) if each in page_texts.TEXTS and each in shown]
    assert themes.unused_messages({"defaultMessages": message}) == [key]


def test_localized_messages_win_over_default_messages() -> None:
    theme = {"defaultMessages": "login.submit=Default", "localizedMessages": {"de": "submit=Los"}}
    assert themes.resolve_texts(theme, ("de",))[1]["login.submit"] == "Los"
    assert themes.resolve_texts(theme, ("en",))[1]["login.submit"] == "Default"


def test_published_key_wins_over_default_messages_that_repeat_the_built_in_text() -> None:
    copied = f"{themes.default_theme()['defaultMessages']}submit=Go\n"
    assert themes.resolve_texts({"defaultMessages": copied}, ("de",))[1]["login.submit"] == "Go"
    assert "login.heading" not in themes.resolve_texts({"defaultMessages": copied}, ("de",))[1]


@pytest.mark.parametrize(
    "key",
    [
        "login.submit",
        "submit",
        "{scope-message}email",
        "[{tenant}x]{scope-detail}email",
        "user.data.color",
        "[blank]user.data.color",
        "[blank]registration.data.color",
        "confirm.user.password",
        "[breachedExactMatch]password",
    ],
)
def test_message_that_a_page_can_show_is_used(key: str) -> None:
    assert list(published_messages.unused_keys({key: "x"})) == []


def test_message_of_a_page_template_of_the_theme_is_used() -> None:
    messages = "help=Help\nnote=Note"
    templates = {"login": '{% extends "builtin/login.html" %}{% block title %}{{ texts["help"] }}{% endblock %}'}
    assert themes.unused_messages({"defaultMessages": messages, "pageTemplates": templates}) == ["note"]
    simple = {"type": "simple", "defaultMessages": messages, "pageTemplates": templates}
    assert themes.unused_messages(simple) == ["help", "note"]
    many = {"defaultMessages": "".join(f"unknown-{number}=x\n" for number in range(12))}
    assert any(notice.endswith("; check-config lists all of them.") for notice in themes.notices(many))
