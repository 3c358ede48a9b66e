"""`/account/two-factor` and `/account/webauthn`: signed-in users manage their two-factor methods and passkeys."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from typing import Any, Final

from identity.call import Call, Document
from identity.domain.objects import catalogues
from identity.domain.two_factor import qr_codes
from identity.operations.pages import account_passkeys, account_two_factor, method_setup
from identity.operations.pages.account_two_factor import MethodRemoval
from identity.operations.pages.accounts import Account
from identity.operations.pages.method_setup import MethodSetup
from identity.web.base_handlers import Route
from identity.web.endpoint import Reply, redirect
from identity.web.hosted import csrf, render, two_factor
from identity.web.hosted.fields import Field, Form, form_texts
from identity.web.self_service.account import (
    NO_FEEDBACK,
    AccountContext,
    AccountFormHandler,
    AccountHandler,
    FormFeedback,
    session_name,
)

_LIST_PATH: Final = "/account/two-factor"
_ENABLE_PATH: Final = f"{_LIST_PATH}/enable"
_DISABLE_PATH: Final = f"{_LIST_PATH}/disable"
_PASSKEYS_PATH: Final = "/account/webauthn"
_ADD_PASSKEY_PATH: Final = f"{_PASSKEYS_PATH}/add"
_DELETE_PASSKEY_PATH: Final = f"{_PASSKEYS_PATH}/delete"


class ListHandler(AccountHandler):
    """The two-factor methods of the user."""

    page_path = _LIST_PATH
    requires_recent_login = True

    async def page(self, context: AccountContext, given: Document, feedback: FormFeedback = NO_FEEDBACK) -> Reply:
        """List the methods."""
        theme = context.theme
        methods = [
            (two_factor.name_of(method, theme), method) for method in account_two_factor.methods(context.account)
        ]
        can_add = bool(account_two_factor.available_methods(context.account))
        buttons = [(theme["accountTwoFactor.add"], context.url(_ENABLE_PATH))] if can_add else []
        buttons += [
            (theme.fill("accountTwoFactor.remove", name), context.url(_DISABLE_PATH, methodId=method["id"]))
            for name, method in methods
        ]
        facts = [(name, two_factor.address_of(method)) for name, method in methods]
        return self.list_page(context, "accountTwoFactor", given, facts, buttons)


class _FormHandler(AccountFormHandler):
    """A form about one two-factor method."""

    page_path = _LIST_PATH

    def redirect_to_list(self, context: AccountContext, **more: str) -> Reply:
        """Return the redirect to the list of methods."""
        return redirect(context.url(_LIST_PATH, **more))


class EnableHandler(_FormHandler):
    """Adds a two-factor method."""

    async def page(self, context: AccountContext, given: Document, feedback: FormFeedback = NO_FEEDBACK) -> Reply:
        """Show the secret of an authenticator app, or the address that receives the code."""
        setup = _setup(context.account, given)
        if setup is None:
            return self.redirect_to_list(context)
        return await self.setup_page(context, setup, feedback.message)

    async def submit(self, call: Call, context: AccountContext, form: Document) -> Reply:
        """Add the method, or send its code."""
        setup = _setup(context.account, form)
        if setup is None:
            return self.redirect_to_list(context)
        if form.get("action") == "send":
            setup = await method_setup.send_setup_code(self.services, call, setup)
            return await self.setup_page(context, setup)
        result = await account_two_factor.add(self.services, call, setup, form.get("code", ""))
        if isinstance(result, MethodSetup):
            return await self.setup_page(context, result)
        if not result.recovery_codes:
            return self.redirect_to_list(context, changed="added")
        values = {"codes": list(result.recovery_codes), "back": context.url(_LIST_PATH, changed="added")}
        return render.form("account_recovery_codes.html", values, context.theme)

    async def setup_page(self, context: AccountContext, setup: MethodSetup, message: str = "") -> Reply:
        """Return the page with the secret or the address."""
        message = message or setup.message
        values: dict[str, Any] = two_factor.setup_values(setup, context.theme, message, context.url(_ENABLE_PATH))
        values["others"].append((context.url(_LIST_PATH), context.theme["account.back"]))
        if setup.secret:
            values["path"], values["side"] = await asyncio.to_thread(qr_codes.svg_path, setup.key_uri)
        name = "" if context.application is None else context.application["name"]
        values |= {"application_name": name, "action": _ENABLE_PATH}
        template, theme = "account_two_factor_enable.html", context.theme
        return csrf.form_page(self, template, values, theme, context.form_parameters, message=message)


class DisableHandler(_FormHandler):
    """Removes a two-factor method."""

    async def page(self, context: AccountContext, given: Document, feedback: FormFeedback = NO_FEEDBACK) -> Reply:
        """Show the form for a code of the method."""
        removal = account_two_factor.prepare_removal(context.account, given.get("methodId", ""))
        if removal is None:
            return self.redirect_to_list(context)
        return self.removal_page(context, removal, feedback)

    async def submit(self, call: Call, context: AccountContext, form: Document) -> Reply:
        """Remove the method, or send its code."""
        removal = account_two_factor.prepare_removal(context.account, form.get("methodId", ""))
        if removal is None:
            return self.redirect_to_list(context)
        if form.get("action") == "send":
            removal = await account_two_factor.send_removal_code(self.services, call, context.account, removal)
            return self.removal_page(context, removal, FormFeedback(message=removal.message))
        result = await account_two_factor.remove(self.services, call, context.account, removal, form.get("code", ""))
        if isinstance(result, MethodRemoval):
            return self.removal_page(context, result, FormFeedback(message=result.message))
        return self.redirect_to_list(context, changed="removed")

    def removal_page(self, context: AccountContext, removal: MethodRemoval, feedback: FormFeedback) -> Reply:
        """Return the form for a code of the method."""
        theme = context.theme
        send_button = (theme.fill("twoFactor.send", two_factor.address_of(removal.method)), "action", "send")
        form = Form(
            **form_texts(theme, "accountTwoFactorDisable"),
            hidden=[("methodId", removal.method["id"])],
            fields=[Field("code", theme["twoFactor.code"], "text", "one-time-code", is_focused=True)],
            buttons=[send_button] if removal.sends_codes else [],
        )
        return self.account_form(context, form, feedback)


class PasskeyListHandler(AccountHandler):
    """The passkeys of the user."""

    page_path = _PASSKEYS_PATH

    async def page(self, context: AccountContext, given: Document, feedback: FormFeedback = NO_FEEDBACK) -> Reply:
        """List the passkeys."""
        theme, owned = context.theme, await account_passkeys.find_all(self.services, context.account)
        is_offered = account_passkeys.is_offered(
            self.services, context.account.client, self.addresses.base_url(self.request)
        )
        buttons = [(theme["accountPasskeys.add"], context.url(_ADD_PASSKEY_PATH))] if is_offered else []
        buttons += [
            (
                theme.fill("accountPasskeys.remove", one["displayName"]),
                context.url(_DELETE_PASSKEY_PATH, passkeyId=one["id"]),
            )
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


class AddPasskeyHandler(AccountFormHandler):
    """Adds a passkey."""

    page_path = _PASSKEYS_PATH

    async def page(self, context: AccountContext, given: Document, feedback: FormFeedback = NO_FEEDBACK) -> Reply:
        """Show the form, whose script creates a passkey."""
        base_url, session = self.addresses.base_url(self.request), session_name(context.account)
        options = None
        if account_passkeys.is_offered(self.services, context.account.client, base_url):
            user_agent = self.origin().user_agent
            options = await account_passkeys.start(self.services, context.account, base_url, session, user_agent)
        if options is None:
            return redirect(context.url(_PASSKEYS_PATH))
        theme = context.theme
        values = {
            "action": _ADD_PASSKEY_PATH,
            "options": json.dumps(options),
            "name": given.get("displayName") or theme["accountPasskeysAdd.value"],
            "back": context.url(_PASSKEYS_PATH),
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
        reply = redirect(context.url(_PASSKEYS_PATH, changed="added"))
        return dataclasses.replace(reply, cookies=self.passkey_cookies(cookie))


class DeletePasskeyHandler(AccountFormHandler):
    """Deletes a passkey."""

    page_path = _PASSKEYS_PATH

    async def page(self, context: AccountContext, given: Document, feedback: FormFeedback = NO_FEEDBACK) -> Reply:
        """Ask for confirmation."""
        passkey = await account_passkeys.find(self.services, context.account, given.get("passkeyId", ""))
        if passkey is None:
            return redirect(context.url(_PASSKEYS_PATH))
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
            return redirect(context.url(_PASSKEYS_PATH, changed="removed"))
        return await self.page(context, form, FormFeedback(message=account_passkeys.LAST))


def _setup(account: Account, given: Document) -> MethodSetup | None:
    return account_two_factor.prepare_setup(account, given.get("method", ""), given.get("secretBase32Encoded", ""))


ROUTES = [
    Route(_LIST_PATH, ListHandler),
    Route(_ENABLE_PATH, EnableHandler),
    Route(_DISABLE_PATH, DisableHandler),
    Route(_PASSKEYS_PATH, PasskeyListHandler),
    Route(_ADD_PASSKEY_PATH, AddPasskeyHandler),
    Route(_DELETE_PASSKEY_PATH, DeletePasskeyHandler),
]
