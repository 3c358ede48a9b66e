"""`/oauth2/userinfo`: the claims about the user of an access token (OpenID Connect Core 5.3)."""

from __future__ import annotations

from identity.call import Call
from identity.errors import InvalidRequest
from identity.operations import userinfo
from identity.web.endpoint import Access, Reply, Route, Tenancy, endpoint
from identity.web.oauth2.family import FORM, OAuth2Handler

_REQUEST = "oauth2/userinfo.request.json"
_ANSWER = "oauth2/userinfo.response.json"


class UserinfoHandler(OAuth2Handler):
    """The userinfo endpoint; a token in the query is not read (RFC 9700 section 4.3.2)."""

    @endpoint(access=Access.BEARER, tenancy=Tenancy.BY_OPERATION, answer=_ANSWER)
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Answer for the token of the Authorization header."""
        return await self.claims(call, self.bearer_token())

    @endpoint(access=Access.BEARER, tenancy=Tenancy.BY_OPERATION, takes=_REQUEST, answer=_ANSWER)
    async def post(self, call: Call, tenant_id: str | None = None) -> Reply:
        """As GET; the token may also stand in the form (RFC 6750 section 2.2)."""
        token = self.bearer_token()
        posted = self.form(_REQUEST) if self.content_type() == FORM else {}
        if token is not None and "access_token" in posted:
            raise InvalidRequest("unknown", "The access token must be sent in one way only.")
        return await self.claims(call, token or posted.get("access_token"))

    async def claims(self, call: Call, token: str | None) -> Reply:
        """The claims, as JSON."""
        return Reply(await userinfo.userinfo(self.services, call, token))

    def bearer_token(self) -> str | None:
        """The token of the Authorization header, or None for another scheme or none."""
        scheme, _, token = self.request.headers.get("Authorization", "").strip().partition(" ")
        return token.strip() or None if scheme.lower() == "bearer" else None


ROUTES = [Route("/oauth2/userinfo", UserinfoHandler), Route("/{tenant_id}/oauth2/userinfo", UserinfoHandler)]
