"""/api/user/verify-email, /api/user/verify-registration, /api/identity/verify: verifications."""

from __future__ import annotations

from typing import ClassVar, Final

from identity.call import Call, Document
from identity.operations.verification import identity_verifications, verification_api
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Reply, calls, endpoint

_STARTED: Final = "api/verification-started.response.json"


class VerifyEmailHandler(ApiHandler):
    """Verify an email address, or send a verification mail."""

    uuid_paths: ClassVar[bool] = False

    @endpoint(access=Access.OPTIONAL_KEY, raw_body=True, body_required=False, takes="api/verify-email.request.json")
    async def post(self, call: Call, body: Document, verification_id: str | None = None) -> Reply:
        """Verify by an id, or with an API key a user."""
        await verification_api.verify_email(self.services, call, body, verification_id)
        return Reply()


class StartEmailHandler(VerifyEmailHandler):
    """The path without an id."""

    @endpoint(
        access=Access.OPTIONAL_KEY,
        query={"applicationId": "text", "email": "text", "sendVerifyEmail": "boolean"},
        answer={200: _STARTED},
    )
    async def put(self, call: Call) -> Reply:
        """Start the verification of a user's address."""
        query = self.query()
        wanted = verification_api.VerificationRequest(
            query.get("email"), query.get("applicationId"), self.flag("sendVerifyEmail", default=True)
        )
        return Reply(await verification_api.start_email(self.services, call, wanted) or None)


class VerifyRegistrationHandler(ApiHandler):
    """Verify a registration."""

    uuid_paths: ClassVar[bool] = False

    @endpoint(access=Access.OPTIONAL_KEY, takes="api/verify-registration.request.json")
    async def post(self, call: Call, verification_id: str | None = None) -> Reply:
        """Verify by an id."""
        await verification_api.verify_registration(self.services, call, self.optional_body(), verification_id)
        return Reply()


class StartRegistrationHandler(VerifyRegistrationHandler):
    """The path without an id."""

    @endpoint(
        access=Access.OPTIONAL_KEY,
        query={
            "applicationId": "text",
            "email": "text",
            "sendVerifyPasswordEmail": "boolean",
            "sendVerifyRegistrationEmail": "boolean",
        },
        answer={200: _STARTED},
    )
    async def put(self, call: Call) -> Reply:
        """Start the verification of a user's registration."""
        query = self.query()
        # Published clients use the second name.
        names = ("sendVerifyRegistrationEmail", "sendVerifyPasswordEmail")
        is_sent = all(self.flag(name, default=True) for name in names)
        wanted = verification_api.VerificationRequest(query.get("email"), query.get("applicationId"), is_sent)
        return Reply(await verification_api.start_registration(self.services, call, wanted) or None)


class VerifyIdentityHandler(ApiHandler):
    """Mark a login id as verified."""

    post = calls(
        identity_verifications.verify, "Verify a login id of a user at once.", takes="api/identity-verify.request.json"
    )


class StartIdentityHandler(ApiHandler):
    """The start of a verification."""

    post = calls(
        identity_verifications.start,
        "Start, without sending a message.",
        takes="api/identity-verify-start.request.json",
        answer=_STARTED,
    )


class SendIdentityHandler(ApiHandler):
    """The messages of verifications."""

    post = calls(
        identity_verifications.send, "Send the message to the login id.", takes="api/identity-verify-send.request.json"
    )


class CompleteIdentityHandler(ApiHandler):
    """Verify a login id."""

    post = calls(
        identity_verifications.complete,
        "Verify by the id and its code.",
        takes="api/identity-verify-complete.request.json",
        answer="api/identity-verify-complete.response.json",
    )


ROUTES = [
    Route("/api/identity/verify", VerifyIdentityHandler),
    Route("/api/identity/verify/complete", CompleteIdentityHandler),
    Route("/api/identity/verify/send", SendIdentityHandler),
    Route("/api/identity/verify/start", StartIdentityHandler),
    Route("/api/user/verify-email", StartEmailHandler),
    Route("/api/user/verify-email/{verification_id}", VerifyEmailHandler),
    Route("/api/user/verify-registration", StartRegistrationHandler),
    Route("/api/user/verify-registration/{verification_id}", VerifyRegistrationHandler),
]
