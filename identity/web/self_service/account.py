"""`/account`: what users see and change of their own account, when they are signed in."""

from __future__ import annotations

import dataclasses
import urllib.parse
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

from identity.call import Call, Document
from identity.domain.two_factor import two_factor
from identity.domain.users import users
from identity.errors import FieldError, GeneralError, Invalid, InvalidRequest, Unavailable, WebhookTransactionFailed
from identity.ids import fingerprint
from identity.operations.authorization import account_logins
from identity.operations.login_transactions.authorization_steps import Browser
from identity.operations.pages import accounts
from identity.operations.pages.accounts import Account
from identity.operations.sessions import sso_sessions
from identity.operations.two_factor import two_factor_trust
from identity.operations.verification.verification_codes import OpenVerification
from identity.web.base_handlers import Route
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.hosted import csrf, fields, register, render
from identity.web.hosted.fields import Field, Form
from identity.web.oauth2.oauth_handlers import PAGE_OR_REDIRECT
from identity.web.self_service.page_context import PageContext, SelfServiceHandler

REQUEST: Final = "oauth2/account.request.json"
FORM: Final = "oauth2/account.form.json"
_CHANGED: Final = {
    "data": "account.changed",
    "email": "account.emailPending",
    "password": "account.passwordChanged",
}

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

T = TypeVar("T")
Shown = Callable[[PageContext, Account], Awaitable[Reply]]


@dataclasses.dataclass(frozen=True, slots=True)
class Told:
    """What a form says when it is shown again: what is wrong, or a text of the pages by its name; and the status."""

    errors: Sequence[FieldError] = ()
    general: Sequence[GeneralError] = ()
    message: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Attempt(Generic[T]):
    """The result of a change that a form requested, or why it was refused."""

    value: T | None = None
    told: Told | None = None


NOTHING: Final = Told()
CODE_SENT: Final = Told(message="twoFactor.sent")
STALE: Final = Told(message=csrf.INVALID_TOKEN)


class AccountPage(SelfServiceHandler):
    """A page of the account of whoever is signed in in this browser."""

    page: str = ""
    """The path to which a login leads back."""
    is_sensitive: bool = False
    """Whether the login has to be a short time ago."""

    async def entered(self, call: Call, given: Document, show: Shown) -> Reply:
        """The page, or the way to the login."""
        if "client_id" not in given:
            raise InvalidRequest("missing_client_id", "The request is missing a required parameter: client_id.")
        place = await self.place(call, given)
        assert place.client is not None
        if place.tenant["httpSessionMaxInactiveInterval"] <= 0:
            return self.notice(place, "accountOff")
        browser = Browser(self.cookie(sso_sessions.COOKIE), trust_id=self.cookie(two_factor_trust.COOKIE))
        account = await accounts.find(self.services, call, place.client, browser)
        if account is None or (self.is_sensitive and not accounts.is_fresh(call, account)):
            max_age = accounts.FRESH_SECONDS if self.is_sensitive else None
            query = account_logins.request_parameters(call, place.client, self.page, max_age_seconds=max_age)
            if "locale" in given:
                query["locale"] = given["locale"]
            return Reply(status=302, headers={"Location": f"/oauth2/authorize?{urllib.parse.urlencode(query)}"})
        return await show(place, account)

    def is_own(self, account: Account, form: Document) -> bool:
        """Whether a form was shown to this browser for this very login: another one may have begun meanwhile."""
        return csrf.has_valid_token(self, form) and form.get("session") == account_name(account)

    def account_form(self, place: PageContext, account: Account, form: Form, told: Told) -> Reply:
        """A page with a form about an account, and what is told of the one before."""
        look = place.look
        texts = fields.general_messages(told.general, look) + fields.messages_without_field(
            told.errors, form.fields, look
        )
        whole = dataclasses.replace(
            form,
            hidden=[*form.hidden, ("session", account_name(account))],
            links=[*form.links, (look["account.back"], at("/account", place))],
            fields=fields.with_errors(form.fields, told.errors, look),
            message=look[told.message] if told.message else " ".join(texts),
        )
        return csrf.with_status(self.form_page(place, whole), told.message)


