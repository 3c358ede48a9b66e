"""/api/jwt: public keys as PEM, access tokens, and refresh tokens."""

from __future__ import annotations

from urllib.parse import parse_qsl

from identity.call import Call, Document
from identity.errors import NotFound
from identity.operations.api import discovery, refresh_token_api, token_api
from identity.store.cache import stale_if_unavailable
from identity.web.api.login import ACCESS_COOKIE, REFRESH_COOKIE, LoginApiHandler
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Reply, Tenancy, calls, endpoint

_FORM = "application/x-www-form-urlencoded"
_REVOKE = "api/refresh-token-revoke.request.json"
_TOKENS = "api/refresh-token.response.json"


class PublicKeyHandler(ApiHandler):
    """Public keys as PEM."""

    @endpoint(
        access=Access.PUBLIC,
        tenancy=Tenancy.BY_OPERATION,
        query={"kid": "text", "keyId": "text", "applicationId": "uuid"},
        answer="api/jwt-public-key.response.json",
    )
    async def get(self, call: Call) -> Reply:
        """Retrieve all, or the one of a kid (later `keyId`) or of an application. Raises NotFound."""
        with stale_if_unavailable():
            keys = await discovery.public_pems(self.services, call.now)
        kid = self.query().get("kid", self.query().get("keyId"))
        if kid is None and "applicationId" not in self.query():
            return Reply({"publicKeys": keys})
        if kid is None:
            kid = await discovery.signing_kid(self.services, self.required_query_id("applicationId"), call.now)
        if kid not in keys:
            raise NotFound
        return Reply({"publicKey": keys[kid]})


class ValidateHandler(LoginApiHandler):
    """Validation of access tokens."""

    @endpoint(access=Access.BEARER, tenancy=Tenancy.AS_NAMED, answer="api/jwt-validate.response.json")
    async def get(self, call: Call) -> Reply:
        """Retrieve the claims of the access token."""
        return Reply({"jwt": await token_api.validate(self.services, call, self.token())})


class IssueHandler(LoginApiHandler):
    """Access tokens for another application."""

    @endpoint(
        access=Access.BEARER,
        tenancy=Tenancy.BY_OPERATION,
        query={"applicationId": "uuid", "refreshToken": "text"},
        answer={200: "api/jwt-token.response.json", 202: "api/jwt-token.response.json"},
    )
    async def get(self, call: Call) -> Reply:
        """Issue one."""
        application_id, refresh_token = self.required_query_id("applicationId"), self.query().get("refreshToken")
        answer = await token_api.issue(self.services, call, self.token(), application_id, refresh_token)
        return Reply(answer.body, answer.status, reason=answer.reason)


class VendHandler(ApiHandler):
    """Tokens with any claims."""

    post = calls(
        token_api.vend,
        "Sign the claims of the request.",
        takes="api/jwt-vend.request.json",
        answer="api/jwt-token.response.json#token",
    )


class RefreshTokensHandler(LoginApiHandler):
    """Refresh of access tokens, and the refresh tokens of a user."""

    @endpoint(
        access=Access.RECOGNIZED_KEY, takes="api/jwt-refresh.request.json", answer="api/jwt-refresh.response.json"
    )
    async def post(self, call: Call) -> Reply:
        """Refresh with the tokens of the cookies, or else of the body, which is optional with cookies."""
        given = {"refreshToken": self.cookie(REFRESH_COOKIE), "token": self.cookie(ACCESS_COOKIE)}
        held = {name: value for name, value in given.items() if value is not None}
        return self.respond(await refresh_token_api.refresh(self.services, call, {**super().optional_body(), **held}))

    @endpoint(access=Access.API_KEY, query={"userId": "uuid"}, answer=f"{_TOKENS}#refreshTokens")
    async def get(self, call: Call) -> Reply:
        """Retrieve the valid refresh tokens of `?userId=`."""
        user_id = self.required_query_id("userId")
        return Reply({"refreshTokens": await refresh_token_api.retrieve_of_user(self.services, call, user_id)})

    @endpoint(
        access=Access.KEY_OR_BEARER, query={"applicationId": "uuid", "token": "text", "userId": "uuid"}, takes=_REVOKE
    )
    async def delete(self, call: Call) -> Reply:
        """Revoke by value, user, application, or user and application; the body takes precedence over the query."""
        body = {**self.given_parameters("applicationId", "token", "userId"), **self.optional_body()}
        await refresh_token_api.revoke_matching(self.services, call, body, self.token())
        return Reply()

    def optional_body(self) -> Document:
        """Return the JSON body, or that of a form, which keeps tokens out of the URL."""
        if self.content_type() == _FORM:
            return dict(parse_qsl(self.request.body.decode("utf-8", "replace")))
        return super().optional_body()


class RefreshTokenHandler(LoginApiHandler):
    """One refresh token, by its id."""

    get = calls(refresh_token_api.retrieve, "Retrieve.", wrapper="refreshToken", answer=f"{_TOKENS}#refreshToken")

    @endpoint(access=Access.KEY_OR_BEARER)
    async def delete(self, call: Call, token_id: str) -> Reply:
        """Revoke."""
        await refresh_token_api.revoke(self.services, call, token_id, self.token())
        return Reply()


ROUTES = [
    Route("/api/jwt/public-key", PublicKeyHandler),
    Route("/api/jwt/validate", ValidateHandler),
    Route("/api/jwt/issue", IssueHandler),
    Route("/api/jwt/vend", VendHandler),
    Route("/api/jwt/refresh", RefreshTokensHandler),
    Route("/api/jwt/refresh/{token_id}", RefreshTokenHandler),
]
