"""`/account/data` and `/account/delete`: users download their data and delete their account."""

from __future__ import annotations

import dataclasses
from typing import Final

import orjson

from identity.call import Call, Document
from identity.domain.users import users as user_rules
from identity.errors import Invalid, NotFound, WebhookTransactionFailed
from identity.operations.pages import account_data
from identity.operations.sessions import sso_sessions
from identity.web.base_handlers import Route
from identity.web.endpoint import Reply
from identity.web.hosted.fields import Field, Form, form_texts
from identity.web.self_service.account import NO_FEEDBACK, AccountContext, AccountFormHandler, FormFeedback

DATA_PATH: Final = "/account/data"
DELETE_PATH: Final = "/account/delete"
_FILE_HEADERS: Final = {
    "Content-Type": "application/json",
    "Content-Disposition": 'attachment; filename="account.json"',
}


class DataHandler(AccountFormHandler):
    """The download of the user's data."""

    page_path = DATA_PATH

    async def page(self, context: AccountContext, given: Document, feedback: FormFeedback = NO_FEEDBACK) -> Reply:
        """Return the page with the button."""
        theme = context.theme
        form = Form(
            **form_texts(theme, "accountData"),
        )
        return self.account_form(context, form, feedback)

    async def submit(self, call: Call, context: AccountContext, form: Document) -> Reply:
        """Return the data as a file."""
        data = await account_data.export(self.services, call, context.account)
        return Reply(orjson.dumps(data, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS), headers=_FILE_HEADERS)


class DeleteHandler(AccountFormHandler):
    """The deletion of the account, if the tenant allows it."""

    page_path = DELETE_PATH

    async def page(self, context: AccountContext, given: Document, feedback: FormFeedback = NO_FEEDBACK) -> Reply:
        """Return the form with the field that confirms the deletion. Raises NotFound if the tenant forbids it."""
        if not account_data.may_delete(context.account):
            raise NotFound(log_detail="the tenant does not let users delete their accounts")
        theme, name = context.theme, account_data.confirmation_field(context.account)
        if name == account_data.CONFIRMATION:
            login_id = user_rules.primary_login_id(context.account.user)
            field = Field(name, str(theme.fill("accountDelete.confirm", login_id)), "text", "off", is_focused=True)
        else:
            field = Field(name, theme["accountPassword.current"], "password", "current-password", is_focused=True)
        form = Form(
            **form_texts(theme, "accountDelete"),
            fields=[field],
            is_dangerous=True,
            links=[(theme["account.data"], context.url(DATA_PATH))],
        )
        return self.account_form(context, form, feedback)

    async def submit(self, call: Call, context: AccountContext, form: Document) -> Reply:
        """Delete the account, and confirm it."""
        if not account_data.may_delete(context.account):
            raise NotFound(log_detail="the tenant does not let users delete their accounts")
        try:
            await account_data.delete(self.services, call, context.account, form)
        except (Invalid, WebhookTransactionFailed) as error:
            return await self.page(context, form, FormFeedback.of(error))
        cookie = self.new_cookie(sso_sessions.COOKIE, "", 0)
        return dataclasses.replace(self.notice(context, "accountDeleted"), cookies=[cookie])


ROUTES = [Route(DATA_PATH, DataHandler), Route(DELETE_PATH, DeleteHandler)]
