"""/api/user/family: families of users."""

from __future__ import annotations

from identity.call import Call, Document
from identity.errors import Invalid
from identity.operations.users import families as operations
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Reply, endpoint

_ANSWER = "api/family.response.json"


class FamiliesHandler(ApiHandler):
    """`/api/user/family`: create with a random id, retrieve those of a user."""

    @endpoint(access=Access.API_KEY, raw_body=True, takes=operations.MEMBER, answer=_ANSWER)
    async def post(self, call: Call, body: Document) -> Reply:
        """Create, with its owner."""
        return Reply({"family": await operations.create(self.services, call, body, None)})

    @endpoint(access=Access.API_KEY, query={"userId": "uuid"}, answer="api/families.response.json")
    async def get(self, call: Call) -> Reply:
        """Retrieve the families of a user."""
        user_id = self.required_query_id("userId")
        return Reply({"families": await operations.retrieve_of_user(self.services, call, user_id)})


class FamilyHandler(ApiHandler):
    """`/api/user/family/{familyId}`."""

    @endpoint(access=Access.API_KEY, raw_body=True, takes=operations.MEMBER, answer=_ANSWER)
    async def post(self, call: Call, family_id: str, body: Document) -> Reply:
        """Create, with its owner."""
        return Reply({"family": await operations.create(self.services, call, body, family_id)})

    @endpoint(access=Access.API_KEY, answer=_ANSWER)
    async def get(self, call: Call, family_id: str) -> Reply:
        """Retrieve."""
        return Reply({"family": await operations.retrieve(self.services, call, family_id)})

    @endpoint(access=Access.API_KEY, raw_body=True, takes=operations.MEMBER, answer=_ANSWER)
    async def put(self, call: Call, family_id: str, body: Document) -> Reply:
        """Add a user, or change a member."""
        return Reply({"family": await operations.put_member(self.services, call, body, family_id)})


class FamilyMemberHandler(ApiHandler):
    """`/api/user/family/{familyId}/{userId}`."""

    @endpoint(access=Access.API_KEY)
    async def delete(self, call: Call, family_id: str, user_id: str) -> Reply:
        """Remove a user."""
        await operations.remove_member(self.services, call, family_id, user_id)
        return Reply()


class PendingChildrenHandler(ApiHandler):
    """`/api/user/family/pending`."""

    @endpoint(access=Access.API_KEY, query={"parentEmail": "text"}, answer="api/pending-children.response.json")
    async def get(self, call: Call) -> Reply:
        """Retrieve the children who stated a parent and have no family yet."""
        email = self.query().get("parentEmail")
        if not email:
            raise Invalid.field("blank", "parentEmail", "You must specify the [parentEmail] parameter.")
        return Reply({"users": await operations.retrieve_pending_children(self.services, call, email)})


class FamilyRequestHandler(ApiHandler):
    """`/api/user/family/request`."""

    @endpoint(access=Access.API_KEY, raw_body=True, takes=operations.REQUEST)
    async def post(self, call: Call, body: Document) -> Reply:
        """Send a family request to a parent by mail."""
        await operations.send_family_request(self.services, call, body)
        return Reply()


ROUTES = [
    Route("/api/user/family", FamiliesHandler),
    Route("/api/user/family/pending", PendingChildrenHandler),
    Route("/api/user/family/request", FamilyRequestHandler),
    Route("/api/user/family/{family_id}", FamilyHandler),
    Route("/api/user/family/{family_id}/{user_id}", FamilyMemberHandler),
]
