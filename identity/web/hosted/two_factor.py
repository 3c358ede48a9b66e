"""`/oauth2/two-factor` and its pages: the two-factor challenge of a login, and the set-up of a second factor."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from typing import ClassVar, Final

from markupsafe import Markup

from identity.call import Call, Document
from identity.domain.objects.external_identifiers import two_factor_trust_seconds
from identity.domain.two_factor import qr_codes
from identity.domain.two_factor import two_factor as two_factor_rules
from identity.operations.authorization import login_requirements, login_resumption
from identity.operations.login_transactions import login_transactions
from identity.operations.login_transactions.authorization_steps import Step
from identity.operations.login_transactions.login_transactions import InterruptedTransaction
from identity.operations.pages import page_messages, two_factor_pages
from identity.operations.pages.method_setup import MethodSetup
from identity.operations.pages.two_factor_pages import ChallengePage, Continued
from identity.operations.two_factor import two_factor_trust
from identity.web.endpoint import Reply, page_endpoint, redirect
from identity.web.hosted import csrf, login
from identity.web.hosted.login_flow import InterruptedLoginHandler
from identity.web.hosted.page_theme import PageTheme
from identity.web.oauth2.oauth_handlers import tenant_routes

_KEY_GROUP: Final = 4
_DAY_SECONDS: Final = 86_400
_REQUEST: Final = "oauth2/waiting.request.json"


class _ChallengeHandler(InterruptedLoginHandler):
    """Shared by both pages of a challenge."""

    page_name: ClassVar[str] = login_transactions.TWO_FACTOR

    def url_of(self, page: str, transaction: InterruptedTransaction) -> str:
        """Return the URL of one of the pages."""
        return self.page_url(f"{login.base_path(self)}/{page}", transaction)

    async def methods_page(self, page: ChallengePage) -> Reply:
        """Return the page with the choice of methods."""
        theme = await self.load_theme(page.transaction)
        values = choice_values(page, theme)
        return self.form_page(page.transaction, theme, "two_factor_methods.html", values, page.message)


class TwoFactorHandler(_ChallengeHandler):
    """Prompts for the code of a method."""

    @page_endpoint(query=_REQUEST)
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Show the page, or the choice of methods if none is chosen."""
        transaction = await self.find_transaction(call, self.parameters(), tenant_id)
        step = await two_factor_pages.show(self.services, call, transaction, self.browser())
        return await self.code_page(transaction, step)

    @page_endpoint(form="oauth2/two-factor.form.json")
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Verify a code, or send another one; without a valid CSRF token show the page again."""
        transaction, browser = await self.find_transaction(call, form, tenant_id), self.browser()
        if not csrf.has_valid_token(self, form):
            page = await two_factor_pages.show(self.services, call, transaction, browser, csrf.INVALID_TOKEN)
            return await self.code_page(transaction, page)
        if form.get("action") == "resend":
            method_id = transaction.login.details.get("methodId", "")
            step = await two_factor_pages.choose(self.services, call, transaction, browser, method_id)
            return await self.code_page(transaction, step)
        trusts_device = form.get("trustComputer") == "true"
        outcome = await two_factor_pages.enter_code(
            self.services, call, transaction, browser, form.get("code", "").strip(), trusts_device=trusts_device
        )
        if isinstance(outcome, ChallengePage):
            return await self.code_page(transaction, outcome)
        return await self.complete(transaction, outcome)

    async def code_page(self, transaction: InterruptedTransaction, step: ChallengePage | Step) -> Reply:
        """Return the page, or the next step."""
        if not isinstance(step, ChallengePage):
            return await self.continue_login(transaction, step)
        if step.chosen is None:
            return redirect(self.url_of("two-factor-methods", transaction))
        theme, client = await self.load_theme(transaction), transaction.client
        other = self.url_of("two-factor-methods", transaction) if len(step.methods) > 1 else ""
        values = {
            **code_values(step, theme),
            "other": other,
            "resends": login_requirements.sends_codes(step.chosen),
            "trust_days": math.ceil(two_factor_trust_seconds(client.tenant, client.application) / _DAY_SECONDS),
        }
        return self.form_page(transaction, theme, "two_factor.html", values, step.message)

    async def complete(self, transaction: InterruptedTransaction, completed: Continued) -> Reply:
        """Return the next step, with the trust cookie if the user trusts the browser."""
        reply = await self.continue_login(transaction, completed.step)
        if completed.trust is None:
            return reply
        cookie = self.new_cookie(two_factor_trust.COOKIE, *completed.trust)
        return dataclasses.replace(reply, cookies=[*reply.cookies, cookie])


class MethodsHandler(_ChallengeHandler):
    """Prompts for the choice of a method."""

    @page_endpoint(query=_REQUEST)
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Show the page."""
        transaction = await self.find_transaction(call, self.parameters(), tenant_id)
        step = await two_factor_pages.show(self.services, call, transaction, self.browser())
        if isinstance(step, ChallengePage):
            return await self.methods_page(step)
        return await self.continue_login(transaction, step)

    @page_endpoint(form="oauth2/two-factor-methods.form.json")
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Store the choice and redirect to its code page; without a valid CSRF token show the page again."""
        transaction, browser = await self.find_transaction(call, form, tenant_id), self.browser()
        if csrf.has_valid_token(self, form):
            step = await two_factor_pages.choose(self.services, call, transaction, browser, form.get("methodId", ""))
        else:
            step = await two_factor_pages.show(self.services, call, transaction, browser, csrf.INVALID_TOKEN)
        if not isinstance(step, ChallengePage):
            return await self.continue_login(transaction, step)
        if step.message in {csrf.INVALID_TOKEN, two_factor_pages.METHOD_REQUIRED}:
            return await self.methods_page(step)
        return redirect(self.url_of("two-factor", transaction))


class EnableHandler(InterruptedLoginHandler):
    """Shows the secret for an authenticator app, or sends a code; adds the method after a correct code."""

    page_name: ClassVar[str] = login_transactions.TWO_FACTOR_ENABLE

    @page_endpoint(query="oauth2/two-factor-enable.request.json")
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Show the page, for a method if one is named."""
        given = self.parameters()
        transaction = await self.find_transaction(call, given, tenant_id)
        method = given.get("method", "")
        step = await two_factor_pages.show_setup(self.services, call, transaction, self.browser(), method)
        return await self.setup_page(transaction, step)

    @page_endpoint(form="oauth2/two-factor-enable.form.json")
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Add the method, or send a code for it; without a valid CSRF token show the page again."""
        transaction, browser = await self.find_transaction(call, form, tenant_id), self.browser()
        method, secret = form.get("method", ""), form.get("secretBase32Encoded", "")
        if not csrf.has_valid_token(self, form):
            step = await two_factor_pages.show_setup(self.services, call, transaction, browser, method, secret)
            return await self.setup_page(transaction, step, message=csrf.INVALID_TOKEN)
        if form.get("action") == "send":
            step = await two_factor_pages.send_setup_code(self.services, call, transaction, browser, method)
            return await self.setup_page(transaction, step)
        code = form.get("code", "").strip()
        added = await two_factor_pages.enable_method(self.services, call, transaction, browser, method, secret, code)
        if isinstance(added, two_factor_pages.RecoveryCodesPage):
            return await self.recovery_codes(added)
        return await self.setup_page(transaction, added)

    async def setup_page(
        self, transaction: InterruptedTransaction, step: MethodSetup | Step, *, message: str = ""
    ) -> Reply:
        """Return the page, or the next step."""
        if not isinstance(step, MethodSetup):
            return await self.continue_login(transaction, step)
        theme, url = await self.load_theme(transaction), self.page_url(self.request.path, transaction)
        values = setup_values(step, theme, message or step.message, url)
        if step.secret:
            values["path"], values["side"] = await asyncio.to_thread(qr_codes.svg_path, step.key_uri)
        return self.form_page(transaction, theme, "two_factor_enable.html", values, message)

    async def recovery_codes(self, added: two_factor_pages.RecoveryCodesPage) -> Reply:
        """Return the page with the recovery codes, which is the only one that shows them."""
        transaction, theme = added.transaction, await self.load_theme(added.transaction)
        values = {"action": f"{login.base_path(self)}/two-factor-enable-complete", "codes": added.recovery_codes}
        reply = self.form_page(transaction, theme, "two_factor_enable_complete.html", values)
        cookies = [*reply.cookies, self.new_cookie(login_transactions.COOKIE, transaction.cookie)]
        return Reply(reply.body, reply.status, reply.headers, cookies)


class EnableCompleteHandler(InterruptedLoginHandler):
    """Continues after the user confirms the recovery codes."""

    page_name: ClassVar[str] = login_transactions.TWO_FACTOR_ENABLED

    @page_endpoint(query=_REQUEST)
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Show the page again, without the codes."""
        return await self.confirmation_page(await self.find_transaction(call, self.parameters(), tenant_id))

    @page_endpoint(form="oauth2/two-factor-enable-complete.form.json")
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Continue the login; without a valid CSRF token show the page again."""
        transaction = await self.find_transaction(call, form, tenant_id)
        if not csrf.has_valid_token(self, form):
            return csrf.with_status(await self.confirmation_page(transaction), csrf.INVALID_TOKEN)
        step = await login_resumption.resume(self.services, call, transaction, self.browser())
        return await self.continue_login(transaction, step)

    async def confirmation_page(self, transaction: InterruptedTransaction) -> Reply:
        """Return the page without the codes."""
        theme = await self.load_theme(transaction)
        return self.form_page(transaction, theme, "two_factor_enable_complete.html", {"codes": ()})


def code_values(page: ChallengePage, theme: PageTheme) -> Document:
    """Return the values of the page that asks for a code of the chosen method."""
    assert page.chosen is not None
    return {"lead": _lead(page.chosen, theme), **_message_values(page.message, theme)}


def choice_values(page: ChallengePage, theme: PageTheme) -> Document:
    """Return the values of the page that lists the methods."""
    methods = [
        {"id": method["id"], "text": name_of(method, theme), "detail": _detail(method, theme)}
        for method in page.methods
    ]
    last_used = next((method["id"] for method in page.methods if method.get("lastUsed")), page.methods[0]["id"])
    message = page.message if page.message != page_messages.CODE_SENT else ""
    return {"methods": methods, "used": last_used, "message": theme.message(message), "is_good": False}


def setup_values(setup: MethodSetup, theme: PageTheme, message: str, url: str) -> Document:
    """Return the values of the page that sets up a method; `url` is the page's own."""
    key_groups = [setup.secret[i : i + _KEY_GROUP] for i in range(0, len(setup.secret), _KEY_GROUP)]
    others = [method for method in setup.available if method != setup.method]
    return {
        "method": setup.method,
        "secret": setup.secret,
        "grouped": " ".join(key_groups),
        "address": setup.masked_address,
        "others": [(f"{url}&method={method}", theme[f"twoFactorEnable.{method}"]) for method in others],
        "path": "",
        "side": 0,
        **_message_values(message, theme),
    }


