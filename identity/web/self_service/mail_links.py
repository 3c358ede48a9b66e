"""`/email/*`, `/phone/*` and `/registration/*`: the pages of links and codes in mails.

They verify addresses and registrations, and revoke changes. Links below the URL of a tenant, `${tenant.issuer}/email`,
redirect to them: the issuer ends in the tenant id.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Sequence
from typing import Final

from identity.call import Call, Document
from identity.errors import FieldError, Invalid, InvalidRequest, NotFound, WebhookTransactionFailed
from identity.operations.pages import page_messages, registration_code, verification_links
from identity.operations.pages.verification_links import VerificationLink
from identity.operations.sessions import sso_sessions
from identity.operations.verification import email_changes, phone_change_revocations, verification_api
from identity.operations.verification.verification_codes import VerificationKind
from identity.web.base_handlers import Route
from identity.web.endpoint import Reply, page_endpoint, redirect
from identity.web.hosted import csrf
from identity.web.hosted.fields import Field, Form, form_texts, with_errors
from identity.web.self_service.page_context import REQUEST, PageContext, SelfServiceHandler

_FORM: Final = "oauth2/verify.form.json"
_CODE: Final = "oneTimeCode"
_KINDS: Final = (
    {
        "kind": verification_links.EMAIL,
        "folder": "email",
        "link_texts": "emailVerify",
        "complete_texts": "emailComplete",
    },
    {
        "kind": verification_links.REGISTRATION,
        "folder": "registration",
        "link_texts": "registrationVerify",
        "complete_texts": "registrationComplete",
    },
)

_PATHS: Final = ("/email/verify", "/password/change", "/registration/verify")
_WRONG: Final = FieldError.of("invalid", _CODE, "This code is incorrect.")


class _VerificationHandler(SelfServiceHandler):
    """Base of the pages of one kind of verification."""

    kind: VerificationKind
    folder: str
    """The first part of the paths."""
    link_texts: str
    complete_texts: str
    """The first parts of the text keys, of the link's page and of the last page."""

    async def load_link(
        self, call: Call, given: Document, verification_id: str
    ) -> tuple[PageContext, VerificationLink | None]:
        """Return the context and the link; None if it is invalid, or not of the tenant that is named."""
        context = await self.load_context(call, given)
        tenant_id = context.tenant_id if "client_id" in given or "tenantId" in given else None
        link = await verification_links.find_limited(self.services, call, tenant_id, self.kind, verification_id)
        if link is not None:
            context = await self.load_context(call, given, link.tenant)
        return context, link

    async def follow(
        self, call: Call, context: PageContext, link: VerificationLink, verification_id: str, code: str
    ) -> Reply:
        """Verify the address or registration, and return the next page."""
        try:
            await verification_links.follow(self.services, call, self.kind, link, verification_id, code)
        except Invalid as error:
            return self.confirmation(context, link, errors=error.fields)
        except NotFound:
            # Another request was faster, or there were too many incorrect codes.
            link_now = await verification_links.find(self.services, link.tenant_id, self.kind, verification_id)
            if link_now is None or not link_now.is_verified:
                return self.expired(context)
        except WebhookTransactionFailed:
            return self.confirmation(context, link, page_messages.CHANGE_REJECTED)
        return self.completed(context)

    def confirmation(
        self, context: PageContext, link: VerificationLink, message: str = "", *, errors: Sequence[FieldError] = ()
    ) -> Reply:
        """Return the page with the button, and a field for the code if the email contains one."""
        theme = context.theme
        code = Field(_CODE, theme["verify.code"], "text", "one-time-code")
        form = Form(
            **form_texts(theme, self.link_texts, theme[f"{self.link_texts}.code"] if link.uses_code else None),
            fields=with_errors([code], errors, theme) if link.uses_code else [],
        )
        return self.form_page(context, form, message)

    def expired(self, context: PageContext, message: str = "", *, email: str = "") -> Reply:
        """Return the page for an invalid link, with a form that requests another one where links are sent."""
        if not verification_links.may_send(context.tenant, self.kind, context.application):
            return self.notice(context, "verifyOver")
        theme = context.theme
        form = Form(
            action=f"/{self.folder}/verify",
            **form_texts(theme, "verifyOver"),
            fields=with_errors([Field("email", theme["user.email"], "email", "email", email)], (), theme),
        )
        return self.form_page(context, form, message)

    def completed(self, context: PageContext) -> Reply:
        """Return the redirect to the last page."""
        return redirect(context.url(f"/{self.folder}/complete"))


