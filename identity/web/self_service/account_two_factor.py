"""`/account/two-factor`: the second factors of an account."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from identity.call import Call, Document
from identity.domain.two_factor import qr_codes
from identity.operations.pages import account_two_factor
from identity.operations.pages.account_two_factor import Adding, Removing
from identity.operations.pages.accounts import Account
from identity.web.base_handlers import Route
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.hosted import csrf, render, two_factor
from identity.web.hosted.fields import Field, Form
from identity.web.oauth2.oauth_handlers import PAGE_OR_REDIRECT
from identity.web.self_service.account import FORM, REQUEST, STALE, AccountPage, Told, account_name, at
from identity.web.self_service.page_context import PageContext

_DONE: Final = {"added": "accountTwoFactor.added", "removed": "accountTwoFactor.removed"}
_HOME: Final = "/account/two-factor"


class FactorPage(AccountPage):
    """A page about second factors, which only who logged in a short time ago may see."""

    page = _HOME
    is_sensitive = True

    def home(self, place: PageContext, **more: str) -> Reply:
        """The way to the list."""
        return Reply(status=302, headers={"Location": at(_HOME, place, **more)})


class ListHandler(FactorPage):
    """The second factors that the user has."""

    @endpoint(access=Access.BROWSER, query=REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call) -> Reply:
        """List them."""
        given = self.parameters(REQUEST)

        async def show(place: PageContext, account: Account) -> Reply:
            look, methods = place.look, account_two_factor.methods(account)
            named = [(_called(one, place), one) for one in methods]
            add = [(look["accountTwoFactor.add"], at(f"{_HOME}/enable", place))]
            values = {
                "title": look["accountTwoFactor.title"],
                "heading": look["accountTwoFactor.heading"],
                "lead": look["accountTwoFactor.lead"],
                "message": look[_DONE[given["changed"]]] if given.get("changed") in _DONE else "",
                "facts": [(name, one.get("email") or one.get("mobilePhone") or "") for name, one in named],
                "nothing": look["accountTwoFactor.none"],
                "buttons": [
                    *(add if account_two_factor.offered(account) else []),
                    *(
                        (look.fill("accountTwoFactor.remove", name), at(f"{_HOME}/disable", place, methodId=one["id"]))
                        for name, one in named
                    ),
                ],
                "links": [(look["account.back"], at("/account", place))],
            }
            return render.form("account.html", values, look)

        return await self.entered(call, given, show)


class EnableHandler(FactorPage):
    """Adds a second factor."""

    @endpoint(access=Access.BROWSER, query=REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call) -> Reply:
        """Show the secret, or where a code goes."""
        given = self.parameters(REQUEST)

        async def show(place: PageContext, account: Account) -> Reply:
            page = account_two_factor.adding(account, given.get("method", ""))
            return self.home(place) if page is None else await self.asked(place, page)

        return await self.entered(call, given, show)

    @endpoint(access=Access.BROWSER, form=FORM, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def post(self, call: Call, form: Document) -> Reply:
        """Take the code."""

        async def show(place: PageContext, account: Account) -> Reply:
            page = account_two_factor.adding(account, form.get("method", ""), form.get("secretBase32Encoded", ""))
            if page is None:
                return self.home(place)
            if not self.is_own(account, form):
                return await self.asked(place, page, message=csrf.INVALID_TOKEN)
            if form.get("action") == "send":
                return await self.asked(place, await account_two_factor.send_to_add(self.services, call, page))
            step = await account_two_factor.add(self.services, call, page, form.get("code", ""))
            if isinstance(step, Adding):
                return await self.asked(place, step)
            if not step.recovery_codes:
                return self.home(place, changed="added")
            values = {"codes": list(step.recovery_codes), "back": at(_HOME, place, changed="added")}
            return render.form("account_recovery_codes.html", values, place.look)

        return await self.entered(call, form, show)

    async def asked(self, place: PageContext, page: Adding, *, message: str = "") -> Reply:
        """The page with the secret, or the address."""
        token, cookie = self.issued()
        given = {**place.carried, "session": account_name(page.account), csrf.FIELD: token}
        values: dict[str, Any] = two_factor.setup(page, place.look, message or page.message, at(self.path(), place))
        values["others"].append((at(_HOME, place), place.look["account.back"]))
        if page.secret:
            values["path"], values["side"] = await asyncio.to_thread(qr_codes.svg_path, page.uri)
        name = "" if place.application is None else place.application["name"]
        values |= {"application_name": name, "action": self.path(), "hidden": list(given.items())}
        reply = render.form("account_two_factor_enable.html", values, place.look, cookies=[cookie])
        return csrf.with_status(reply, message)

    def path(self) -> str:
        """The path of this page."""
        return f"{_HOME}/enable"


class DisableHandler(FactorPage):
    """Removes a second factor."""

    @endpoint(access=Access.BROWSER, query=REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call) -> Reply:
        """Ask for a code of it."""
        given = self.parameters(REQUEST)

        async def show(place: PageContext, account: Account) -> Reply:
            page = account_two_factor.removing(account, given.get("methodId", ""))
            return self.home(place) if page is None else self.asked(place, account, page)

        return await self.entered(call, given, show)

    @endpoint(access=Access.BROWSER, form=FORM, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def post(self, call: Call, form: Document) -> Reply:
        """Take the code."""

        async def show(place: PageContext, account: Account) -> Reply:
            page = account_two_factor.removing(account, form.get("methodId", ""))
            if page is None:
                return self.home(place)
            if not self.is_own(account, form):
                return self.asked(place, account, page, STALE)
            if form.get("action") == "send":
                sent = await account_two_factor.send_to_remove(self.services, call, account, page)
                return self.asked(place, account, sent)
            step = await account_two_factor.remove(self.services, call, account, page, form.get("code", ""))
            return (
                self.asked(place, account, step) if isinstance(step, Removing) else self.home(place, changed="removed")
            )

        return await self.entered(call, form, show)

    def asked(self, place: PageContext, account: Account, page: Removing, told: Told | None = None) -> Reply:
        """The form for the code."""
        look = place.look
        field = Field("code", look["twoFactor.code"], "text", "one-time-code", is_focused=True)
        address = page.method.get("email") or page.method.get("mobilePhone") or ""
        form = Form(
            title=look["accountTwoFactorDisable.title"],
            heading=look["accountTwoFactorDisable.heading"],
            lead=look["accountTwoFactorDisable.lead"],
            submit=look["accountTwoFactorDisable.submit"],
            hidden=[("methodId", page.method["id"])],
            fields=[field],
            buttons=[(look.fill("twoFactor.send", address), "action", "send")] if page.is_sendable else [],
        )
        return self.account_form(place, account, form, told or Told(message=page.message))


def _called(method: Document, place: PageContext) -> str:
    return str(method.get("name") or place.look[f"twoFactor.{method['method']}"])


ROUTES = [
    Route(_HOME, ListHandler),
    Route(f"{_HOME}/enable", EnableHandler),
    Route(f"{_HOME}/disable", DisableHandler),
]