class HomeHandler(AccountPage):
    """`/account`: what is known of the user."""

    page = "/account"

    @endpoint(access=Access.BROWSER, query=REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call) -> Reply:
        """Show the user's data."""
        given = self.parameters(REQUEST)

        async def show(place: PageContext, account: Account) -> Reply:
            look = place.look
            values = {
                "title": look["account.title"],
                "heading": look["account.heading"],
                "lead": look.fill("account.lead", users.primary_login_id(account.user), strong=True),
                "message": look[_CHANGED[given["changed"]]] if given.get("changed") in _CHANGED else "",
                "facts": _facts(place, account, await accounts.pending_email(self.services, account)),
                "nothing": look["account.nothing"],
                "buttons": [
                    (look["account.edit"], at("/account/edit", place)),
                    (look["account.password"], at("/account/password", place)),
                    (look["account.twoFactor"], at("/account/two-factor", place)),
                ],
                "links": [(look["account.logout"], at("/oauth2/logout", place))],
            }
            return render.form("account.html", values, look)

        return await self.entered(call, given, show)


class EditHandler(AccountPage):
    """`/account/edit`: what the user may change."""

    page = "/account/edit"
    is_sensitive = True

    @endpoint(access=Access.BROWSER, query=REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call) -> Reply:
        """Show the form with what is known."""

        async def show(place: PageContext, account: Account) -> Reply:
            return self.asked(place, account, accounts.values(account))

        return await self.entered(call, self.parameters(REQUEST), show)

    @endpoint(access=Access.BROWSER, form=FORM, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def post(self, call: Call, form: Document) -> Reply:
        """Take the changes."""

        async def show(place: PageContext, account: Account) -> Reply:
            if not self.is_own(account, form):
                return self.asked(place, account, accounts.values(account), STALE)
            if "methodId" in form:
                sent = await tried(accounts.send_confirmation(self.services, call, account, form["methodId"]))
                return self.asked(place, account, accounts.values(account), sent.told or CODE_SENT)
            result = await tried(accounts.edit(self.services, call, account, form))
            if result.told is not None:
                told = dataclasses.replace(result.told, errors=accounts.told(result.told.errors))
                return self.asked(place, account, form, told)
            return Reply(status=302, headers={"Location": self.next_page(place, result.value)})

        return await self.entered(call, form, show)

    def asked(self, place: PageContext, account: Account, answers: Document, told: Told = NOTHING) -> Reply:
        """The form."""
        look = place.look
        plain = [
            register.profile_field(asked, answers.get(asked.name, ""), look) for asked in accounts.questions(account)
        ]
        form = Form(
            title=look["accountEdit.title"],
            heading=look["accountEdit.heading"],
            lead=look.fill("account.lead", users.primary_login_id(account.user), strong=True),
            submit=look["accountEdit.submit"],
            fields=[*plain, *_confirmation_fields(place, account)],
            buttons=_confirmation_buttons(place, account),
        )
        return self.account_form(place, account, form, told)

    def next_page(self, place: PageContext, started: OpenVerification | None) -> str:
        """Where a saved form leads: to the code of a new address, else to the account."""
        if started is not None and started.one_time_code is not None:
            return at(f"/email/verify/{started.id}", place)
        return at("/account", place, changed="data" if started is None else "email")


class PasswordHandler(AccountPage):
    """`/account/password`: a new password, for whoever knows the present one."""

    page = "/account/password"
    is_sensitive = True

    @endpoint(access=Access.BROWSER, query=REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call) -> Reply:
        """Show the form."""

        async def show(place: PageContext, account: Account) -> Reply:
            return self.asked(place, account)

        return await self.entered(call, self.parameters(REQUEST), show)

    @endpoint(access=Access.BROWSER, form=FORM, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def post(self, call: Call, form: Document) -> Reply:
        """Change the password; the login has to be done again."""

        async def show(place: PageContext, account: Account) -> Reply:
            if not self.is_own(account, form):
                return self.asked(place, account, STALE)
            password = form.get("password", "")
            if password != form.get("passwordConfirm", ""):
                different = FieldError.of("doNotMatch", "passwordConfirm", "The two passwords are not the same.")
                return self.asked(place, account, Told([different]))
            current = form.get("currentPassword", "")
            result = await tried(accounts.change_password(self.services, call, account, current, password))
            if result.told is not None:
                return self.asked(place, account, result.told)
            return Reply(status=302, headers={"Location": at("/account", place, changed="password")})

        return await self.entered(call, form, show)

    def asked(self, place: PageContext, account: Account, told: Told = NOTHING) -> Reply:
        """The form."""
        look = place.look
        hints = fields.password_hints(place.tenant["passwordValidationRules"], look)
        plain = [
            Field("currentPassword", look["accountPassword.current"], "password", "current-password"),
            Field("password", look["changePassword.password"], "password", "new-password", hints=hints),
            Field("passwordConfirm", look["changePassword.confirm"], "password", "new-password"),
        ]
        form = Form(
            title=look["accountPassword.title"],
            heading=look["accountPassword.heading"],
            lead=look["accountPassword.lead"],
            submit=look["accountPassword.submit"],
            fields=plain,
        )
        return self.account_form(place, account, form, told)


def at(path: str, place: PageContext, **more: str) -> str:
    """Another page about the same place."""
    return f"{path}?{urllib.parse.urlencode({**place.carried, **more})}"


async def tried(change: Awaitable[T]) -> Attempt[T]:
    """Make a change that a form requests; answers its result, or the message where it was refused."""
    try:
        return Attempt(await change)
    except Invalid as error:
        return Attempt(told=Told(error.fields, error.general))
    except Unavailable:
        return Attempt(told=Told(message="[RateLimitedException]"))
    except WebhookTransactionFailed:
        return Attempt(told=Told(message="verify.vetoed"))


def account_name(account: Account) -> str:
    """The name of a login in its forms."""
    return fingerprint(f"account {account.current.session.session_id} {account.user_id}")[:32]


def _confirmation_fields(place: PageContext, account: Account) -> list[Field]:
    """The field that confirms a new email address."""
    look = place.look
    match accounts.confirmation_of(account):
        case "currentPassword":
            label = look["accountEdit.currentPassword"]
            return [Field("currentPassword", label, "password", "current-password", is_required=False)]
        case "code":
            return [Field("code", look["accountEdit.code"], "text", "one-time-code", is_required=False)]
    return []


def _confirmation_buttons(place: PageContext, account: Account) -> list[tuple[str, str, str]]:
    """A button for each second factor whose code has to be sent."""
    if accounts.confirmation_of(account) != "code":
        return []
    methods = [two_factor.visible_method(one, is_masked=True) for one in account.user["twoFactor"]["methods"]]
    sendable = [one for one in methods if one["method"] in two_factor.ADDRESS_MEMBERS]
    return [
        (place.look.fill("twoFactor.send", one[two_factor.ADDRESS_MEMBERS[one["method"]]]), "methodId", one["id"])
        for one in sendable
    ]


def _facts(place: PageContext, account: Account, pending_email: str) -> list[tuple[str, str]]:
    """What is known of the user, label and value."""
    look, user = place.look, account.user
    found: list[tuple[str, str]] = []
    if user.get("email"):
        key = "account.verified" if user["verified"] else "account.unverified"
        found.append((look["user.email"], look.fill(key, user["email"])))
    if pending_email:
        found.append((look["account.newEmail"], pending_email))
    found += [(look[f"user.{member}"], str(user[member])) for member in _SHOWN if user.get(member)]
    if user.get("preferredLanguages"):
        found.append((look["user.preferredLanguages"], ", ".join(user["preferredLanguages"])))
    return found


ROUTES = [
    Route("/account", HomeHandler),
    Route("/account/edit", EditHandler),
    Route("/account/password", PasswordHandler),
]
