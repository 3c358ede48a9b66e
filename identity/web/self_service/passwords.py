"""`/password/*`: a forgotten password, the link of the mail about it, and the form on which a password is changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from identity.call import Call, Document
from identity.errors import FieldError, Invalid, InvalidRequest, NotFound, Unavailable, WebhookTransactionFailed
from identity.operations.authorization import login_resumption
from identity.operations.login_transactions import login_transactions
from identity.operations.login_transactions.login_transactions import InterruptedTransaction
from identity.operations.messaging import user_notifications
from identity.operations.pages import password_pages
from identity.operations.pages.password_pages import PasswordForm, TwoFactorForm
from identity.operations.password_changes import password_changes
from identity.web.base_handlers import Route
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.hosted import csrf
from identity.web.hosted.fields import Field, Form, messages_without_field, password_hints, with_errors
from identity.web.oauth2.login_flow import LoginFlowHandler
from identity.web.oauth2.oauth_handlers import PAGE_OR_REDIRECT
from identity.web.self_service.page_context import REQUEST, PageContext, SelfServiceHandler

_FORGOT: Final = "oauth2/forgot-password.form.json"
_CHANGE: Final = "oauth2/change-password.form.json"
_PASSWORD: Final = "password"  # noqa: S105 (the name of a field)
_CONFIRM: Final = "passwordConfirm"
_DIFFERENT: Final = FieldError.of("doNotMatch", _CONFIRM, "The two passwords are not the same.")


class ForgotHandler(SelfServiceHandler):
    """Asks for whom a mail is to be sent; nobody learns whether anybody is there."""

    @endpoint(access=Access.BROWSER, query=REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call) -> Reply:
        """Show the form."""
        given = self.parameters(REQUEST)
        return self.asked(await self.place(call, given), given.get("login_hint", ""))

    @endpoint(access=Access.BROWSER, form=_FORGOT, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def post(self, call: Call, form: Document) -> Reply:
        """Send the mail, when the answer is out."""
        place, login_id = await self.place(call, form), form.get("loginId", "").strip()
        if not csrf.has_valid_token(self, form):
            return self.asked(place, login_id, message=csrf.INVALID_TOKEN)
        if not is_sent(place):
            raise InvalidRequest("unknown", "No mails for forgotten passwords are sent here.")
        if not login_id:
            return self.asked(place, login_id, message="forgot.blank")
        state = {name: value for name, value in place.given.items() if name not in {"client_id", "tenantId"}}
        try:
            await password_changes.request_reset(
                self.services, call.within(place.tenant_id), place.tenant, login_id,
                application=place.application, state=state or None,
            )  # fmt: skip
        except Unavailable:
            return self.asked(place, login_id, message="[RateLimitedException]")
        return self.moved("/password/sent", place)

    def asked(self, place: PageContext, login_id: str, *, message: str = "") -> Reply:
        """The form; or that there is none, where no such mails are sent."""
        look = place.look
        links = [(look["forgot.back"], place.login)] if place.login else []
        if not is_sent(place):
            return self.notice(place, "forgotOff", links=links)
        field = Field("loginId", look["login.loginId"], "text", "username", login_id[:500], is_focused=True)
        form = Form(
            title=look["forgot.title"],
            heading=look["forgot.heading"],
            lead=look["forgot.lead"],
            submit=look["forgot.submit"],
            fields=[field],
            message=look[message] if message else "",
            links=links,
        )
        return csrf.with_status(self.form_page(place, form), message)


class SentHandler(SelfServiceHandler):
    """What is said after the form was sent, to everybody."""

    @endpoint(access=Access.BROWSER, query=REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call) -> Reply:
        """Say that a mail is on its way, if it is."""
        place = await self.place(call, self.parameters(REQUEST))
        links = [(place.look["forgot.back"], place.login)] if place.login else []
        return self.notice(place, "forgotSent", links=[*links, (place.look["forgotSent.again"], forgot_path(place))])


class CompleteHandler(SelfServiceHandler):
    """The end of a change."""

    @endpoint(access=Access.BROWSER, query=REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call) -> Reply:
        """Say that the password was changed."""
        place = await self.place(call, self.parameters(REQUEST))
        links = [(place.look["selfService.login"], place.login)] if place.login else []
        return self.notice(place, "passwordComplete", links=links)


class ChangeHandler(SelfServiceHandler, LoginFlowHandler):
    """The form for a new password, of the mail's link or in the middle of a login; the second factor comes first."""

    @endpoint(access=Access.BROWSER, query=REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call, change_id: str) -> Reply:
        """Show the form. A link may be fetched as often as anybody likes."""
        place, _ = await self.around(call, self.parameters(REQUEST), change_id)
        if place is None:
            return await self.over(call, self.parameters(REQUEST))
        try:
            step = await password_pages.show(self.services, call, change_id, self.issued()[0])
        except NotFound:
            return await self.over(call, self.parameters(REQUEST))
        return self.asked(place, step)

    @endpoint(access=Access.BROWSER, form=_CHANGE, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def post(self, call: Call, form: Document, change_id: str) -> Reply:
        """Take the code of the second factor, or the new password."""
        place, transaction = await self.around(call, form, change_id)
        browser = csrf.browser(self)
        try:
            if place is None:
                raise NotFound
            step = await password_pages.show(self.services, call, change_id, browser)
            if not csrf.has_valid_token(self, form):
                return self.asked(place, step, message=csrf.INVALID_TOKEN)
            if isinstance(step, TwoFactorForm):
                return self.asked(place, await self.challenged(call, form, change_id, browser))
            return await self.changed(call, place, step, form, change_id, transaction)
        except NotFound:
            return await self.over(call, form)

    async def around(
        self, call: Call, given: Document, change_id: str
    ) -> tuple[PageContext | None, InterruptedTransaction | None]:
        """Whose page it is, and the login that waits for it, if one does; no place for an id that is over."""
        named = await self.place(call, given)
        inside = call.within(named.tenant_id) if {"client_id", "tenantId"} & given.keys() else call
        try:
            found = await password_changes.get_valid_id(self.services, inside, change_id)
        except NotFound:
            return None, None
        place = await self.place(call, given, found.tenant)
        if "intent" not in given:
            return place, None
        hints, cookie = self.tenant_hints(None, given), self.cookie(login_transactions.COOKIE)
        transaction = await login_resumption.find_interrupted(
            self.services, call, hints, given, cookie, login_transactions.CHANGE_PASSWORD
        )
        if transaction.login.user_id != found.user["id"]:
            raise login_transactions.ended()
        return place, transaction

    async def challenged(
        self, call: Call, form: Document, change_id: str, browser: str
    ) -> TwoFactorForm | PasswordForm:
        """What comes of an answer to the question for a second factor."""
        if form.get("action") == "send":
            method_id = form.get("methodId", "")
            return await password_pages.send(self.services, call, change_id, browser, method_id)
        return await password_pages.answer(self.services, call, change_id, browser, form.get("code", ""))

    async def changed(
        self,
        call: Call,
        place: PageContext,
        step: PasswordForm,
        form: Document,
        change_id: str,
        transaction: InterruptedTransaction | None,
    ) -> Reply:
        """The way on when the password is set; the form again when it cannot be."""
        password = form.get(_PASSWORD, "")
        if password != form.get(_CONFIRM, ""):
            return self.asked(place, step, errors=[_DIFFERENT])
        try:
            await password_pages.complete(self.services, call, step, change_id, password)
        except Invalid as error:
            return self.asked(place, step, errors=error.fields)
        except WebhookTransactionFailed:
            return self.asked(place, step, message="verify.vetoed")
        except Unavailable:
            return self.asked(place, step, message="[ServiceBusy]")
        if transaction is None:
            return self.moved("/password/complete", place)
        self.verified_client = transaction.verified_client
        login = dataclasses.replace(
            transaction.login, reason_to_change=None, authenticated_instant=self.services.clock.now()
        )
        following = await login_resumption.resume(self.services, call, transaction, self.browser(), login)
        return await self.shown(following, transaction.verified_client.given)

    def asked(
        self,
        place: PageContext,
        step: TwoFactorForm | PasswordForm,
        *,
        errors: Sequence[FieldError] = (),
        message: str = "",
    ) -> Reply:
        """The question for the second factor, or the form for the password."""
        look = place.look
        if isinstance(step, TwoFactorForm):
            return self.challenge_page(place, step.methods, step.message or message, is_sent=step.is_sent)
        hints = password_hints(place.tenant["passwordValidationRules"], look)
        plain = [
            Field(_PASSWORD, look["changePassword.password"], "password", "new-password", hints=hints),
            Field(_CONFIRM, look["changePassword.confirm"], "password", "new-password"),
        ]
        reason = step.found.details.reason
        told = " ".join(messages_without_field(errors, plain, look))
        form = Form(
            title=look["changePassword.title"],
            heading=look["changePassword.setUp" if step.found.details.is_setup else "changePassword.heading"],
            lead=look[f"changePassword.{reason.lower()}"] if reason else "",
            submit=look["changePassword.submit"],
            fields=with_errors(plain, errors, look),
            message=look[message] if message else told,
        )
        return csrf.with_status(self.form_page(place, form), message)

    async def over(self, call: Call, given: Document) -> Reply:
        """The page for an id that does not count any more."""
        place = await self.place(call, given)
        links = [(place.look["passwordOver.again"], forgot_path(place))] if is_sent(place) else []
        return self.notice(place, "passwordOver", links=links)


def is_sent(place: PageContext) -> bool:
    """Whether mails for forgotten passwords are sent at all."""
    return user_notifications.template_of(place.tenant, place.application, password_changes.FORGOT_TEMPLATE) is not None


def forgot_path(place: PageContext) -> str:
    """The way to the page for a forgotten password."""
    return f"/password/forgot?{place.query}" if place.carried else "/password/forgot"


ROUTES = [
    Route("/password/forgot", ForgotHandler),
    Route("/password/sent", SentHandler),
    Route("/password/complete", CompleteHandler),
    Route("/password/change/{change_id}", ChangeHandler),
]
