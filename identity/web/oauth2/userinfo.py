"""`/oauth2/userinfo`: the claims about the user of an access token (OpenID Connect Core 5.3)."""

from __future__ import annotations

from identity.call import Call
from identity.errors import InvalidRequest, OAuth2Error
from identity.operations.api import discovery
from identity.operations.clients.dpop_proofs import PresentedDpopProof
from identity.operations.issuance import userinfo
from identity.web.endpoint import Access, Reply, oauth_endpoint
from identity.web.oauth2.oauth_handlers import FORM, OAuth2Handler, tenant_routes

_REQUEST = "oauth2/userinfo.request.json"
_ANSWER = "oauth2/userinfo.response.json"


class UserinfoHandler(OAuth2Handler):
    """The userinfo endpoint; a token in the query is ignored (RFC 9700 section 4.3.2)."""

    accepts_dpop_proof = True

    @oauth_endpoint(access=Access.BEARER, answer=_ANSWER)
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Return the claims for the token of the Authorization header."""
        return await self.claims(call, *self.presented_token(call))

    @oauth_endpoint(access=Access.BEARER, takes=_REQUEST, answer=_ANSWER)
    async def post(self, call: Call, tenant_id: str | None = None) -> Reply:
        """As GET; the token may also be in the form (RFC 6750 section 2.2)."""
        token, dpop_proof = self.presented_token(call)
        posted = self.form(_REQUEST) if self.content_type() == FORM else {}
        if token is not None and "access_token" in posted:
            raise InvalidRequest("unknown", "The access token must be sent in one way only.")
        return await self.claims(call, token or posted.get("access_token"), dpop_proof)

    async def claims(self, call: Call, token: str | None, dpop_proof: PresentedDpopProof | None) -> Reply:
        """Return the claims as JSON."""
        return Reply(await userinfo.userinfo(self.services, call, token, dpop_proof))

    def presented_token(self, call: Call) -> tuple[str | None, PresentedDpopProof | None]:
        """Return the token of the Authorization header, with the DPoP proof if the scheme is DPoP.

        The token is None for any other scheme.
        """
        scheme, token = self.authorization()
        if token is None or scheme not in {"bearer", "dpop"}:
            return None, None
        return token, self.presented_dpop_proof(call) if scheme == "dpop" else None

    def challenge(self, failure: OAuth2Error) -> str | None:
        """Return the challenges of both schemes; only that of the scheme used, if any (RFC 9449 section 7.1)."""
        bearer = super().challenge(failure)
        if bearer is None:
            return None
        algorithms = f'algs="{discovery.DPOP_ALGORITHMS}"'
        if self.authorization()[0] == "dpop":
            error = self.challenge_error(failure)
            return f"DPoP{error}, {algorithms}" if error else f"DPoP {algorithms}"
        return f"{bearer}, DPoP {algorithms}"


ROUTES = tenant_routes([("/oauth2/userinfo", UserinfoHandler)])
