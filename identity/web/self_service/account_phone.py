"""`/account/phone`: signed-in users change their phone number with a code that is sent to the new one."""

from __future__ import annotations

from typing import Final

from identity.call import Call, Document
from identity.domain.two_factor import two_factor
from identity.domain.users import users as user_rules
from identity.errors import Invalid, InvalidRequest, NotFound, Unavailable, WebhookTransactionFailed
from identity.operations.pages import accounts, page_messages
from identity.operations.pages.accounts import Account
from identity.operations.verification import phone_changes
from identity.web.base_handlers import Route
from identity.web.endpoint import Reply, redirect
from identity.web.hosted.fields import Field, Form
from identity.web.self_service.account import NO_FEEDBACK, AccountFormHandler, FormFeedback
from identity.web.self_service.page_context import PageContext
from identity.web.self_service.passwords import send_code_buttons

_AGAIN: Final = "again"
_OTHER: Final = "other"


class PhoneHandler(AccountFormHandler):
    """The form for a new number, then the one for its code."""

    page_path = "/account/phone"

    async def submit(self, call: Call, context: PageContext, account: Account, form: Document) -> Reply:
        """Send a code to a new number, or apply the change with the code."""
        if not accounts.may_change_phone(account):
            raise InvalidRequest("unknown", "Changes of phone numbers are not enabled.")
        try:
            message = await self._apply(call, account, form)
        except (Invalid, Unavailable, WebhookTransactionFailed) as error:
            return await self.page(context, account, form, FormFeedback.of(error))
        except NotFound:
            return await self.page(context, account, {}, FormFeedback(message="verifyOver.heading"))
        if message is None:
            return redirect(context.url("/account", changed="phone"))
        return await self.page(context, account, {}, FormFeedback(message=message))

    async def _apply(self, call: Call, account: Account, form: Document) -> str | None:
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

    async def page(
        self, context: PageContext, account: Account, given: Document, feedback: FormFeedback = NO_FEEDBACK
    ) -> Reply:
        """Return the form for the number, or for the code of a pending change."""
        if not accounts.may_change_phone(account):
            raise InvalidRequest("unknown", "Changes of phone numbers are not enabled.")
        number = await phone_changes.find_number(self.services, account.user)
        form = _code_form(context, number) if number else _number_form(context, account, given)
        errors = [error for error in feedback.errors if error.path != "oneTimeCode"]
        if len(errors) < len(feedback.errors):
            feedback = FormFeedback(errors, feedback.general, page_messages.WRONG_CODE)
        return self.account_form(context, account, form, feedback)


def _number_form(context: PageContext, account: Account, given: Document) -> Form:
    theme = context.theme
    number = Field(phone_changes.PATH, theme["user.phoneNumber"], "tel", "tel", given.get(phone_changes.PATH, ""))
    password = Field("currentPassword", theme["accountPassword.current"], "password", "current-password")
    code = Field("code", theme["twoFactor.code"], "text", "one-time-code")
    uses_code = accounts.confirmation_of(account) == "code"
    methods = account.user["twoFactor"]["methods"] if uses_code else []
    return Form(
        title=theme["accountPhone.heading"],
        heading=theme["accountPhone.heading"],
        lead=theme.fill("account.lead", user_rules.primary_login_id(account.user), strong=True),
        submit=theme["accountPhone.submit"],
        fields=[number, code if uses_code else password],
        notes=[theme["accountPhone.lead"]],
        buttons=send_code_buttons(context, [two_factor.visible_method(method, is_masked=True) for method in methods]),
    )


def _code_form(context: PageContext, number: str) -> Form:
    theme = context.theme
    return Form(
        title=theme["accountPhone.heading"],
        heading=theme["accountPhone.heading"],
        lead=theme.fill("accountPhone.code", number, strong=True),
        submit=theme["accountPhone.verify"],
        fields=[Field("code", theme["twoFactor.code"], "text", "one-time-code")],
        buttons=[(theme["accountPhone.again"], "action", _AGAIN), (theme["accountPhone.other"], "action", _OTHER)],
    )


ROUTES = [Route("/account/phone", PhoneHandler)]
