"""`/email/*` and `/registration/*`: the links of verification mails, and what they lead to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from identity.call import Call, Document
from identity.errors import FieldError, Invalid, InvalidRequest, NotFound, WebhookTransactionFailed
from identity.operations.pages import verification_links
from identity.operations.pages.verification_links import VerificationLink
from identity.operations.sessions import sso_sessions
from identity.operations.verification.verification_codes import VerificationKind
from identity.web.base_handlers import Route
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.hosted import csrf
from identity.web.hosted.fields import Field, Form, with_errors
from identity.web.oauth2.oauth_handlers import PAGE_OR_REDIRECT
from identity.web.self_service.page_context import REQUEST, PageContext, SelfServiceHandler

_FORM: Final = "oauth2/verify.form.json"
_CODE: Final = "oneTimeCode"
_VETOED: Final = "verify.vetoed"


class _Verify(SelfServiceHandler):
    """What the pages of both kinds share."""

    kind: VerificationKind
    room: str
    """The first part of the paths."""
    words: str
    ending: str
    """The first parts of the keys of the texts: of the link's page, and of the last one."""

    async def around(
        self, call: Call, given: Document, verification_id: str
    ) -> tuple[PageContext, VerificationLink | None]:
        """Whose page it is, and what the link stands for: whoever names another tenant than the link's finds none."""
        place = await self.place(call, given)
        is_named = "client_id" in given or "tenantId" in given
        tenant_id = place.tenant_id if is_named else None
        link = await verification_links.sought(self.services, call, tenant_id, self.kind, verification_id)
        return (place if link is None else await self.place(call, given, link.tenant)), link

    async def show(self, call: Call, place: PageContext, link: VerificationLink | None, verification_id: str) -> Reply:
        """What the link leads to; it verifies nothing unless its user is signed in here."""
        if link is None:
            return self.over(place)
        if link.is_done:
            return self.done(place)
        if link.asks_code or not await verification_links.is_own(self.services, link, self.cookie(sso_sessions.COOKIE)):
            return self.confirm(place, link)
        return await self.followed(call, place, link, verification_id, "")

    async def followed(
        self, call: Call, place: PageContext, link: VerificationLink, verification_id: str, code: str
    ) -> Reply:
        """What comes of following the link."""
        try:
            await verification_links.follow(self.services, call, self.kind, link, verification_id, code)
        except Invalid as error:
            return self.confirm(place, link, error.fields)
        except NotFound:
            # Another tab was faster, or the code was tried too often.
            again = await verification_links.find(self.services, link.tenant_id, self.kind, verification_id)
            return self.done(place) if again is not None and again.is_done else self.over(place)
        except WebhookTransactionFailed:
            return self.confirm(place, link, message=_VETOED)
        return self.done(place)

    def confirm(
        self,
        place: PageContext,
        link: VerificationLink,
        errors: Sequence[FieldError] = (),
        *,
        message: str = "",
    ) -> Reply:
        """The page with the button, and a field for the code where the mail has one."""
        look = place.look
        code = Field(_CODE, look["verify.code"], "text", "one-time-code")
        form = Form(
            title=look[f"{self.words}.title"],
            heading=look[f"{self.words}.heading"],
            lead=look[f"{self.words}.code" if link.asks_code else f"{self.words}.lead"],
            submit=look[f"{self.words}.submit"],
            fields=with_errors([code], errors, look) if link.asks_code else [],
            message=look[message] if message else "",
        )
        return csrf.with_status(self.form_page(place, form), message)

    def over(self, place: PageContext, *, message: str = "", email: str = "") -> Reply:
        """The page for a link that does not count any more; it sends another one, where any are sent."""
        if not verification_links.may_send(place.tenant, self.kind, place.application):
            return self.notice(place, "verifyOver")
        look = place.look
        form = Form(
            action=f"/{self.room}/verify",
            title=look["verifyOver.title"],
            heading=look["verifyOver.heading"],
            lead=look["verifyOver.lead"],
            submit=look["verifyOver.submit"],
            fields=with_errors([Field("email", look["user.email"], "email", "email", email)], (), look),
            message=look[message] if message else "",
        )
        return csrf.with_status(self.form_page(place, form), message)

    def done(self, place: PageContext) -> Reply:
        """The way to the last page."""
        return self.moved(f"/{self.room}/complete", place)


class _Link(_Verify):
    """`/{room}/verify/{id}`."""

    @endpoint(access=Access.BROWSER, query=REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call, verification_id: str) -> Reply:
        """Follow the link of a mail."""
        place, link = await self.around(call, self.parameters(REQUEST), verification_id)
        return await self.show(call, place, link, verification_id)

    @endpoint(access=Access.BROWSER, form=_FORM, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def post(self, call: Call, form: Document, verification_id: str) -> Reply:
        """Take the press of the button, and the code."""
        place, link = await self.around(call, form, verification_id)
        if link is None:
            return self.over(place)
        if not csrf.has_valid_token(self, form):
            return self.confirm(place, link, message=csrf.INVALID_TOKEN)
        return await self.followed(call, place, link, verification_id, form.get(_CODE, "").strip())


class _Again(_Verify):
    """`/{room}/verify`: another link for one that is over."""

    @endpoint(access=Access.BROWSER, query=REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call) -> Reply:
        """Show the form."""
        return self.over(await self.place(call, self.parameters(REQUEST)))

    @endpoint(access=Access.BROWSER, form=_FORM, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def post(self, call: Call, form: Document) -> Reply:
        """Send another link, if somebody waits for one; the answer is the same for nobody."""
        place, email = await self.place(call, form), form.get("email", "").strip()
        if not csrf.has_valid_token(self, form):
            return self.over(place, message=csrf.INVALID_TOKEN, email=email)
        if not email:
            return self.over(place, message="[blank]user.email")
        if not verification_links.may_send(place.tenant, self.kind, place.application):
            raise InvalidRequest("unknown", "No such links are sent here.")
        if not await verification_links.send_again(
            self.services, call, place.tenant, self.kind, place.application, email
        ):
            return self.over(place, message="[RateLimitedException]", email=email)
        return self.moved(f"/{self.room}/sent", place)


class _Sent(_Verify):
    """`/{room}/sent`."""

    @endpoint(access=Access.BROWSER, query=REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call) -> Reply:
        """Say that a mail is on its way, if it is."""
        place = await self.place(call, self.parameters(REQUEST))
        again = f"/{self.room}/verify?{place.query}"
        return self.notice(place, "verifySent", links=_back(place) or [(place.look["verifySent.again"], again)])


class _Complete(_Verify):
    """`/{room}/complete`."""

    @endpoint(access=Access.BROWSER, query=REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call) -> Reply:
        """Say that it is verified."""
        place = await self.place(call, self.parameters(REQUEST))
        return self.notice(place, self.ending, links=_back(place))


def _back(place: PageContext) -> list[tuple[str, str]]:
    """The way back to a login, where one brought the user here."""
    return [(place.look["selfService.login"], place.login)] if place.login else []


_KINDS: Final = (
    {"kind": verification_links.EMAIL, "room": "email", "words": "emailVerify", "ending": "emailComplete"},
    {
        "kind": verification_links.REGISTRATION,
        "room": "registration",
        "words": "registrationVerify",
        "ending": "registrationComplete",
    },
)

ROUTES = [
    Route(f"/{about['room']}{path}", handler, about)
    for about in _KINDS
    for path, handler in (
        ("/verify/{verification_id}", _Link),
        ("/verify", _Again),
        ("/sent", _Sent),
        ("/complete", _Complete),
    )
]
