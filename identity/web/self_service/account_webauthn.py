"""`/account/webauthn`: signed-in users list, add and delete their passkeys."""

from __future__ import annotations

import dataclasses
import json
from typing import Final

from identity.call import Call, Document
from identity.domain.objects import catalogues
from identity.operations.pages import account_passkeys
from identity.web.base_handlers import Route
from identity.web.endpoint import Reply, redirect
from identity.web.hosted import csrf
from identity.web.hosted.fields import Form
from identity.web.self_service.account import (
    NO_FEEDBACK,
    AccountContext,
    AccountFormHandler,
    AccountHandler,
    FormFeedback,
    session_name,
)

LIST_PATH: Final = "/account/webauthn"
_ADD_PATH: Final = f"{LIST_PATH}/add"
_DELETE_PATH: Final = f"{LIST_PATH}/delete"


class ListHandler(AccountHandler):
    """The passkeys of the user."""

    page_path = LIST_PATH

    async def page(self, context: AccountContext, given: Document, feedback: FormFeedback = NO_FEEDBACK) -> Reply:
        """List the passkeys."""
        theme, owned = context.theme, await account_passkeys.find_all(self.services, context.account)
        is_offered = account_passkeys.is_offered(
            self.services, context.account.client, self.addresses.base_url(self.request)
        )
        buttons = [(theme["accountPasskeys.add"], context.url(_ADD_PATH))] if is_offered else []
        buttons += [
            (theme.fill("accountPasskeys.remove", one["displayName"]), context.url(_DELETE_PATH, passkeyId=one["id"]))
            for one in owned
        ]
        facts: list[tuple[str, str]] = [
            (
                one["displayName"],
                theme.fill("accountPasskeys.lastUse", catalogues.date(one["lastUseInstant"], theme.language)),
            )
            for one in owned
        ]
        return self.list_page(context, "accountPasskeys", given, facts, buttons)


class AddHandler(AccountFormHandler):
    """Adds a passkey."""

    page_path = LIST_PATH

    async def page(self, context: AccountContext, given: Document, feedback: FormFeedback = NO_FEEDBACK) -> Reply:
        """Show the form, whose script creates a passkey."""
        base_url, session = self.addresses.base_url(self.request), session_name(context.account)
        options = None
        if account_passkeys.is_offered(self.services, context.account.client, base_url):
            user_agent = self.origin().user_agent
            options = await account_passkeys.start(self.services, context.account, base_url, session, user_agent)
        if options is None:
            return redirect(context.url(LIST_PATH))
        theme = context.theme
        values = {
            "action": _ADD_PATH,
            "options": json.dumps(options),
            "name": given.get("displayName") or theme["accountPasskeysAdd.value"],
            "back": context.url(LIST_PATH),
        }
        return csrf.form_page(
            self, "account_passkey_add.html", values, theme, context.form_parameters, message=feedback.message
        )

    async def submit(self, call: Call, context: AccountContext, form: Document) -> Reply:
        """Store the passkey."""
        name = form.get("displayName", "").strip() or context.theme["accountPasskeysAdd.value"]
        cookie = await account_passkeys.add(
            self.services, call, context.account, session_name(context.account), form.get("credential", ""), name
        )
        if cookie is None:
            return await self.page(context, form, FormFeedback(message=account_passkeys.FAILED))
        reply = redirect(context.url(LIST_PATH, changed="added"))
        return dataclasses.replace(reply, cookies=self.passkey_cookies(cookie))


class DeleteHandler(AccountFormHandler):
    """Deletes a passkey."""

    page_path = LIST_PATH

    async def page(self, context: AccountContext, given: Document, feedback: FormFeedback = NO_FEEDBACK) -> Reply:
        """Ask for confirmation."""
        passkey = await account_passkeys.find(self.services, context.account, given.get("passkeyId", ""))
        if passkey is None:
            return redirect(context.url(LIST_PATH))
        theme = context.theme
        form = Form(
            title=theme["accountPasskeysDelete.title"],
            heading=theme["accountPasskeysDelete.title"],
            lead=theme.fill("accountPasskeysDelete.lead", passkey["displayName"], strong=True),
            submit=theme["accountPasskeysDelete.submit"],
            hidden=[("passkeyId", passkey["id"])],
        )
        return self.account_form(context, form, feedback)

    async def submit(self, call: Call, context: AccountContext, form: Document) -> Reply:
        """Delete the passkey, unless it is the only way to sign in."""
        if await account_passkeys.remove(self.services, call, context.account, form.get("passkeyId", "")):
            return redirect(context.url(LIST_PATH, changed="removed"))
        return await self.page(context, form, FormFeedback(message=account_passkeys.LAST))


ROUTES = [
    Route(LIST_PATH, ListHandler),
    Route(_ADD_PATH, AddHandler),
    Route(_DELETE_PATH, DeleteHandler),
]
