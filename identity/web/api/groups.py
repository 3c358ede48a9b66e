"""/api/group, with its members."""

from __future__ import annotations

from identity.call import Call, Document
from identity.errors import Invalid
from identity.operations.groups import group_members
from identity.operations.groups import groups as operations
from identity.web import crud
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Reply, calls, endpoint


class MembersHandler(ApiHandler):
    """`/api/group/member`: add, replace, remove by query or by body."""

    @endpoint(access=Access.API_KEY, raw_body=True, takes=group_members.REQUEST, answer=group_members.REQUEST)
    async def post(self, call: Call, body: Document) -> Reply:
        """Add users to groups."""
        return self.members(await group_members.add(self.services, call, body))

    @endpoint(access=Access.API_KEY, raw_body=True, takes=group_members.REQUEST, answer=group_members.REQUEST)
    async def put(self, call: Call, body: Document) -> Reply:
        """Replace all members of groups."""
        return self.members(await group_members.replace(self.services, call, body))

    @endpoint(access=Access.API_KEY, query={"groupId": "uuid", "userId": "uuid"}, takes=group_members.REMOVAL)
    async def delete(self, call: Call) -> Reply:
        """Remove one user or all users from a group by query, or the members in the body."""
        group_id, user_id = self.query_id("groupId"), self.query_id("userId")
        body = self.optional_body()
        if group_id is not None:
            await group_members.remove_from(self.services, call, group_id, user_id)
        elif user_id is not None:
            raise Invalid.field("missing", "groupId", "You must specify the [groupId] with the [userId].")
        elif body:
            await group_members.remove(self.services, call, body)
        else:
            raise Invalid.field("missing", "memberId", "You must specify the [memberId] in the path.")
        return Reply()

    def members(self, by_group: Document) -> Reply:
        """Return memberships by group."""
        return Reply(group_members.to_response(self.services, by_group))


class MemberHandler(ApiHandler):
    """`/api/group/member/{memberId}`: one membership."""

    delete = calls(group_members.remove_by_id, "Delete the membership.")


ROUTES = [
    Route("/api/group/member/search", crud.SearchHandler, {"resource": group_members.RESOURCE}),
    Route("/api/group/member", MembersHandler),
    Route("/api/group/member/{member_id}", MemberHandler),
    *crud.routes(operations.RESOURCE),
]
