"""/api/user/family: families of users."""

from __future__ import annotations

from identity.call import Call
from identity.errors import Invalid
from identity.operations.users import families as operations
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Reply, calls, endpoint

_ANSWER = "api/family.response.json"


class FamiliesHandler(ApiHandler):
    """`/api/user/family`: create with a random id, retrieve those of a user."""

    post = calls(
        operations.create, "Create, with its owner.", wrapper="family", takes=operations.MEMBER, answer=_ANSWER
    )

    @endpoint(access=Access.API_KEY, query={"userId": "uuid"}, answer="api/families.response.json")
    async def get(self, call: Call) -> Reply:
        """Retrieve the families of a user."""
        user_id = self.required_query_id("userId")
        return Reply({"families": await operations.retrieve_of_user(self.services, call, user_id)})


class FamilyHandler(ApiHandler):
    """`/api/user/family/{familyId}`."""

    post = FamiliesHandler.post

    get = calls(operations.retrieve, "Retrieve.", wrapper="family", answer=_ANSWER)

    put = calls(
        operations.put_member,
        "Add a user, or change a member.",
        wrapper="family",
        takes=operations.MEMBER,
        answer=_ANSWER,
    )


class FamilyMemberHandler(ApiHandler):
    """`/api/user/family/{familyId}/{userId}`."""

    delete = calls(operations.remove_member, "Remove a user.")


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

    post = calls(operations.send_family_request, "Send a family request to a parent by mail.", takes=operations.REQUEST)


ROUTES = [
    Route("/api/user/family", FamiliesHandler),
    Route("/api/user/family/pending", PendingChildrenHandler),
    Route("/api/user/family/request", FamilyRequestHandler),
    Route("/api/user/family/{family_id}", FamilyHandler),
    Route("/api/user/family/{family_id}/{user_id}", FamilyMemberHandler),
]
