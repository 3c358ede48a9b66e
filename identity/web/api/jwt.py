"""/api/jwt: the public keys that verify tokens, in the form that was there before key sets."""

from __future__ import annotations

from identity.call import Call
from identity.errors import Invalid, NotFound
from identity.ids import parse_id
from identity.operations import discovery
from identity.web.endpoint import Access, ApiHandler, Reply, Route, Tenancy, endpoint


class PublicKeyHandler(ApiHandler):
    """Public keys as PEM."""

    @endpoint(
        access=Access.PUBLIC,
        tenancy=Tenancy.BY_OPERATION,
        query={"kid": "text", "applicationId": "uuid"},
        answer="api/jwt-public-key.response.json",
    )
    async def get(self, call: Call) -> Reply:
        """All of them, or the one of a kid or of an application. Raises NotFound."""
        keys = await discovery.public_pems(self.services)
        kid, application_id = self.query().get("kid"), self.query().get("applicationId")
        if kid is None and application_id is None:
            return Reply({"publicKeys": keys})
        if kid is None:
            wanted = parse_id(application_id)
            if wanted is None:
                raise Invalid.field("couldNotConvert", "applicationId", "The [applicationId] must be a UUID.")
            kid = await discovery.signing_kid(self.services, wanted, call.now)
        if kid not in keys:
            raise NotFound
        return Reply({"publicKey": keys[kid]})


ROUTES = [Route("/api/jwt/public-key", PublicKeyHandler)]
