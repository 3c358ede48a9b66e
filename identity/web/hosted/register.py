"""The registration page: the fields that an application asks for, and what was wrong with the last attempt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from identity.domain.users import self_registration as rules
from identity.domain.users import users
from identity.domain.users.self_registration import RegistrationField
from identity.operations.authorization import request_sources
from identity.operations.clients.clients import Client
from identity.operations.login_transactions.login_transactions import AuthenticatedTransaction
from identity.operations.pages.complete_registration_page import MissingFields
from identity.operations.pages.registration_page import FormRejected
from identity.web.endpoint import Reply
from identity.web.hosted import csrf, fields, login, page_theme, render
from identity.web.hosted.fields import Field, Form
from identity.web.hosted.page_theme import PageTheme
from identity.web.oauth2.oauth_handlers import OAuth2Handler

_INPUTS: Final[Mapping[str, tuple[str, str]]] = {
    "birthDate": ("date", "bday"),
    "email": ("email", "email"),
    "firstName": ("text", "given-name"),
    "fullName": ("text", "name"),
    "lastName": ("text", "family-name"),
    "middleName": ("text", "additional-name"),
    "mobilePhone": ("tel", "tel"),
    "parentEmail": ("email", "off"),
    "phoneNumber": ("tel", "tel"),
    "preferredLanguages": ("select", "language"),
    "username": ("text", "username"),
}
"""Member of a user -> the type of its input, and what browsers know it as."""

LANGUAGES: Final = (
    ("ar", "العربية"), ("bg", "Български"), ("cs", "Čeština"), ("da", "Dansk"), ("de", "Deutsch"), ("el", "Ελληνικά"),
    ("en", "English"), ("es", "Español"), ("et", "Eesti"), ("fi", "Suomi"), ("fr", "Français"), ("he", "עברית"),
    ("hi", "हिन्दी"), ("hr", "Hrvatski"), ("hu", "Magyar"), ("id", "Bahasa Indonesia"), ("it", "Italiano"),
    ("ja", "日本語"), ("ko", "한국어"), ("lt", "Lietuvių"), ("lv", "Latviešu"), ("nl", "Nederlands"), ("no", "Norsk"),
    ("pl", "Polski"), ("pt", "Português"), ("pt_BR", "Português (Brasil)"), ("ro", "Română"), ("ru", "Русский"),
    ("sk", "Slovenčina"), ("sl", "Slovenščina"), ("sv", "Svenska"), ("th", "ไทย"), ("tr", "Türkçe"),
    ("uk", "Українська"), ("vi", "Tiếng Việt"), ("zh", "中文"),
)  # fmt: skip


async def reply(
    handler: OAuth2Handler,
    client: Client,
    given: Mapping[str, str],
    names: list[str],
    *,
    refused: FormRejected | None = None,
    message: str = "",
) -> Reply:
    """The page. `given` are the request's parameters, of which those in `names` are carried along, and the answers.

    `message` is the key of a text that stands above it.
    """
    refused = refused or FormRejected()
    look = await page_theme.load(handler, client.tenant, client.application, given)
    token, cookie = csrf.issue(handler)
    kept = request_sources.form_parameters(given)
    asked = fields.with_errors(_fields(client, given, look), refused.fields, look)
    told = fields.general_messages(refused.general, look) + fields.messages_without_field(refused.fields, asked, look)
    name = client.application["name"]
    form = Form(
        action=handler.request.path,
        hidden=[*((name, kept[name]) for name in names if name in kept), (csrf.FIELD, token)],
        title=look.fill("register.title", name),
        heading=look["register.heading"],
        lead=look.fill("register.lead", name, strong=True),
        submit=look["register.submit"],
        fields=asked,
        message=look[message] if message else " ".join(told),
        remember=given.get("rememberDevice") == "true",
        links=[(look["register.login"], login.url_with_request(handler, "authorize", given, names))],
    )
    all_cookies = [cookie, *page_theme.locale_cookies(handler, given)]
    page = fields.page(form, look, redirect_uri=given["redirect_uri"], cookies=all_cookies)
    return csrf.with_status(page, message)


async def reply_email_sent(handler: OAuth2Handler, client: Client, given: Mapping[str, str], names: list[str]) -> Reply:
    """What is said where a mail says the rest: the same for a new address and for one that is taken."""
    look = await page_theme.load(handler, client.tenant, client.application, given)
    values = {
        "title": look["registerSent.title"],
        "heading": look["registerSent.heading"],
        "text": look["registerSent.text"],
        "links": [(look["selfService.login"], login.url_with_request(handler, "authorize", given, names))],
    }
    return render.form("notice.html", values, look)


async def reply_missing_fields(
    handler: OAuth2Handler,
    page: MissingFields,
    transaction: AuthenticatedTransaction,
    answers: Mapping[str, str],
    *,
    refused: FormRejected | None = None,
    message: str = "",
) -> Reply:
    """The page that asks a user for what an application has to know; `answers` are those that were not good."""
    refused, client, given = refused or FormRejected(), page.client, transaction.verified_client.given
    look = await page_theme.load(handler, client.tenant, client.application, given)
    token, cookie = csrf.issue(handler)
    hidden = {"client_id": client.client_id, "tenantId": client.tenant_id, "intent": transaction.transaction_id}
    shown = [profile_field(asked, answers.get(asked.name, ""), look) for asked in page.questions]
    asked = fields.with_errors(shown, refused.fields, look)
    told = fields.general_messages(refused.general, look) + fields.messages_without_field(refused.fields, asked, look)
    name = client.application["name"]
    form = Form(
        action=handler.request.path,
        hidden=[*hidden.items(), (csrf.FIELD, token)],
        title=look.fill("completeRegistration.title", name),
        heading=look["completeRegistration.heading"],
        lead=look.fill("completeRegistration.lead", name, strong=True),
        submit=look["completeRegistration.submit"],
        fields=asked,
        message=look[message] if message else " ".join(told),
        notes=[look.fill("device.signedIn", users.primary_login_id(page.user), strong=True)],
    )
    reply = fields.page(form, look, redirect_uri=given["redirect_uri"], cookies=[cookie])
    return csrf.with_status(reply, message)


def profile_field(asked: RegistrationField, value: str, look: PageTheme) -> Field:
    """The field of one question."""
    kind, autocomplete = _INPUTS[asked.member]
    choices: tuple[tuple[str, str], ...] = LANGUAGES if kind == "select" else ()
    if choices and value and value not in dict(choices):
        choices = ((value, value), *choices)
    return Field(
        asked.name, look[f"user.{asked.member}"], kind, autocomplete, value, asked.is_required, choices=choices
    )


def _fields(client: Client, given: Mapping[str, str], look: PageTheme) -> list[Field]:
    """Everything that is asked for, with what was answered; a password is never sent back."""
    application = client.application
    first, *others = rules.page_fields(client.tenant, application)
    hint = given.get("login_hint", "") if first.member == "email" else ""
    hints = fields.password_hints(client.tenant["passwordValidationRules"], look)
    found = [
        profile_field(first, given.get(first.name, hint), look),
        Field(rules.PASSWORD, look["register.password"], "password", "new-password", hints=hints),
    ]
    if application["registrationConfiguration"]["confirmPassword"]:
        found.append(Field(rules.CONFIRM, look["register.confirm"], "password", "new-password"))
    return [*found, *(profile_field(asked, given.get(asked.name, ""), look) for asked in others)]
