"""/api/login, /api/passwordless and /api/logout: logins, pings and logouts."""

from __future__ import annotations

from http.cookies import Morsel
from typing import Final

from identity.call import ApiKeyCaller, Call, Document
from identity.operations.api import login_api, refresh_token_api
from identity.operations.authorization import passwordless
from identity.operations.two_factor import two_factor_trust
from identity.operations.users import login_responses
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Reply, calls, endpoint

LOGIN_ANSWERS: Final = {200: "api/login.response.json", 401: None, 410: None, 423: None} | dict.fromkeys(
    (202, 203, 212, 213, 232, 242, 409), "api/login.response.json"
)
"""The statuses of the Login API response with their bodies."""

REFRESH_COOKIE: Final = "refresh_token"
ACCESS_COOKIE: Final = "access_token"
"""The cookies with the tokens of a login."""

_PING = "api/login-ping.request.json"
LOGIN_WITHOUT_PASSWORD_ANSWERS: Final = {status: body for status, body in LOGIN_ANSWERS.items() if status != 401}


class LoginApiHandler(ApiHandler):
    """Shared by the endpoints with the Login API response."""

    def respond(self, answer: login_responses.LoginResponse) -> Reply:
        """Return the response, with its tokens as cookies as well."""
        return Reply(answer.body, answer.status, cookies=self.cookies_of(answer), reason=answer.reason)

    def cookies_of(self, answer: login_responses.LoginResponse) -> list[Morsel[str]]:
        """Return the session cookie `access_token`, and `refresh_token` for its lifetime."""
        body = answer.body or {}
        cookies = [self.new_cookie(ACCESS_COOKIE, body["token"])] if "token" in body else []
        if answer.refresh_token_expires is not None:
            age = (answer.refresh_token_expires - self.services.clock.now()) // 1000
            cookies.append(self.new_cookie(REFRESH_COOKIE, body["refreshToken"], max(0, age)))
        return cookies

    def token(self) -> str | None:
        """Return the access token of the Authorization header (Bearer, or JWT in older clients) or of the cookie.

        A POST without the content type of JSON can be sent by any page of the same site without a CORS preflight, so
        that the cookie is ignored for it.
        """
        scheme, _, token = self.request.headers.get("Authorization", "").strip().partition(" ")
        if scheme.lower() in {"bearer", "jwt"}:
            return token.strip()
        is_simple = self.request.method == "POST" and self.content_type() != "application/json"
        return None if is_simple else self.cookie(ACCESS_COOKIE)

    @property
    def trust_id(self) -> str | None:
        """The secret of a browser that the user trusts, of a two-factor login before."""
        return self.cookie(two_factor_trust.COOKIE)

    def cookie(self, name: str) -> str | None:
        """Return the value of a cookie, if it is set."""
        return self.received_cookie(name) or None


class LoginHandler(LoginApiHandler):
    """Log in with a password; ping."""

    @endpoint(access=Access.OPTIONAL_KEY, raw_body=True, takes="api/login.request.json", answer=LOGIN_ANSWERS)
    async def post(self, call: Call, body: Document) -> Reply:
        """Log in."""
        return self.respond(await login_api.log_in(self.services, call, body, self.trust_id))

    @endpoint(access=Access.KEY_OR_BEARER, raw_body=True, body_required=False, takes=_PING, answer=LOGIN_ANSWERS)
    async def put(self, call: Call, body: Document) -> Reply:
        """Record the activity of a user: the one in the body or, without an API key, that of the access token."""
        if not isinstance(call.caller, ApiKeyCaller):
            return self.respond(await login_api.ping_by_token(self.services, call, body, self.token()))
        return self.respond(await login_api.ping(self.services, call, body))


class PingHandler(LoginApiHandler):
    """The deprecated form of a ping, with ids in the path."""

    @endpoint(
        access=Access.API_KEY, query={"callerIPAddress": "text", "ipAddress": "text"}, takes=_PING, answer=LOGIN_ANSWERS
    )
    async def put(self, call: Call, user_id: str, application_id: str | None = None) -> Reply:
        """Record the activity of a user."""
        address = self.query().get("ipAddress") or self.query().get("callerIPAddress")
        named = {"userId": user_id, "applicationId": application_id, "ipAddress": address}
        body = {**self.optional_body(), **{name: value for name, value in named.items() if value is not None}}
        return self.respond(await login_api.ping(self.services, call, body))


class LogoutHandler(LoginApiHandler):
    """Log out."""

    @endpoint(
        access=Access.RECOGNIZED_KEY,
        query={"global": "boolean", "refreshToken": "text"},
        body="api/logout.request.json",
        body_required=False,
    )
    async def post(self, call: Call, body: Document) -> Reply:
        """Revoke the refresh token of the request, or else of the cookie, and delete the cookies."""
        value = body.get("refreshToken") or self.query().get("refreshToken") or self.cookie(REFRESH_COOKIE)
        everywhere = body["global"] or self.flag("global")
        await refresh_token_api.log_out(self.services, call, value, everywhere=everywhere)
        return Reply(cookies=[self.new_cookie(name, "", 0) for name in (ACCESS_COOKIE, REFRESH_COOKIE)])


class PasswordlessStartHandler(ApiHandler):
    """The start of a login."""

    post = calls(
        passwordless.start,
        "Create a code, which the caller sends to the user.",
        takes="api/passwordless-start.request.json",
        answer="api/passwordless-start.response.json",
    )


class PasswordlessSendHandler(ApiHandler):
    """Mails with codes."""

    post = calls(
        passwordless.send,
        "Mail a code to the user.",
        access=Access.RECOGNIZED_KEY,
        takes="api/passwordless-send.request.json",
    )


class PasswordlessLoginHandler(LoginApiHandler):
    """The completion of a login."""

    @endpoint(
        access=Access.RECOGNIZED_KEY,
        raw_body=True,
        takes="api/passwordless-login.request.json",
        answer=LOGIN_WITHOUT_PASSWORD_ANSWERS,
    )
    async def post(self, call: Call, body: Document) -> Reply:
        """Log in with a code."""
        return self.respond(await passwordless.log_in(self.services, call, body, self.trust_id))


ROUTES = [
    Route("/api/login", LoginHandler),
    Route("/api/login/{user_id}", PingHandler),
    Route("/api/login/{user_id}/{application_id}", PingHandler),
    Route("/api/logout", LogoutHandler),
    Route("/api/passwordless/start", PasswordlessStartHandler),
    Route("/api/passwordless/send", PasswordlessSendHandler),
    Route("/api/passwordless/login", PasswordlessLoginHandler),
]
