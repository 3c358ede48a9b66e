"""`/account/webauthn`: signed-in users list, add and delete their passkeys."""

from __future__ import annotations

import dataclasses
import json
from typing import Final

from identity.call import Call, Document
from identity.domain.objects import catalogues
from identity.operations.pages import account_passkeys
from identity.operations.pages.accounts import Account
from identity.web.base_handlers import Route
from identity.web.endpoint import Reply, redirect
from identity.web.hosted import csrf, render
from identity.web.hosted.fields import Form
from identity.web.self_service.account import (
    NO_FEEDBACK,
    AccountFormHandler,
    AccountHandler,
    FormFeedback,
    session_name,
)
from identity.web.self_service.page_context import PageContext

LIST_PATH: Final = "/account/webauthn"
_ADD_PATH: Final = f"{LIST_PATH}/add"
_DELETE_PATH: Final = f"{LIST_PATH}/delete"
_CHANGED: Final = {"added": "accountPasskeys.added", "removed": "accountPasskeys.removed"}


class ListHandler(AccountHandler):
    """The passkeys of the user."""

    page_path = LIST_PATH

    async def page(
        self, context: PageContext, account: Account, given: Document, feedback: FormFeedback = NO_FEEDBACK
    ) -> Reply:
        """List the passkeys."""
        theme, owned = context.theme, await account_passkeys.find_all(self.services, account)
        is_offered = account_passkeys.is_offered(self.services, account.client, self.addresses.base_url(self.request))
        buttons = [(theme["accountPasskeys.add"], context.url(_ADD_PATH))] if is_offered else []
        buttons += [
            (theme.fill("accountPasskeys.remove", one["displayName"]), context.url(_DELETE_PATH, passkeyId=one["id"]))
            for one in owned
        ]
        values = {
            "title": theme["accountPasskeys.title"],
            "heading": theme["accountPasskeys.heading"],
            "lead": theme["accountPasskeys.lead"],
            "message": theme.message(_CHANGED.get(given.get("changed", ""), "")),
            "facts": [
                (
                    one["displayName"],
                    theme.fill("accountPasskeys.lastUse", catalogues.date(one["lastUseInstant"], theme.language)),
                )
                for one in owned
            ],
            "nothing": theme["accountPasskeys.none"],
            "buttons": buttons,
            "links": [(theme["account.back"], context.url("/account"))],
        }
        return render.form("account.html", values, theme)


class AddHandler(AccountFormHandler):
    """Adds a passkey."""

    page_path = LIST_PATH

    async def page(
        self, context: PageContext, account: Account, given: Document, feedback: FormFeedback = NO_FEEDBACK
    ) -> Reply:
        """Show the form, whose script creates a passkey."""
        base_url, session = self.addresses.base_url(self.request), session_name(account)
        options = None
        if account_passkeys.is_offered(self.services, account.client, base_url):
            user_agent = self.origin().user_agent
            options = await account_passkeys.start(self.services, account, base_url, session, user_agent)
        if options is None:
            return redirect(context.url(LIST_PATH))
        theme, hidden = context.theme, {**context.parameters, "session": session}
        values = {
            "action": _ADD_PATH,
            "options": json.dumps(options),
            "name": given.get("displayName") or theme["accountPasskeysAdd.value"],
            "back": context.url(LIST_PATH),
        }
        return csrf.form_page(self, "account_passkey_add.html", values, theme, hidden.items(), message=feedback.message)

    async def submit(self, call: Call, context: PageContext, account: Account, form: Document) -> Reply:
        """Store the passkey."""
        name = form.get("displayName", "").strip() or context.theme["accountPasskeysAdd.value"]
        cookie = await account_passkeys.add(
            self.services, call, account, session_name(account), form.get("credential", ""), name
        )
        if cookie is None:
            return await self.page(context, account, form, FormFeedback(message=account_passkeys.FAILED))
        reply = redirect(context.url(LIST_PATH, changed="added"))
        return dataclasses.replace(reply, cookies=self.passkey_cookies(cookie))


class DeleteHandler(AccountFormHandler):
    """Deletes a passkey."""

    page_path = LIST_PATH

    async def page(
        self, context: PageContext, account: Account, given: Document, feedback: FormFeedback = NO_FEEDBACK
    ) -> Reply:
        """Ask for confirmation."""
        passkey = await account_passkeys.find(self.services, account, given.get("passkeyId", ""))
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
        return self.account_form(context, account, form, feedback)

    async def submit(self, call: Call, context: PageContext, account: Account, form: Document) -> Reply:
        """Delete the passkey, unless it is the only way to sign in."""
        if await account_passkeys.remove(self.services, call, account, form.get("passkeyId", "")):
            return redirect(context.url(LIST_PATH, changed="removed"))
        return await self.page(context, account, form, FormFeedback(message=account_passkeys.LAST))


ROUTES = [
    Route(LIST_PATH, ListHandler),
    Route(_ADD_PATH, AddHandler),
    Route(_DELETE_PATH, DeleteHandler),
]
