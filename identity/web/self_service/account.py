"""`/account`: signed-in users see and change their own account."""

from __future__ import annotations

import abc
import dataclasses
import urllib.parse
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from identity.call import Call, Document
from identity.domain.configuration.applications import ADMINISTRATOR_APPLICATION_ID
from identity.domain.users import users as user_rules
from identity.errors import (
    FieldError,
    GeneralError,
    Invalid,
    InvalidRequest,
    ServiceError,
    Unavailable,
    WebhookTransactionFailed,
)
from identity.ids import fingerprint
from identity.operations.authorization import account_logins
from identity.operations.login_transactions.authorization_steps import Browser
from identity.operations.pages import account_passkeys, accounts, page_messages
from identity.operations.pages.accounts import Account
from identity.operations.sessions import sso_sessions
from identity.operations.two_factor import two_factor_trust
from identity.web.base_handlers import Route
from identity.web.endpoint import Reply, page_endpoint, redirect
from identity.web.hosted import csrf, fields, page_theme, render
from identity.web.hosted.fields import Field, Form, form_texts
from identity.web.self_service.page_context import PageContext, SelfServiceHandler

_CHANGED: Final = {
    "data": "account.changed",
    "email": "account.emailPending",
    "password": "account.passwordChanged",
    "phone": "account.phoneChanged",
}
"""Value of the parameter `changed` -> page text."""

_QUERY: Final = "oauth2/account.request.json"
_SHOWN: Final = (
    "username",
    "phoneNumber",
    "firstName",
    "middleName",
    "lastName",
    "fullName",
    "birthDate",
    "mobilePhone",
)


@dataclasses.dataclass(frozen=True, slots=True)
class FormFeedback:
    """The errors of a submitted form, or the key of a page text."""

    errors: Sequence[FieldError] = ()
    general: Sequence[GeneralError] = ()
    message: str = ""

    @classmethod
    def of(cls, error: ServiceError) -> FormFeedback:
        """Return the feedback for a change that raised Invalid, Unavailable or WebhookTransactionFailed."""
        if isinstance(error, Invalid):
            return cls(error.fields, error.general)
        return cls(message=page_messages.of_code_error(error, rejected=page_messages.CHANGE_REJECTED))


@dataclasses.dataclass(frozen=True, slots=True)
class AccountContext(PageContext):
    """The context of a page of a signed-in user."""

    account: Account

    @property
    def form_parameters(self) -> Iterable[tuple[str, str]]:
        """The hidden fields of a form: the context, and the login that the page was served to."""
        return {**self.parameters, "session": session_name(self.account)}.items()


NO_FEEDBACK: Final = FormFeedback()


class AccountHandler(SelfServiceHandler, abc.ABC):
    """A page of the signed-in user's account."""

    page_path: str = ""
    """The path to which a login returns."""
    requires_recent_login: bool = False

    @page_endpoint(query=_QUERY)
    async def get(self, call: Call) -> Reply:
        """Show the page, after a login if necessary."""
        given = self.parameters()
        context = await self.load_account(call, given)
        return context if isinstance(context, Reply) else await self.page(context, given)

    @abc.abstractmethod
    async def page(self, context: AccountContext, given: Document, feedback: FormFeedback = NO_FEEDBACK) -> Reply:
        """Return the page for a request, or for a form that was rejected with `feedback`."""

    async def load_account(self, call: Call, given: Document) -> AccountContext | Reply:
        """Return the signed-in user's account, or the redirect to the login."""
        context = await self.load_context(call, given)
        if context.client is None:
            return await self.redirect_to_client(context, given)
        if context.tenant["httpSessionMaxInactiveInterval"] <= 0:
            return self.notice(context, "accountOff")
        browser = Browser(self.cookie(sso_sessions.COOKIE), trust_id=self.cookie(two_factor_trust.COOKIE))
        account = await accounts.find(self.services, call, context.client, browser)
        if account is not None and await accounts.belongs_to_console(self.services, account):
            return self.redirect_to_application(context, given, ADMINISTRATOR_APPLICATION_ID)
        if account is not None and (not self.requires_recent_login or accounts.has_recent_login(call, account)):
            theme = await page_theme.load(self, context.tenant, context.application, given, user=account.user)
            return AccountContext(context.tenant, context.client, theme, context.parameters, account)
        max_age = accounts.RECENT_LOGIN_SECONDS if self.requires_recent_login else None
        query = account_logins.request_parameters(call, context.client, self.page_path, max_age_seconds=max_age)
        if "locale" in given:
            query["locale"] = given["locale"]
        return redirect(f"/oauth2/authorize?{urllib.parse.urlencode(query)}")

    async def redirect_to_client(self, context: PageContext, given: Document) -> Reply:
        """Return the redirect to the page of the application whose login the account pages use.

        Raises InvalidRequest for a tenant without an application.
        """
        sso_secret = self.cookie(sso_sessions.COOKIE)
        application_id = await accounts.find_application(self.services, context.tenant, sso_secret)
        if application_id is None:
            raise InvalidRequest("missing_client_id", "The tenant has no application for a login.")
        return self.redirect_to_application(context, given, application_id)

    def redirect_to_application(self, context: PageContext, given: Document, application_id: str) -> Reply:
        """Return the redirect to the page of an application."""
        given = {name: given[name] for name in self.services.schemas[_QUERY].schema["properties"] if name in given}
        query = {**given, "client_id": application_id, "tenantId": context.tenant_id}
        return redirect(f"{self.request.path}?{urllib.parse.urlencode(query)}")

    def list_page(
        self,
        context: AccountContext,
        key: str,
        given: Document,
        facts: Sequence[tuple[str, str]],
        buttons: Sequence[tuple[str, str]],
    ) -> Reply:
        """Return a page that lists what the user may add and remove, as the parameter `changed` says was done."""
        theme, changed = context.theme, given.get("changed", "")
        values = {
            "title": theme[f"{key}.title"],
            "heading": theme[f"{key}.heading"],
            "lead": theme[f"{key}.lead"],
            "message": theme[f"{key}.{changed}"] if changed in {"added", "removed"} else "",
            "facts": facts,
            "nothing": theme[f"{key}.none"],
            "buttons": buttons,
            "links": [(theme["account.back"], context.url("/account"))],
        }
        return render.form("account.html", values, theme)

    def account_form(self, context: AccountContext, form: Form, feedback: FormFeedback) -> Reply:
        """Return a page with a form about an account, with the feedback on the submitted one."""
        form = dataclasses.replace(
            form,
            hidden=[*form.hidden, ("session", session_name(context.account))],
            links=[*form.links, (context.theme["account.back"], context.url("/account"))],
        )
        form = fields.with_refusal(form, feedback.errors, context.theme, feedback.general)
        return self.form_page(context, form, feedback.message)