def name_of(method: Document, theme: PageTheme) -> str:
    """Return the name that the user gave a method, else that of its kind."""
    return str(method.get("name") or theme[f"twoFactor.{method['method']}"])


def address_of(method: Document) -> str:
    """Return the masked address of a method; empty for an authenticator app."""
    return str(method.get("email") or method.get("mobilePhone") or "")


def _message_values(key: str, theme: PageTheme) -> Document:
    is_wrong = key == page_messages.WRONG_CODE
    return {"message": theme.message(key), "is_good": key == page_messages.CODE_SENT, "is_wrong": is_wrong}


def _lead(method: Document, theme: PageTheme) -> Markup | str:
    if method["method"] == two_factor_rules.AUTHENTICATOR:
        return theme["twoFactor.leadAuthenticator"]
    return theme.fill("twoFactor.leadSent", address_of(method), strong=True)


def _detail(method: Document, theme: PageTheme) -> str:
    return address_of(method) or (theme["twoFactor.authenticator"] if method.get("name") else "")


ROUTES = tenant_routes(
    [
        ("/oauth2/two-factor", TwoFactorHandler),
        ("/oauth2/two-factor-methods", MethodsHandler),
        ("/oauth2/two-factor-enable", EnableHandler),
        ("/oauth2/two-factor-enable-complete", EnableCompleteHandler),
    ]
)
