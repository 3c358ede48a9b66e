"""`/account/edit`, `/account/phone`, `/account/data` and `/account/delete`: signed-in users change their account.

The profile is that of the application's form, if it has one. The phone number changes with a code that is sent to the
new one. Users download their data, and delete their account if the tenant allows it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

import orjson

from identity.call import Call, Document
from identity.domain.forms import field_values
from identity.domain.two_factor import two_factor
from identity.domain.users import users as user_rules
from identity.errors import Invalid, InvalidRequest, NotFound, Unavailable, WebhookTransactionFailed
from identity.operations.pages import account_form, accounts, page_messages
from identity.operations.sessions import sso_sessions
from identity.operations.verification import phone_changes
from identity.web.base_handlers import Route
from identity.web.endpoint import Reply, redirect
from identity.web.hosted import fields
from identity.web.hosted.fields import Field, Form, form_texts
from identity.web.self_service.account import NO_FEEDBACK, AccountContext, AccountFormHandler, FormFeedback
from identity.web.self_service.passwords import send_code_buttons

_AGAIN: Final = "again"
_OTHER: Final = "other"
_DATA_PATH: Final = "/account/data"
_DELETE_PATH: Final = "/account/delete"
_FILE_HEADERS: Final = {
    "Content-Type": "application/json",
    "Content-Disposition": 'attachment; filename="account.json"',
}


class EditHandler(AccountFormHandler):
    """`/account/edit`: change the profile and the email address."""

    page_path = "/account/edit"

    async def submit(self, call: Call, context: AccountContext, form: Document) -> Reply:
        """Apply the changes, or send a code that confirms them."""
        try:
            if "methodId" in form:
                await accounts.send_confirmation(self.services, call, context.account, form["methodId"])
                return await self.page(context, form, FormFeedback(message=page_messages.CODE_SENT))
            edited = await self.edit(call, context.account, form)
        except (Invalid, Unavailable, WebhookTransactionFailed) as error:
            feedback = FormFeedback.of(error)
            if "methodId" in form:
                return await self.page(context, form, feedback)
            errors = fields.localized(accounts.without_email_reasons(feedback.errors), context.theme)
            profile = await self.profile_fields(context, form)
            return self.edit_page(context, profile, dataclasses.replace(feedback, errors=errors))
        return redirect(_url_after_edit(context, edited))

    async def edit(self, call: Call, account: accounts.Account, form: Document) -> account_form.Edited:
        """Apply the changes of the application's form, else of the profile page without one."""
        form_fields = await account_form.load_fields(self.services, account)
        if form_fields:
            return await account_form.edit(self.services, call, account, form_fields, form)
        return account_form.Edited(await accounts.edit(self.services, call, account, form))

    async def page(self, context: AccountContext, given: Document, feedback: FormFeedback = NO_FEEDBACK) -> Reply:
        """Return the form with the current values."""
        return self.edit_page(context, await self.profile_fields(context), feedback)

    async def profile_fields(self, context: AccountContext, given: Document | None = None) -> list[Field]:
        """Return the fields with the values of a submitted form, else with the current ones."""
        theme = context.theme
        form_fields = await account_form.load_fields(self.services, context.account)
        if form_fields:
            answers = (
                await account_form.current_answers(self.services, context.account, form_fields)
                if given is None
                else field_values.read(form_fields, given)
            )
            hints = fields.password_hints(context.tenant, theme)
            return _with_optional_repeats(fields.inputs(form_fields, answers, theme, hints))
        values = accounts.field_values(context.account) if given is None else given
        editable = accounts.editable_fields(context.account)
        return [fields.profile_field(field, values.get(field.name, ""), theme) for field in editable]

    def edit_page(self, context: AccountContext, profile: Sequence[Field], feedback: FormFeedback) -> Reply:
        """Return the form with these fields."""
        theme = context.theme
        lead = theme.fill("account.lead", user_rules.primary_login_id(context.account.user), strong=True)
        form = Form(
            **form_texts(theme, "accountEdit", lead),
            fields=[*profile, *_confirmation_fields(context)],
            buttons=_confirmation_buttons(context),
        )
        return self.account_form(context, form, feedback)