class _LinkHandler(_VerificationHandler):
    """`/{folder}/verify/{id}`."""

    @page_endpoint(query=REQUEST)
    async def get(self, call: Call, verification_id: str) -> Reply:
        """Show the page of a link; it verifies nothing unless its user is signed in in this browser."""
        context, link = await self.load_link(call, self.parameters(), verification_id)
        if link is None:
            return self.expired(context)
        if link.is_verified:
            return self.completed(context)
        sso_secret = self.cookie(sso_sessions.COOKIE)
        if link.uses_code or not await verification_links.is_signed_in(self.services, link, sso_secret):
            return self.confirmation(context, link)
        return await self.follow(call, context, link, verification_id, "")

    @page_endpoint(form=_FORM)
    async def post(self, call: Call, form: Document, verification_id: str) -> Reply:
        """Verify with the button, or with a code."""
        context, link = await self.load_link(call, form, verification_id)
        if link is None:
            return self.expired(context)
        if not csrf.has_valid_token(self, form):
            return self.confirmation(context, link, csrf.INVALID_TOKEN)
        return await self.follow(call, context, link, verification_id, form.get(_CODE, "").strip())


class _RequestHandler(_VerificationHandler):
    """`/{folder}/verify`: request another link."""

    @page_endpoint(query=REQUEST)
    async def get(self, call: Call) -> Reply:
        """Show the form."""
        return self.expired(await self.load_context(call, self.parameters()))

    @page_endpoint(form=_FORM)
    async def post(self, call: Call, form: Document) -> Reply:
        """Send another link, if the address has to be verified; the response does not reveal whether it has."""
        context, email = await self.load_context(call, form), form.get("email", "").strip()
        if not csrf.has_valid_token(self, form):
            return self.expired(context, csrf.INVALID_TOKEN, email=email)
        if not email:
            return self.expired(context, "[blank]user.email")
        tenant, application = context.tenant, context.application
        if not verification_links.may_send(tenant, self.kind, application):
            raise InvalidRequest("unknown", "Links of this kind are not enabled.")
        if not await verification_links.send_again(self.services, call, tenant, self.kind, application, email):
            return self.expired(context, page_messages.TOO_MANY_ATTEMPTS, email=email)
        return redirect(context.url(f"/{self.folder}/sent"))


class _SentHandler(_VerificationHandler):
    """`/{folder}/sent`."""

    @page_endpoint(query=REQUEST)
    async def get(self, call: Call) -> Reply:
        """Show the notice."""
        context = await self.load_context(call, self.parameters())
        retry = (context.theme["verifySent.again"], context.url(f"/{self.folder}/verify"))
        return self.notice(context, "verifySent", context.login_links("selfService.login") or [retry])


class _CompleteHandler(_VerificationHandler):
    """`/{folder}/complete`."""

    @page_endpoint(query=REQUEST)
    async def get(self, call: Call) -> Reply:
        """Show the notice."""
        context = await self.load_context(call, self.parameters())
        return self.notice(context, self.complete_texts, context.login_links("selfService.login"))


class TenantLinkHandler(SelfServiceHandler):
    """Redirects to the page of the link, with the tenant as a query parameter."""

    path: str

    @page_endpoint(query=REQUEST)
    async def get(self, call: Call, tenant_id: str, link_id: str) -> Reply:
        """Redirect. Raises InvalidRequest for a tenant that does not exist."""
        given = {**self.parameters(), "tenantId": tenant_id}
        await self.load_context(call, given)
        path = f"{self.path}/{urllib.parse.quote(link_id, safe='')}"
        return redirect(f"{path}?{urllib.parse.urlencode(given)}")


