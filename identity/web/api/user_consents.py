"""/api/user/consent: what users consented to."""

from __future__ import annotations

from identity.call import Call, Document
from identity.errors import Invalid
from identity.ids import parse_id
from identity.operations.users import user_consents as operations
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Reply, endpoint

_SCHEMA = operations.RESOURCE.schema
_ANSWER = f"{_SCHEMA}#userConsent"


class UserConsentFamilyHandler(ApiHandler):
    """What the handlers share."""

    def path_name(self, name: str) -> str:
        """The id goes by the name that the API gives it."""
        return "userConsentId"


class UserConsentsHandler(UserConsentFamilyHandler):
    """`/api/user/consent`: create with a random id, retrieve those of a user."""

    @endpoint(access=Access.API_KEY, raw_body=True, takes=_SCHEMA, answer=_ANSWER)
    async def post(self, call: Call, body: Document) -> Reply:
        """Note a consent."""
        return Reply({"userConsent": await operations.create(self.services, call, body, None)})

    @endpoint(access=Access.API_KEY, query={"userId": "uuid"}, answer="api/user-consents.response.json")
    async def get(self, call: Call) -> Reply:
        """Retrieve the consents of a user."""
        user_id = parse_id(self.query().get("userId", ""))
        if user_id is None:
            kind = "couldNotConvert" if self.query().get("userId") else "missing"
            raise Invalid.field(kind, "userId", "The [userId] must be the UUID of a user.")
        return Reply({"userConsents": await operations.retrieve_of_user(self.services, call, user_id)})


class UserConsentHandler(UserConsentFamilyHandler):
    """`/api/user/consent/{userConsentId}`."""

    @endpoint(access=Access.API_KEY, raw_body=True, takes=_SCHEMA, answer=_ANSWER)
    async def post(self, call: Call, object_id: str, body: Document) -> Reply:
        """Note a consent."""
        return Reply({"userConsent": await operations.create(self.services, call, body, object_id)})

    @endpoint(access=Access.API_KEY, answer=_ANSWER)
    async def get(self, call: Call, object_id: str) -> Reply:
        """Retrieve."""
        return Reply({"userConsent": await operations.retrieve(self.services, call, object_id)})

    @endpoint(access=Access.API_KEY, raw_body=True, takes=_SCHEMA, answer=_ANSWER)
    async def put(self, call: Call, object_id: str, body: Document) -> Reply:
        """Change status and values."""
        return Reply({"userConsent": await operations.update(self.services, call, body, object_id)})

    @endpoint(access=Access.API_KEY, takes=_SCHEMA, answer=_ANSWER)
    async def patch(self, call: Call, object_id: str) -> Reply:
        """Change parts."""
        kind, patch = self.patch_body()
        return Reply({"userConsent": await operations.patch(self.services, call, kind, patch, object_id)})

    @endpoint(access=Access.API_KEY)
    async def delete(self, call: Call, object_id: str) -> Reply:
        """Revoke: what was consented to stays known."""
        await operations.revoke(self.services, call, object_id)
        return Reply()


ROUTES = [
    Route("/api/user/consent", UserConsentsHandler),
    Route("/api/user/consent/{object_id}", UserConsentHandler),
]