class AccountFormHandler(AccountHandler):
    """A page with a form that changes the account, which requires a recent login."""

    requires_recent_login = True

    @page_endpoint(form="oauth2/account.form.json")
    async def post(self, call: Call, form: Document) -> Reply:
        """Apply a form that was served to this browser during this login, and not during an earlier one."""
        context = await self.load_account(call, form)
        if isinstance(context, Reply):
            return context
        if csrf.has_valid_token(self, form) and form.get("session") == session_name(context.account):
            return await self.submit(call, context, form)
        return await self.page(context, form, FormFeedback(message=csrf.INVALID_TOKEN))

    @abc.abstractmethod
    async def submit(self, call: Call, context: AccountContext, form: Document) -> Reply:
        """Apply the form."""


class HomeHandler(AccountHandler):
    """`/account`: the user's data."""

    page_path = "/account"

    async def page(self, context: AccountContext, given: Document, feedback: FormFeedback = NO_FEEDBACK) -> Reply:
        """Show the user's data."""
        theme = context.theme
        values = {
            "title": theme["account.title"],
            "heading": theme["account.heading"],
            "lead": theme.fill("account.lead", user_rules.primary_login_id(context.account.user), strong=True),
            "message": theme.message(_CHANGED.get(given.get("changed", ""), "")),
            "facts": _facts(context, await accounts.pending_email(self.services, context.account)),
            "nothing": theme["account.nothing"],
            "buttons": [(theme[key], context.url(path)) for key, path in self.pages(context.account)],
            "links": [(theme["account.logout"], context.url("/oauth2/logout"))],
        }
        return render.form("account.html", values, theme)

    def pages(self, account: Account) -> Iterator[tuple[str, str]]:
        """Yield the further pages: the key of the text of a button, and its path."""
        yield "account.edit", "/account/edit"
        if accounts.may_change_phone(account):
            yield "accountPhone.heading", "/account/phone"
        yield "account.password", "/account/password"
        yield "account.twoFactor", "/account/two-factor"
        if account_passkeys.is_offered(self.services, account.client, self.addresses.base_url(self.request)):
            yield "account.passkeys", "/account/webauthn"
        yield "account.sessions", "/account/sessions"
        yield "account.applications", "/account/applications"
        yield "account.links", "/account/links"
        yield "account.data", "/account/data"
        if accounts.may_delete(account):
            yield "account.delete", "/account/delete"


class PasswordHandler(AccountFormHandler):
    """`/account/password`: change the password."""

    page_path = "/account/password"

    async def submit(self, call: Call, context: AccountContext, form: Document) -> Reply:
        """Change the password; the user has to log in again."""
        try:
            await accounts.change_password(self.services, call, context.account, form)
        except (Invalid, Unavailable, WebhookTransactionFailed) as error:
            return await self.page(context, form, FormFeedback.of(error))
        return redirect(context.url("/account", changed="password"))

    async def page(self, context: AccountContext, given: Document, feedback: FormFeedback = NO_FEEDBACK) -> Reply:
        """Return the form."""
        theme = context.theme
        hints = fields.password_hints(context.tenant, theme)
        form = Form(
            **form_texts(theme, "accountPassword"),
            fields=[
                Field("currentPassword", theme["accountPassword.current"], "password", "current-password"),
                Field("password", theme["changePassword.password"], "password", "new-password", hints=hints),
                Field("passwordConfirm", theme["changePassword.confirm"], "password", "new-password"),
            ],
        )
        return self.account_form(context, form, feedback)


def session_name(account: Account) -> str:
    """Return the name of the account's login in its forms."""
    return fingerprint(f"account {account.current.session.session_id} {account.user_id}")[:32]


def _facts(context: AccountContext, pending_email: str) -> list[tuple[str, str]]:
    """Return the user's data as labels and values."""
    theme, user = context.theme, context.account.user
    facts: list[tuple[str, str]] = []
    if user.get("email"):
        key = "account.verified" if user["verified"] else "account.unverified"
        facts.append((theme["user.email"], theme.fill(key, user["email"])))
    if pending_email:
        facts.append((theme["account.newEmail"], pending_email))
    facts += [(theme[f"user.{member}"], str(user[member])) for member in _SHOWN if user.get(member)]
    if user.get("preferredLanguages"):
        facts.append((theme["user.preferredLanguages"], ", ".join(user["preferredLanguages"])))
    return facts


ROUTES = [
    Route("/account", HomeHandler),
    Route("/account/password", PasswordHandler),
]
