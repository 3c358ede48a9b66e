"""`/account/edit`: signed-in users change their profile, with the application's form if it has one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from identity.call import Call, Document
from identity.domain.forms import field_values
from identity.domain.two_factor import two_factor
from identity.domain.users import users as user_rules
from identity.errors import Invalid, Unavailable, WebhookTransactionFailed
from identity.operations.pages import account_form, accounts, page_messages
from identity.operations.pages.account_form import Edited
from identity.operations.pages.accounts import Account
from identity.web.base_handlers import Route
from identity.web.endpoint import Reply, redirect
from identity.web.hosted import fields, form_inputs
from identity.web.hosted.fields import Field, Form
from identity.web.self_service.account import NO_FEEDBACK, AccountFormHandler, FormFeedback
from identity.web.self_service.page_context import PageContext
from identity.web.self_service.passwords import send_code_buttons


class EditHandler(AccountFormHandler):
    """`/account/edit`: change the profile and the email address."""

    page_path = "/account/edit"

    async def submit(self, call: Call, context: PageContext, account: Account, form: Document) -> Reply:
        """Apply the changes, or send a code that confirms them."""
        try:
            if "methodId" in form:
                await accounts.send_confirmation(self.services, call, account, form["methodId"])
                return await self.page(context, account, form, FormFeedback(message=page_messages.CODE_SENT))
            edited = await self.edit(call, account, form)
        except (Invalid, Unavailable, WebhookTransactionFailed) as error:
            feedback = FormFeedback.of(error)
            if "methodId" in form:
                return await self.page(context, account, form, feedback)
            errors = form_inputs.localized(accounts.without_email_reasons(feedback.errors), context.theme)
            profile = await self.profile_fields(context, account, form)
            return self.edit_page(context, account, profile, dataclasses.replace(feedback, errors=errors))
        return redirect(_url_after_edit(context, edited))

    async def edit(self, call: Call, account: Account, form: Document) -> Edited:
        """Apply the changes of the application's form, else of the profile page without one."""
        form_fields = await account_form.load_fields(self.services, account)
        if form_fields:
            return await account_form.edit(self.services, call, account, form_fields, form)
        return Edited(await accounts.edit(self.services, call, account, form))

    async def page(
        self, context: PageContext, account: Account, given: Document, feedback: FormFeedback = NO_FEEDBACK
    ) -> Reply:
        """Return the form with the current values."""
        return self.edit_page(context, account, await self.profile_fields(context, account), feedback)

    async def profile_fields(
        self, context: PageContext, account: Account, given: Document | None = None
    ) -> list[Field]:
        """Return the fields with the values of a submitted form, else with the current ones."""
        theme = context.theme
        form_fields = await account_form.load_fields(self.services, account)
        if form_fields:
            answers = (
                await account_form.current_answers(self.services, account, form_fields)
                if given is None
                else field_values.read(form_fields, given)
            )
            hints = fields.password_hints(context.tenant, theme)
            return _with_optional_repeats(form_inputs.inputs(form_fields, answers, theme, hints))
        values = accounts.field_values(account) if given is None else given
        editable = accounts.editable_fields(account)
        return [form_inputs.profile_field(field, values.get(field.name, ""), theme) for field in editable]

    def edit_page(
        self, context: PageContext, account: Account, profile: Sequence[Field], feedback: FormFeedback
    ) -> Reply:
        """Return the form with these fields."""
        theme = context.theme
        form = Form(
            title=theme["accountEdit.title"],
            heading=theme["accountEdit.heading"],
            lead=theme.fill("account.lead", user_rules.primary_login_id(account.user), strong=True),
            submit=theme["accountEdit.submit"],
            fields=[*profile, *_confirmation_fields(context, account)],
            buttons=_confirmation_buttons(context, account),
        )
        return self.account_form(context, account, form, feedback)


def _with_optional_repeats(shown: Sequence[Field]) -> list[Field]:
    """Return the inputs, of which blank passwords and repetitions leave the stored values unchanged."""
    return [
        dataclasses.replace(field, is_required=False) if field.name.startswith(field_values.CONFIRM) else field
        for field in form_inputs.with_optional_password(shown)
    ]


def _url_after_edit(context: PageContext, edited: Edited) -> str:
    """Return the URL after a change: the page for the code of a new address, else the account."""
    started = edited.started
    if started is not None and started.one_time_code is not None:
        return context.url(f"/email/verify/{started.id}")
    if edited.has_new_password:
        return context.url("/account", changed="password")
    return context.url("/account", changed="data" if started is None else "email")


def _confirmation_fields(context: PageContext, account: Account) -> list[Field]:
    """Return the field that confirms a new email address."""
    theme = context.theme
    match accounts.confirmation_of(account):
        case "currentPassword":
            label = theme["accountEdit.currentPassword"]
            return [Field("currentPassword", label, "password", "current-password", is_required=False)]
        case "code":
            return [Field("code", theme["accountEdit.code"], "text", "one-time-code", is_required=False)]
    return []


def _confirmation_buttons(context: PageContext, account: Account) -> list[tuple[str, str, str]]:
    """Return a button for each two-factor method whose codes are sent."""
    if accounts.confirmation_of(account) != "code":
        return []
    methods = account.user["twoFactor"]["methods"]
    return send_code_buttons(context, [two_factor.visible_method(method, is_masked=True) for method in methods])


ROUTES = [Route("/account/edit", EditHandler)]