class CodeHandler(SelfServiceHandler):
    """The page; it is the same for a new user and for an address in use."""

    @page_endpoint(query=REQUEST)
    async def get(self, call: Call, page_id: str) -> Reply:
        """Show the form."""
        context = await self.load_context(call, self.parameters())
        if not await registration_code.is_open(self.services, context.tenant_id, page_id):
            return self.expired(context)
        return self.code_page(context)

    @page_endpoint(form=_FORM)
    async def post(self, call: Call, form: Document, page_id: str) -> Reply:
        """Verify the address."""
        context = await self.load_context(call, form)
        if not csrf.has_valid_token(self, form):
            return self.code_page(context, message=csrf.INVALID_TOKEN)
        code = form.get(_CODE, "").strip()
        try:
            is_verified = await registration_code.verify(self.services, call, context.tenant_id, page_id, code)
        except NotFound:
            return self.expired(context)
        except WebhookTransactionFailed:
            return self.code_page(context, message=page_messages.CHANGE_REJECTED)
        if not is_verified:
            return self.code_page(context, is_wrong=True)
        return redirect(context.url("/email/complete"))

    def code_page(self, context: PageContext, message: str = "", *, is_wrong: bool = False) -> Reply:
        """Return the form."""
        theme = context.theme
        code = Field(_CODE, theme["verify.code"], "text", "one-time-code")
        form = Form(
            title=theme["registerSent.title"],
            heading=theme["registerSent.heading"],
            lead=theme["registerSent.code"],
            submit=theme["verificationRequired.submit"],
            fields=with_errors([code], [_WRONG] if is_wrong else [], theme),
            notes=[theme["registerSent.none"]],
            links=context.login_links("selfService.login"),
        )
        return self.form_page(context, form, message)

    def expired(self, context: PageContext) -> Reply:
        """Return the page for an expired code."""
        return self.notice(context, "registerCodeOver", context.login_links("selfService.login"))


class RevokeHandler(SelfServiceHandler):
    """Revokes a change on POST only: mail scanners fetch links."""

    text_prefix = "emailRevoke"
    done = "emailRevoked"
    revoke = staticmethod(email_changes.revoke)

    @page_endpoint(query=REQUEST)
    async def get(self, call: Call, token: str) -> Reply:
        """Show the button."""
        return self.confirmation(await self.load_context(call, self.parameters()))

    @page_endpoint(form=_FORM)
    async def post(self, call: Call, form: Document, token: str) -> Reply:
        """Revoke the change."""
        context = await self.load_context(call, form)
        if not csrf.has_valid_token(self, form):
            return self.confirmation(context, csrf.INVALID_TOKEN)
        try:
            async with verification_api.limit_failures(self.services, call):
                await self.revoke(self.services, call, context.tenant_id, token)
        except NotFound:
            return self.notice(context, "emailRevokeOver")
        except WebhookTransactionFailed:
            return self.confirmation(context, page_messages.CHANGE_REJECTED)
        link = (context.theme["emailRevoked.password"], context.url("/password/forgot"))
        return self.notice(context, self.done, [link])

    def confirmation(self, context: PageContext, message: str = "") -> Reply:
        """Return the page with the button; it is the same for unknown tokens."""
        theme = context.theme
        form = Form(
            title=theme[f"{self.text_prefix}.title"],
            heading=theme[f"{self.text_prefix}.heading"],
            lead=theme[f"{self.text_prefix}.lead"],
            submit=theme["emailRevoke.submit"],
        )
        return self.form_page(context, form, message)


class RevokePhoneHandler(RevokeHandler):
    """The same for a phone number."""

    text_prefix = "phoneRevoke"
    done = "phoneRevoked"
    revoke = staticmethod(phone_change_revocations.revoke)


ROUTES = [
    *(
        Route(f"/{kind['folder']}{path}", handler, kind)
        for kind in _KINDS
        for path, handler in (
            ("/verify/{verification_id}", _LinkHandler),
            ("/verify", _RequestHandler),
            ("/sent", _SentHandler),
            ("/complete", _CompleteHandler),
        )
    ),
    *(Route(f"/{{tenant_id}}{path}/{{link_id}}", TenantLinkHandler, {"path": path}) for path in _PATHS),
    Route("/email/code/{page_id}", CodeHandler),
    Route("/email/revoke-change/{token}", RevokeHandler),
    Route("/phone/revoke-change/{token}", RevokePhoneHandler),
]
