"""/api/group, with its members."""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain.objects.resource_definition import Resource
from identity.errors import Invalid
from identity.ids import parse_id
from identity.operations.groups import group_members
from identity.operations.groups import groups as operations
from identity.operations.objects import crud
from identity.web import streaming_lists
from identity.web.base_handlers import ApiHandler, Route
from identity.web.crud import CollectionHandler, ObjectHandler, ResourceHandler, SearchHandler
from identity.web.endpoint import Access, Reply, endpoint


class GroupFamilyHandler(ResourceHandler):
    """What the handlers of groups share: a group is shown with the roles that it gives."""

    resource: Resource = operations.RESOURCE

    async def one(self, group: Document) -> Reply:
        """One group."""
        return Reply({"group": await operations.to_response(self.services, group)})


class GroupsHandler(GroupFamilyHandler, CollectionHandler):
    """Create with a random id, retrieve all."""

    @endpoint(access=Access.API_KEY, raw_body=True)
    async def post(self, call: Call, body: Document) -> Reply:
        """Create."""
        return await self.one(await operations.create(self.services, call, body, None))

    @endpoint(access=Access.API_KEY)
    async def get(self, call: Call) -> Reply:
        """Retrieve all."""
        return await streaming_lists.reply("groups", operations.retrieve_each(self.services, call), dict)


class GroupHandler(GroupFamilyHandler, ObjectHandler):
    """One group."""

    @endpoint(access=Access.API_KEY, raw_body=True)
    async def post(self, call: Call, object_id: str, body: Document) -> Reply:
        """Create."""
        return await self.one(await operations.create(self.services, call, body, object_id))

    @endpoint(access=Access.API_KEY)
    async def get(self, call: Call, object_id: str) -> Reply:
        """Retrieve."""
        return await self.one(await crud.retrieve(self.services, call, self.resource, object_id))

    @endpoint(access=Access.API_KEY, raw_body=True)
    async def put(self, call: Call, object_id: str, body: Document) -> Reply:
        """Replace."""
        return await self.one(await operations.update(self.services, call, body, object_id))

    @endpoint(access=Access.API_KEY)
    async def patch(self, call: Call, object_id: str) -> Reply:
        """Change parts."""
        kind, patch = self.patch_body()
        return await self.one(await operations.patch(self.services, call, kind, patch, object_id))

    @endpoint(access=Access.API_KEY)
    async def delete(self, call: Call, object_id: str) -> Reply:
        """Remove, with all memberships."""
        await operations.delete(self.services, call, object_id)
        return Reply()


class GroupSearchHandler(GroupFamilyHandler, SearchHandler):
    """Search."""

    async def found(self, call: Call, criteria: Document, prefix: str) -> Reply:
        """The answer to both forms."""
        total, groups = await crud.search(self.services, call, self.resource, criteria, prefix)
        return Reply(
            {"total": total, "groups": [await operations.to_response(self.services, group) for group in groups]}
        )


class MembersHandler(ApiHandler):
    """`/api/group/member`: add, replace, remove by query or by body."""

    @endpoint(access=Access.API_KEY, raw_body=True, takes=group_members.REQUEST, answer=group_members.REQUEST)
    async def post(self, call: Call, body: Document) -> Reply:
        """Let users into groups."""
        return self.members(await group_members.add(self.services, call, body))

    @endpoint(access=Access.API_KEY, raw_body=True, takes=group_members.REQUEST, answer=group_members.REQUEST)
    async def put(self, call: Call, body: Document) -> Reply:
        """Replace all members of groups."""
        return self.members(await group_members.replace(self.services, call, body))

    @endpoint(access=Access.API_KEY, query={"groupId": "uuid", "userId": "uuid"}, takes=group_members.REMOVAL)
    async def delete(self, call: Call) -> Reply:
        """Take users out of groups: one, or all, by query; or whom the body names."""
        group_id, user_id = self.id_parameter("groupId"), self.id_parameter("userId")
        body = self.optional_body()
        if group_id is not None:
            await group_members.remove_from(self.services, call, group_id, user_id)
        elif user_id is not None:
            raise Invalid.field("missing", "groupId", "You must specify the [groupId] beside the [userId].")
        elif body:
            await group_members.remove(self.services, call, body)
        else:
            raise Invalid.field("missing", "memberId", "You must specify the [memberId] in the path.")
        return Reply()

    def members(self, by_group: Document) -> Reply:
        """Memberships by group."""
        return Reply(group_members.to_response(self.services, by_group))

    def id_parameter(self, name: str) -> str | None:
        """An id in the query. Raises Invalid for one that is no UUID."""
        text = self.query().get(name)
        if text and parse_id(text) is None:
            raise Invalid.field("couldNotConvert", name, f"The [{name}] must be a UUID.")
        return parse_id(text)


class MemberHandler(ApiHandler):
    """`/api/group/member/{memberId}`: one membership."""

    def path_name(self, name: str) -> str:
        """The id by the name the API gives it."""
        return "memberId"

    @endpoint(access=Access.API_KEY)
    async def delete(self, call: Call, member_id: str) -> Reply:
        """End it."""
        await group_members.remove_by_id(self.services, call, member_id)
        return Reply()


class MemberSearchHandler(SearchHandler):
    """Search of members."""

    resource: Resource = group_members.RESOURCE


ROUTES = [
    Route("/api/group/search", GroupSearchHandler),
    Route("/api/group/member/search", MemberSearchHandler),
    Route("/api/group/member", MembersHandler),
    Route("/api/group/member/{member_id}", MemberHandler),
    Route("/api/group", GroupsHandler),
    Route("/api/group/{object_id}", GroupHandler),
]