class PhoneHandler(AccountFormHandler):
    """The form for a new number, then the one for its code."""

    page_path = "/account/phone"

    async def submit(self, call: Call, context: AccountContext, form: Document) -> Reply:
        """Send a code to a new number, or apply the change with the code."""
        if not accounts.may_change_phone(context.account):
            raise InvalidRequest("unknown", "Changes of phone numbers are not enabled.")
        try:
            message = await self._apply(call, context.account, form)
        except (Invalid, Unavailable, WebhookTransactionFailed) as error:
            return await self.page(context, form, FormFeedback.of(error))
        except NotFound:
            return await self.page(context, {}, FormFeedback(message="verifyOver.heading"))
        if message is None:
            return redirect(context.url("/account", changed="phone"))
        return await self.page(context, {}, FormFeedback(message=message))

    async def _apply(self, call: Call, account: accounts.Account, form: Document) -> str | None:
        """Apply the form; return the key of a page text for the next page, None after the change."""
        services, client, user = self.services, account.client, account.user
        call = call.within(client.tenant_id)
        if "methodId" in form:
            await accounts.send_confirmation(services, call, account, form["methodId"])
            return page_messages.CODE_SENT
        number = await phone_changes.find_number(services, user)
        if number and form.get("action") == _OTHER:
            await phone_changes.cancel(services, user)
            return ""
        if number and form.get("action") == _AGAIN:
            await phone_changes.start(services, call, client.tenant, user, number)
            return page_messages.CODE_SENT
        if number:
            await phone_changes.complete(services, call, client, user, form.get("code", "").strip())
            return None
        await accounts.request_phone_change(services, call, account, form)
        return ""

    async def page(self, context: AccountContext, given: Document, feedback: FormFeedback = NO_FEEDBACK) -> Reply:
        """Return the form for the number, or for the code of a pending change."""
        if not accounts.may_change_phone(context.account):
            raise InvalidRequest("unknown", "Changes of phone numbers are not enabled.")
        number = await phone_changes.find_number(self.services, context.account.user)
        form = _code_form(context, number) if number else _number_form(context, given)
        errors = [error for error in feedback.errors if error.path != "oneTimeCode"]
        if len(errors) < len(feedback.errors):
            feedback = FormFeedback(errors, feedback.general, page_messages.WRONG_CODE)
        return self.account_form(context, form, feedback)


class DataHandler(AccountFormHandler):
    """The download of the user's data."""

    page_path = _DATA_PATH

    async def page(self, context: AccountContext, given: Document, feedback: FormFeedback = NO_FEEDBACK) -> Reply:
        """Return the page with the button."""
        theme = context.theme
        form = Form(
            **form_texts(theme, "accountData"),
        )
        return self.account_form(context, form, feedback)

    async def submit(self, call: Call, context: AccountContext, form: Document) -> Reply:
        """Return the data as a file."""
        try:
            data = await accounts.export(self.services, call, context.account)
        except Unavailable as error:
            return await self.page(context, form, FormFeedback.of(error))
        return Reply(orjson.dumps(data, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS), headers=_FILE_HEADERS)


