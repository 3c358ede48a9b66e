"""/api/passwordless: logins without a password."""

from __future__ import annotations

from typing import Final

from identity.call import Call, Document
from identity.errors import Unauthorized
from identity.operations.authorization import passwordless
from identity.operations.two_factor import two_factor_trust
from identity.web.api.login import LOGIN_ANSWERS, LoginApiHandler
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Reply, calls, endpoint

_ANSWERS: Final = {status: body for status, body in LOGIN_ANSWERS.items() if status != Unauthorized.status}


class StartHandler(ApiHandler):
    """The start of a login."""

    post = calls(
        passwordless.start,
        "Create a code, which the caller sends to the user.",
        takes="api/passwordless-start.request.json",
        answer="api/passwordless-start.response.json",
    )


class SendHandler(ApiHandler):
    """Mails with codes."""

    post = calls(
        passwordless.send,
        "Mail a code to the user.",
        access=Access.RECOGNIZED_KEY,
        takes="api/passwordless-send.request.json",
    )


class LoginHandler(LoginApiHandler):
    """The completion of a login."""

    @endpoint(access=Access.RECOGNIZED_KEY, raw_body=True, takes="api/passwordless-login.request.json", answer=_ANSWERS)
    async def post(self, call: Call, body: Document) -> Reply:
        """Log in with a code."""
        return self.respond(await passwordless.log_in(self.services, call, body, self.cookie(two_factor_trust.COOKIE)))


ROUTES = [
    Route("/api/passwordless/start", StartHandler),
    Route("/api/passwordless/send", SendHandler),
    Route("/api/passwordless/login", LoginHandler),
]
