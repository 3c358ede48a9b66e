"""The registration page and the page that completes a profile: their fields, and the errors of the last attempt."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from identity.domain.captcha import captchas
from identity.domain.forms import field_values
from identity.domain.users import self_registration
from identity.domain.users import users as user_rules
from identity.operations.authorization import request_sources
from identity.operations.clients.clients import Client
from identity.operations.login_transactions.login_transactions import AuthenticatedTransaction
from identity.operations.pages.complete_registration_page import MissingFields
from identity.operations.pages.registration_page import FormRejected
from identity.web.endpoint import Reply
from identity.web.hosted import csrf, fields, form_inputs, login, page_theme, profile_inputs, render
from identity.web.hosted.fields import Field, Form
from identity.web.hosted.page_theme import PageTheme
from identity.web.oauth2.oauth_handlers import OAuth2Handler


async def reply(
    handler: OAuth2Handler,
    client: Client,
    given: Mapping[str, str],
    names: list[str],
    *,
    refused: FormRejected | None = None,
    message: str = "",
) -> Reply:
    """Return the registration page, with the values of `given` and the authorization parameters in `names`.

    `message` is the key of a page text.
    """
    theme = await page_theme.load(handler, client.tenant, client.application, given)
    token, cookie = csrf.issue(handler)
    request = request_sources.form_parameters(given)
    name = client.application["name"]
    form = Form(
        action=handler.request.path,
        hidden=[*((key, request[key]) for key in names if key in request), (csrf.FIELD, token)],
        title=theme.fill("register.title", name),
        heading=theme["register.heading"],
        lead=theme.fill("register.lead", name, strong=True),
        submit=theme["register.submit"],
        remember=given.get("rememberDevice") == "true",
        captcha=captchas.find_widget(client.tenant),
        links=[(theme["register.login"], login.url_with_request(handler, "authorize", given, names))],
    )
    form = _with_errors(form, _fields(client, given, theme), refused or FormRejected(), theme)
    return fields.page(form, theme, message=message, redirect_uri=given["redirect_uri"], cookies=[cookie])


async def reply_email_sent(handler: OAuth2Handler, client: Client, given: Mapping[str, str], names: list[str]) -> Reply:
    """Return the page after an email was sent; it is the same for a new address and for one in use."""
    theme = await page_theme.load(handler, client.tenant, client.application, given)
    values = {
        "title": theme["registerSent.title"],
        "heading": theme["registerSent.heading"],
        "text": theme["registerSent.text"],
        "links": [(theme["selfService.login"], login.url_with_request(handler, "authorize", given, names))],
    }
    return render.form("notice.html", values, theme)


async def reply_missing_fields(
    handler: OAuth2Handler,
    page: MissingFields,
    transaction: AuthenticatedTransaction,
    answers: Mapping[str, str],
    *,
    refused: FormRejected | None = None,
    message: str = "",
) -> Reply:
    """Return the page that asks for missing profile data; `answers` are the rejected values.

    `message` is the key of a page text.
    """
    client, given = page.client, transaction.verified_client.given
    theme = await page_theme.load(handler, client.tenant, client.application, earlier=given, user=page.user)
    token, cookie = csrf.issue(handler)
    hidden = {"client_id": client.client_id, "tenantId": client.tenant_id, "intent": transaction.transaction_id}
    name = client.application["name"]
    form = Form(
        action=handler.request.path,
        hidden=[*hidden.items(), (csrf.FIELD, token)],
        title=theme.fill("completeRegistration.title", name),
        heading=theme["completeRegistration.heading"],
        lead=theme.fill("completeRegistration.lead", name, strong=True),
        submit=theme["completeRegistration.submit"],
        notes=[theme.fill("device.signedIn", user_rules.primary_login_id(page.user), strong=True)],
    )
    missing = [profile_inputs.profile_field(field, answers.get(field.name, ""), theme) for field in page.missing.fields]
    given_answers = field_values.read(page.missing.form_fields, answers)
    missing += form_inputs.inputs(page.missing.form_fields, given_answers, theme)
    form = _with_errors(form, missing, refused or FormRejected(), theme)
    return fields.page(form, theme, message=message, redirect_uri=given["redirect_uri"], cookies=[cookie])


def _with_errors(form: Form, form_fields: list[Field], refused: FormRejected, theme: PageTheme) -> Form:
    """Return the form with its fields and the errors of a rejected form."""
    form_fields = fields.with_errors(form_fields, form_inputs.localized(refused.fields, theme), theme)
    messages = fields.general_messages(refused.general, theme)
    messages += fields.messages_without_field(refused.fields, form_fields, theme)
    return dataclasses.replace(form, fields=form_fields, message=" ".join(messages))


def _fields(client: Client, given: Mapping[str, str], theme: PageTheme) -> list[Field]:
    """Return all fields of the registration page with their values; passwords are never returned to the browser."""
    application = client.application
    first, *others = self_registration.page_fields(client.tenant, application)
    hint = given.get("login_hint", "") if first.member == "email" else ""
    hints = fields.password_hints(client.tenant, theme)
    found = [
        profile_inputs.profile_field(first, given.get(first.name, hint), theme),
        Field(self_registration.PASSWORD, theme["register.password"], "password", "new-password", hints=hints),
    ]
    if application["registrationConfiguration"]["confirmPassword"]:
        found.append(Field(self_registration.CONFIRM, theme["register.confirm"], "password", "new-password"))
    return [*found, *(profile_inputs.profile_field(field, given.get(field.name, ""), theme) for field in others)]
