"""/api/two-factor: challenges, their codes, and the logins that they complete."""

from __future__ import annotations

from typing import Final

from identity.call import Call, Document
from identity.operations import two_factor_login_api, two_factor_logins, two_factor_trust
from identity.web.api.login import LOGIN_ANSWERS, LoginFamily
from identity.web.endpoint import Access, ApiHandler, Reply, Route, endpoint

_LOGIN_ANSWERS: Final = {status: body for status, body in LOGIN_ANSWERS.items() if status != 401} | {421: None}
_SEND: Final = "api/two-factor-login-send.request.json"


class StartHandler(ApiHandler):
    """Challenges that a caller of the API begins."""

    @endpoint(
        access=Access.API_KEY,
        raw_body=True,
        takes="api/two-factor-start.request.json",
        answer="api/two-factor-start.response.json",
    )
    async def post(self, call: Call, body: Document) -> Reply:
        """Begin one."""
        return Reply(await two_factor_login_api.start(self.services, call, body))


class LoginHandler(LoginFamily):
    """Completing a login."""

    @endpoint(access=Access.PUBLIC, raw_body=True, takes="api/two-factor-login.request.json", answer=_LOGIN_ANSWERS)
    async def post(self, call: Call, body: Document) -> Reply:
        """Log in with a code; where the computer is to be trusted, its cookie tells of it from then on."""
        trust_id = self.cookie(two_factor_trust.COOKIE)
        done = await two_factor_login_api.log_in(self.services, call, body, trust_id)
        reply = self.answered(done.answer)
        if done.trust_seconds is None or done.answer.body is None:
            return reply
        morsel = self.new_cookie(two_factor_trust.COOKIE, done.answer.body["twoFactorTrustId"], done.trust_seconds)
        return Reply(reply.body, reply.status, cookies=[*reply.cookies, morsel])


class LoginSendHandler(ApiHandler):
    """The codes of a challenge."""

    uuid_paths = False

    @endpoint(access=Access.PUBLIC, takes=_SEND)
    async def post(self, call: Call, two_factor_id: str) -> Reply:
        """Send a code to the address of a method."""
        request = self.services.schemas[_SEND].read(self.optional_body())
        await two_factor_logins.send(self.services, call, two_factor_id, request.get("methodId"))
        return Reply()


ROUTES = [
    Route("/api/two-factor/start", StartHandler),
    Route("/api/two-factor/login", LoginHandler),
    Route("/api/two-factor/send/{two_factor_id}", LoginSendHandler),
]
