"""/api/two-factor: challenges, verification codes, and logins with two-factor authentication."""

from __future__ import annotations

from typing import Final

from identity.call import Call, Document
from identity.operations.api import two_factor_login_api, two_factor_method_api, two_factor_status
from identity.operations.login import two_factor_challenges
from identity.operations.two_factor import two_factor_methods, two_factor_trust
from identity.web.api.login import LOGIN_WITHOUT_PASSWORD_ANSWERS, LoginApiHandler
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Query, Reply, calls, endpoint

_LOGIN_ANSWERS: Final = LOGIN_WITHOUT_PASSWORD_ANSWERS | {421: None}
_STATUS_ANSWERS: Final = dict.fromkeys((200, 242), "api/two-factor-status.response.json")
_STATUS_QUERY: Final[Query] = {"applicationId": "uuid", "userId": "uuid"}
_ADDED: Final = "api/two-factor.response.json"
_ENABLED: Final = {200: f"{_ADDED}?", 404: None, 421: None}
_DISABLED: Final = {200: None, 404: None, 421: None}
_DISABLE_QUERY: Final[Query] = {"code": "text", "methodId": "text"}
_CODES: Final = "api/two-factor-recovery-code.response.json"


class StartHandler(ApiHandler):
    """Challenges started by the API."""

    post = calls(
        two_factor_login_api.start,
        "Start a challenge.",
        takes="api/two-factor-start.request.json",
        answer="api/two-factor-start.response.json",
    )


class LoginHandler(LoginApiHandler):
    """The completion of a login."""

    @endpoint(
        access=Access.RECOGNIZED_KEY, raw_body=True, takes="api/two-factor-login.request.json", answer=_LOGIN_ANSWERS
    )
    async def post(self, call: Call, body: Document) -> Reply:
        """Log in with a code, and set the trust cookie if the device is to be trusted."""
        done = await two_factor_login_api.log_in(self.services, call, body, self.trust_id)
        reply = self.respond(done.response)
        if done.trust_seconds is None or done.response.body is None:
            return reply
        morsel = self.new_cookie(two_factor_trust.COOKIE, done.response.body["twoFactorTrustId"], done.trust_seconds)
        return Reply(reply.body, reply.status, cookies=[*reply.cookies, morsel])


class LoginSendHandler(ApiHandler):
    """Verification codes of a challenge."""

    uuid_paths = False

    @endpoint(access=Access.RECOGNIZED_KEY, body="api/two-factor-login-send.request.json", body_required=False)
    async def post(self, call: Call, two_factor_id: str, body: Document) -> Reply:
        """Send a code to the address of a method."""
        await two_factor_challenges.send_code(self.services, call, two_factor_id, body.get("methodId"))
        return Reply()


class SecretHandler(LoginApiHandler):
    """Secrets for authenticator apps."""

    @endpoint(access=Access.KEY_OR_BEARER, answer="api/two-factor-secret.response.json")
    async def get(self, call: Call) -> Reply:
        """Generate a secret."""
        await two_factor_method_api.require_caller(self.services, call, self.token())
        return Reply(two_factor_methods.new_secret())


class SendHandler(LoginApiHandler):
    """Verification codes to add and remove methods."""

    @endpoint(access=Access.KEY_OR_BEARER, raw_body=True, takes="api/two-factor-send.request.json")
    async def post(self, call: Call, body: Document) -> Reply:
        """Send a code."""
        await two_factor_method_api.send_code(self.services, call, self.token(), body)
        return Reply()


class TrustStatusHandler(LoginApiHandler):
    """The two-factor status on a device that may be trusted."""

    uuid_paths = False

    @endpoint(access=Access.API_KEY, query=_STATUS_QUERY, answer=_STATUS_ANSWERS)
    async def get(self, call: Call, two_factor_trust_id: str | None = None) -> Reply:
        """Retrieve the status for a login."""
        body = self.given_parameters(*_STATUS_QUERY)
        if two_factor_trust_id is not None:
            body["twoFactorTrustId"] = two_factor_trust_id
        return self.respond(await two_factor_status.retrieve(self.services, call, body))


class StatusHandler(TrustStatusHandler):
    """The two-factor status for a login or another action."""

    @endpoint(access=Access.API_KEY, raw_body=True, takes="api/two-factor-status.request.json", answer=_STATUS_ANSWERS)
    async def post(self, call: Call, body: Document) -> Reply:
        """Retrieve the status for a login or another action."""
        return self.respond(await two_factor_status.retrieve(self.services, call, body))


class MethodsHandler(LoginApiHandler):
    """The two-factor methods of the user of the access token."""

    @endpoint(access=Access.KEY_OR_BEARER, raw_body=True, takes="api/two-factor.request.json", answer=_ENABLED)
    async def post(self, call: Call, body: Document, user_id: str | None = None) -> Reply:
        """Add a method."""
        added = await two_factor_method_api.enable(self.services, call, self.token(), body, user_id)
        return Reply(added or None)

    @endpoint(
        access=Access.KEY_OR_BEARER, query=_DISABLE_QUERY, takes="api/two-factor-disable.request.json", answer=_DISABLED
    )
    async def delete(self, call: Call, user_id: str | None = None) -> Reply:
        """Remove a method, or all with a recovery code; the body takes precedence over the query."""
        body = {**self.given_parameters(*_DISABLE_QUERY), **self.optional_body()}
        await two_factor_method_api.disable(self.services, call, self.token(), body, user_id)
        return Reply()


class UserMethodsHandler(MethodsHandler):
    """The two-factor methods of a user."""

    put = calls(two_factor_method_api.rename, "Rename a method.", takes="api/two-factor-update.request.json")


class RecoveryCodesHandler(ApiHandler):
    """The recovery codes of a user."""

    get = calls(
        two_factor_method_api.retrieve_recovery_codes,
        "Retrieve the unused codes.",
        wrapper="recoveryCodes",
        answer=_CODES,
    )

    @endpoint(access=Access.API_KEY, takes="api/event-info.request.json", answer=_CODES)
    async def post(self, call: Call, user_id: str) -> Reply:
        """Replace them with ten new codes."""
        self.optional_body()  # for its `eventInfo`
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