class DeleteHandler(AccountFormHandler):
    """The deletion of the account, if the tenant allows it."""

    page_path = _DELETE_PATH

    async def page(self, context: AccountContext, given: Document, feedback: FormFeedback = NO_FEEDBACK) -> Reply:
        """Return the form with the field that confirms the deletion. Raises NotFound if the tenant forbids it."""
        if not accounts.may_delete(context.account):
            raise NotFound(log_detail="the tenant does not let users delete their accounts")
        theme, name = context.theme, accounts.confirmation_field(context.account)
        if name == accounts.CONFIRMATION:
            login_id = user_rules.primary_login_id(context.account.user)
            field = Field(name, str(theme.fill("accountDelete.confirm", login_id)), "text", "off", is_focused=True)
        else:
            field = Field(name, theme["accountPassword.current"], "password", "current-password", is_focused=True)
        form = Form(
            **form_texts(theme, "accountDelete"),
            fields=[field],
            is_dangerous=True,
            links=[(theme["account.data"], context.url(_DATA_PATH))],
        )
        return self.account_form(context, form, feedback)

    async def submit(self, call: Call, context: AccountContext, form: Document) -> Reply:
        """Delete the account, and confirm it."""
        if not accounts.may_delete(context.account):
            raise NotFound(log_detail="the tenant does not let users delete their accounts")
        try:
            await accounts.delete(self.services, call, context.account, form)
        except (Invalid, WebhookTransactionFailed) as error:
            return await self.page(context, form, FormFeedback.of(error))
        cookie = self.new_cookie(sso_sessions.COOKIE, "", 0)
        return dataclasses.replace(self.notice(context, "accountDeleted"), cookies=[cookie])


def _with_optional_repeats(shown: Sequence[Field]) -> list[Field]:
    """Return the inputs, of which blank passwords and repetitions leave the stored values unchanged."""
    return [
        dataclasses.replace(field, is_required=False) if field.name.startswith(field_values.CONFIRM) else field
        for field in fields.with_optional_password(shown)
    ]


def _url_after_edit(context: AccountContext, edited: account_form.Edited) -> str:
    """Return the URL after a change: the page for the code of a new address, else the account."""
    started = edited.started
    if started is not None and started.one_time_code is not None:
        return context.url(f"/email/verify/{started.id}")
    if edited.has_new_password:
        return context.url("/account", changed="password")
    return context.url("/account", changed="data" if started is None else "email")


def _confirmation_fields(context: AccountContext) -> list[Field]:
    """Return the field that confirms a new email address."""
    theme = context.theme
    match accounts.confirmation_of(context.account):
        case "currentPassword":
            label = theme["accountEdit.currentPassword"]
            return [Field("currentPassword", label, "password", "current-password", is_required=False)]
        case "code":
            return [Field("code", theme["accountEdit.code"], "text", "one-time-code", is_required=False)]
    return []


def _confirmation_buttons(context: AccountContext) -> list[tuple[str, str, str]]:
    """Return a button for each two-factor method whose codes are sent."""
    if accounts.confirmation_of(context.account) != "code":
        return []
    methods = context.account.user["twoFactor"]["methods"]
    return send_code_buttons(context, [two_factor.visible_method(method, is_masked=True) for method in methods])


def _number_form(context: AccountContext, given: Document) -> Form:
    theme = context.theme
    number = Field(phone_changes.PATH, theme["user.phoneNumber"], "tel", "tel", given.get(phone_changes.PATH, ""))
    password = Field("currentPassword", theme["accountPassword.current"], "password", "current-password")
    code = Field("code", theme["twoFactor.code"], "text", "one-time-code")
    uses_code = accounts.confirmation_of(context.account) == "code"
    return Form(
        title=theme["accountPhone.heading"],
        heading=theme["accountPhone.heading"],
        lead=theme.fill("account.lead", user_rules.primary_login_id(context.account.user), strong=True),
        submit=theme["accountPhone.submit"],
        fields=[number, code if uses_code else password],
        notes=[theme["accountPhone.lead"]],
        buttons=_confirmation_buttons(context),
    )


def _code_form(context: AccountContext, number: str) -> Form:
    theme = context.theme
    return Form(
        title=theme["accountPhone.heading"],
        heading=theme["accountPhone.heading"],
        lead=theme.fill("accountPhone.code", number, strong=True),
        submit=theme["accountPhone.verify"],
        fields=[Field("code", theme["twoFactor.code"], "text", "one-time-code")],
        buttons=[(theme["accountPhone.again"], "action", _AGAIN), (theme["accountPhone.other"], "action", _OTHER)],
    )


ROUTES = [
    Route("/account/edit", EditHandler),
    Route("/account/phone", PhoneHandler),
    Route(_DATA_PATH, DataHandler),
    Route(_DELETE_PATH, DeleteHandler),
]
