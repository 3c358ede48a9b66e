"""/api/two-factor: challenges, their codes, and the logins that they complete."""

from __future__ import annotations

from typing import Final

from identity.call import Call, Document
from identity.operations.api import two_factor_login_api, two_factor_method_api, two_factor_status
from identity.operations.login import two_factor_challenges
from identity.operations.two_factor import two_factor_methods, two_factor_trust
from identity.web.api.jwt import BearerHandler
from identity.web.api.login import LOGIN_ANSWERS, LoginApiHandler
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Query, Reply, endpoint

_LOGIN_ANSWERS: Final = {status: body for status, body in LOGIN_ANSWERS.items() if status != 401} | {421: None}
_SEND: Final = "api/two-factor-login-send.request.json"
_STATUS: Final = "api/two-factor-status.request.json"
_STATUS_ANSWERS: Final = dict.fromkeys((200, 242), "api/two-factor-status.response.json")
_STATUS_QUERY: Final[Query] = {"applicationId": "uuid", "userId": "uuid"}
_ENABLE: Final = "api/two-factor.request.json"
_ADDED: Final = "api/two-factor.response.json"
_ENABLED: Final = {200: f"{_ADDED}?", 404: None, 421: None}
_DISABLE: Final = "api/two-factor-disable.request.json"
_DISABLED: Final = {200: None, 404: None, 421: None}
_DISABLE_QUERY: Final[Query] = {"code": "text", "methodId": "text"}
_CODES: Final = "api/two-factor-recovery-code.response.json"


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


class LoginHandler(LoginApiHandler):
    """Completing a login."""

    @endpoint(
        access=Access.RECOGNIZED_KEY, raw_body=True, takes="api/two-factor-login.request.json", answer=_LOGIN_ANSWERS
    )
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

    @endpoint(access=Access.RECOGNIZED_KEY, takes=_SEND)
    async def post(self, call: Call, two_factor_id: str) -> Reply:
        """Send a code to the address of a method."""
        request = self.services.schemas[_SEND].read(self.optional_body())
        await two_factor_challenges.send_code(self.services, call, two_factor_id, request.get("methodId"))
        return Reply()


class SecretHandler(BearerHandler):
    """Secrets for authenticator apps."""

    @endpoint(access=Access.KEY_OR_BEARER, answer="api/two-factor-secret.response.json")
    async def get(self, call: Call) -> Reply:
        """Make one."""
        await two_factor_method_api.require_caller(self.services, call, self.token())
        return Reply(two_factor_methods.new_secret())


class SendHandler(BearerHandler):
    """The codes with which methods are added and removed."""

    @endpoint(access=Access.KEY_OR_BEARER, raw_body=True, takes="api/two-factor-send.request.json")
    async def post(self, call: Call, body: Document) -> Reply:
        """Send one."""
        await two_factor_method_api.send_code(self.services, call, self.token(), body)
        return Reply()


class StatusFamily(ApiHandler):
    """Whether a second factor is wanted of a user."""

    async def asked(self, call: Call, trust_id: str | None) -> Reply:
        """What is asked by query, of a device that may be trusted."""
        query = {name: self.query().get(name) for name in _STATUS_QUERY}
        named = {name: value for name, value in {**query, "twoFactorTrustId": trust_id}.items() if value}
        return await self.told(call, named)

    async def told(self, call: Call, body: Document) -> Reply:
        """The status with the trust that there is."""
        answer = await two_factor_status.retrieve(self.services, call, body)
        return Reply(answer.body, answer.status, reason=answer.reason)


class StatusHandler(StatusFamily):
    """As StatusFamily, for a login or another deed."""

    @endpoint(access=Access.API_KEY, query=_STATUS_QUERY, answer=_STATUS_ANSWERS)
    async def get(self, call: Call) -> Reply:
        """Ask for a login."""
        return await self.asked(call, None)

    @endpoint(access=Access.API_KEY, raw_body=True, takes=_STATUS, answer=_STATUS_ANSWERS)
    async def post(self, call: Call, body: Document) -> Reply:
        """Ask for a login or another deed."""
        return await self.told(call, body)


class TrustStatusHandler(StatusFamily):
    """As StatusFamily, of a device that may be trusted."""

    uuid_paths = False

    @endpoint(access=Access.API_KEY, query=_STATUS_QUERY, answer=_STATUS_ANSWERS)
    async def get(self, call: Call, two_factor_trust_id: str) -> Reply:
        """Ask for a login."""
        return await self.asked(call, two_factor_trust_id)


class MethodsHandler(BearerHandler):
    """The methods of the user whose access token it is."""

    @endpoint(access=Access.KEY_OR_BEARER, raw_body=True, takes=_ENABLE, answer=_ENABLED)
    async def post(self, call: Call, body: Document, user_id: str | None = None) -> Reply:
        """Add one."""
        added = await two_factor_method_api.enable(self.services, call, self.token(), body, user_id)
        return Reply(added or None)

    @endpoint(access=Access.KEY_OR_BEARER, query=_DISABLE_QUERY, takes=_DISABLE, answer=_DISABLED)
    async def delete(self, call: Call, user_id: str | None = None) -> Reply:
        """Remove one, or all by a recovery code; what the body says goes before the query."""
        asked = {name: self.query().get(name) for name in _DISABLE_QUERY}
        body = {**{name: value for name, value in asked.items() if value}, **self.optional_body()}
        await two_factor_method_api.disable(self.services, call, self.token(), body, user_id)
        return Reply()


class UserMethodsHandler(MethodsHandler):
    """The methods of a user."""

    @endpoint(access=Access.API_KEY, raw_body=True, takes="api/two-factor-update.request.json")
    async def put(self, call: Call, user_id: str, body: Document) -> Reply:
        """Name one."""
        await two_factor_method_api.rename(self.services, call, body, user_id)
        return Reply()


class RecoveryCodesHandler(ApiHandler):
    """The recovery codes of a user."""

    @endpoint(access=Access.API_KEY, answer=_CODES)
    async def get(self, call: Call, user_id: str) -> Reply:
        """Those that are left."""
        codes = await two_factor_method_api.retrieve_recovery_codes(self.services, call, user_id)
        return Reply({"recoveryCodes": codes})

    @endpoint(access=Access.API_KEY, takes="api/event-info.request.json", answer=_CODES)
    async def post(self, call: Call, user_id: str) -> Reply:
        """Put ten new ones in their place."""
        self.optional_body()  # for what it tells of the origin
        codes = await two_factor_method_api.generate_recovery_codes(self.services, call, user_id)
        return Reply({"recoveryCodes": codes})


ROUTES = [
    Route("/api/two-factor/secret", SecretHandler),
    Route("/api/two-factor/send", SendHandler),
    Route("/api/two-factor/send/{two_factor_id}", LoginSendHandler),
    Route("/api/two-factor/start", StartHandler),
    Route("/api/two-factor/status", StatusHandler),
    Route("/api/two-factor/status/{two_factor_trust_id}", TrustStatusHandler),
    Route("/api/two-factor/login", LoginHandler),
    Route("/api/user/two-factor", MethodsHandler),
    Route("/api/user/two-factor/{user_id}", UserMethodsHandler),
    Route("/api/user/two-factor/recovery-code/{user_id}", RecoveryCodesHandler),
]
