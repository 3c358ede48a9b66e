"""/api/user: users and their search."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Final

from identity.call import Call, Document
from identity.domain.users import LOGIN_ID_TYPES
from identity.errors import Invalid
from identity.operations import users as operations
from identity.web.endpoint import Access, ApiHandler, Query, Reply, Route, endpoint

_SCHEMA: Final = operations.SCHEMA
_ANSWER: Final = f"{_SCHEMA}#user"
_FOUND: Final = "api/user-search.response.json"

_SEARCH: Final[Query] = {
    "accurateTotal": "boolean",
    "ids": "uuids",
    "nextResults": "text",
    "numberOfResults": "integer",
    "queryString": "text",
    "sortFields[0].missing": "text",
    "sortFields[0].name": "text",
    "sortFields[0].order": "text",
    "startRow": "integer",
}
"""Further fields to sort by are numbered on."""

_SORT_PARAMETER = re.compile(r"sortFields\[([0-9])\]\.(name|order|missing)")


class UserFamilyHandler(ApiHandler):
    """What the handlers of users and of registrations share."""

    def path_name(self, name: str) -> str:
        """Ids go by the names the API gives them."""
        return {"user_id": "userId", "application_id": "applicationId"}.get(name, name)

    def optional_body(self) -> Document:
        """The JSON object of a request that may also have no body."""
        return self.json_object() if self.request.body else {}

    def informed(self, call: Call, body: Any) -> Call:
        """The call with the `eventInfo` of a body that the handler read by itself."""
        info = body.get("eventInfo") if isinstance(body, dict) else None
        return dataclasses.replace(call, event_info=info) if isinstance(info, dict) else call

    def asks_for(self, body: Document, name: str) -> bool:
        """A flag that may stand in the query or in the body."""
        return self.flag(name) or body.get(name) is True


class UsersHandler(UserFamilyHandler):
    """`/api/user`: create with a random id, retrieve by login id."""

    @endpoint(access=Access.API_KEY, raw_body=True, takes=_SCHEMA, answer="api/user-with-token.response.json")
    async def post(self, call: Call, body: Document) -> Reply:
        """Create."""
        created = await operations.create(self.services, call, body, None)
        return Reply({"user": operations.shown(self.services, created.user), **created.token})

    @endpoint(
        access=Access.API_KEY,
        query={"email": "text", "loginId": "text", "loginIdTypes": "texts", "username": "text"},
        answer=_ANSWER,
    )
    async def get(self, call: Call) -> Reply:
        """Retrieve by email, username or login id."""
        query = self.query()
        if query.get("email"):
            user = await operations.retrieve_by_email(self.services, call, query["email"])
        elif query.get("username"):
            user = await operations.retrieve_by_username(self.services, call, query["username"])
        elif query.get("loginId"):
            types = self.texts("loginIdTypes") or LOGIN_ID_TYPES
            user = await operations.retrieve_by_login_id(self.services, call, query["loginId"], types)
        else:
            raise operations.missing_id("retrieve")
        return Reply({"user": operations.retrieved(self.services, user)})

    @endpoint(access=Access.API_KEY, answer={})
    async def put(self, call: Call) -> Reply:
        """Refuse: the id is missing."""
        raise operations.missing_id("update")

    @endpoint(access=Access.API_KEY, answer={})
    async def patch(self, call: Call) -> Reply:
        """Refuse: the id is missing."""
        raise operations.missing_id("patch")

    @endpoint(access=Access.API_KEY, answer={})
    async def delete(self, call: Call) -> Reply:
        """Refuse: the id is missing."""
        raise operations.missing_id("delete")


class UserHandler(UserFamilyHandler):
    """`/api/user/{userId}`: create with that id, retrieve, update, patch, deactivate, reactivate, delete."""

    @endpoint(access=Access.API_KEY, raw_body=True, takes=_SCHEMA, answer="api/user-with-token.response.json")
    async def post(self, call: Call, user_id: str, body: Document) -> Reply:
        """Create."""
        created = await operations.create(self.services, call, body, user_id)
        return Reply({"user": operations.shown(self.services, created.user), **created.token})

    @endpoint(access=Access.API_KEY, answer=_ANSWER)
    async def get(self, call: Call, user_id: str) -> Reply:
        """Retrieve."""
        user = await operations.retrieve(self.services, call, user_id)
        return Reply({"user": operations.retrieved(self.services, user)})

    @endpoint(access=Access.API_KEY, query={"reactivate": "boolean"}, takes=_SCHEMA, answer=_ANSWER)
    async def put(self, call: Call, user_id: str) -> Reply:
        """Replace, or with `reactivate` let in again."""
        if self.flag("reactivate"):
            call = self.informed(call, self.optional_body())
            user = await operations.reactivate(self.services, call, user_id)
        else:
            body = self.json_object()
            user = await operations.update(self.services, self.informed(call, body), body, user_id)
        return Reply({"user": operations.shown(self.services, user)})

    @endpoint(access=Access.API_KEY, takes=_SCHEMA, answer=_ANSWER)
    async def patch(self, call: Call, user_id: str) -> Reply:
        """Change parts."""
        kind, patch = self.patch_body()
        user = await operations.patch(self.services, self.informed(call, patch), kind, patch, user_id)
        return Reply({"user": operations.shown(self.services, user)})

    @endpoint(access=Access.API_KEY, query={"hardDelete": "boolean"}, takes="api/hard-delete.request.json")
    async def delete(self, call: Call, user_id: str) -> Reply:
        """Deactivate, or with `hardDelete` remove for good."""
        body = self.optional_body()
        if self.asks_for(body, "hardDelete"):
            await operations.delete(self.services, self.informed(call, body), user_id)
        else:
            await operations.deactivate(self.services, self.informed(call, body), user_id)
        return Reply()


class UserSearchHandler(UserFamilyHandler):
    """`/api/user/search`: by query or by body, with the same names."""

    @endpoint(access=Access.API_KEY, query=_SEARCH, answer=_FOUND)
    async def get(self, call: Call) -> Reply:
        """Search by query parameters."""
        criteria: Document = dict(self.query())
        if ids := self.texts("ids"):
            criteria["ids"] = ids
        if sort := self._sort_fields():
            criteria["sortFields"] = sort
        return Reply(await operations.search(self.services, call, criteria, ""))

    @endpoint(access=Access.API_KEY, raw_body=True, takes="api/user-search.request.json", answer=_FOUND)
    async def post(self, call: Call, body: Document) -> Reply:
        """Search by a JSON body."""
        criteria = body.get("search")
        if criteria is not None and not isinstance(criteria, dict):
            raise Invalid.field("invalidJSON", "search", "The [search] property must be an object.")
        return Reply(await operations.search(self.services, call, criteria or {}, "search."))

    @endpoint(access=Access.API_KEY)
    async def put(self, call: Call) -> Reply:
        """Flush the index: the database that is searched here is always up to date."""
        return Reply()

    def _sort_fields(self) -> list[Document]:
        fields: dict[int, Document] = {}
        for name, value in self.query().items():
            if match := _SORT_PARAMETER.fullmatch(name):
                fields.setdefault(int(match[1]), {})[match[2]] = value
        return [fields[index] for index in sorted(fields)]


ROUTES = [
    Route("/api/user", UsersHandler),
    Route("/api/user/search", UserSearchHandler),
    Route("/api/user/{user_id}", UserHandler),
]
