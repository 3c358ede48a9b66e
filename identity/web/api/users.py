"""/api/user: users, their search, the deletion of many at once, and /api/user/registration: their registrations."""

from __future__ import annotations

from typing import Final

from identity.call import ApiKeyCaller, Call, Document
from identity.domain.objects.search import whole_number
from identity.domain.users.users import LOGIN_ID_TYPES
from identity.errors import Invalid
from identity.operations.messaging import user_views
from identity.operations.objects import user_lookup
from identity.operations.password_changes import password_api
from identity.operations.users import registrations, user_deletions
from identity.operations.users import users as operations
from identity.operations.verification import verification_api, verification_responses
from identity.web.api.login import LoginApiHandler
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Reply, calls, endpoint
from identity.web.index_search import IndexSearchHandler

_SCHEMA: Final = operations.SCHEMA
_ANSWER: Final = "api/user-with-token.response.json"
_HARD_DELETE: Final = "api/hard-delete.request.json"
_REGISTRATION = registrations.SCHEMA
_REGISTRATION_ANSWER = f"{_REGISTRATION}#registration"


class UserReplyHandler(ApiHandler):
    """Shared by the handlers of users."""

    async def created(self, done: operations.CreatedUser) -> Reply:
        """Return a new user with its tokens and open verifications."""
        return await self.changed(done.user, done.token)

    async def changed(self, user: Document, more: Document | None = None) -> Reply:
        """Return a changed user with its open verifications."""
        opened = await verification_responses.for_user(self.services, user, with_codes=True)
        return Reply({"user": await user_views.to_response(self.services, user), **opened, **(more or {})})

    async def found(self, user: Document) -> Reply:
        """Return a retrieved user with its open verifications."""
        opened = await verification_responses.for_user(self.services, user, with_codes=False)
        return Reply({"user": await user_views.to_retrieve_response(self.services, user), **opened})


class UsersHandler(UserReplyHandler, LoginApiHandler):
    """`/api/user`: create with a random id, retrieve by login id or as the bearer of an access token."""

    @endpoint(access=Access.API_KEY, raw_body=True, takes=_SCHEMA, answer=_ANSWER)
    async def post(self, call: Call, body: Document) -> Reply:
        """Create."""
        return await self.created(await operations.create(self.services, call, body, None))

    @endpoint(
        access=Access.KEY_OR_BEARER,
        query={
            "changePasswordId": "text",
            "email": "text",
            "loginId": "text",
            "loginIdTypes": "texts",
            "username": "text",
            "verificationId": "text",
        },
        answer=_ANSWER,
    )
    async def get(self, call: Call) -> Reply:
        """Retrieve by email, username, login id or change password id; without an API key, the bearer of the token."""
        query = self.query()
        if not isinstance(call.caller, ApiKeyCaller):
            return Reply({"user": await operations.retrieve_by_token(self.services, call, self.token())})
        if query.get("email"):
            user = await user_lookup.retrieve_by_email(self.services, call, query["email"])
        elif query.get("username"):
            user = await user_lookup.retrieve_by_username(self.services, call, query["username"])
        elif query.get("loginId"):
            types = self.texts("loginIdTypes") or LOGIN_ID_TYPES
            user = await user_lookup.retrieve_by_login_id(self.services, call, query["loginId"], types)
        elif query.get("verificationId"):
            user = await verification_api.retrieve_by_verification_id(self.services, call, query["verificationId"])
        elif query.get("changePasswordId"):
            user = await password_api.get_user_of_id(self.services, call, query["changePasswordId"])
        else:
            raise operations.missing_id_error("retrieve")
        return await self.found(user)

    @endpoint(access=Access.API_KEY, answer={})
    async def put(self, call: Call) -> Reply:
        """Refuse: the id is missing."""
        raise operations.missing_id_error("update")

    @endpoint(access=Access.API_KEY, answer={})
    async def patch(self, call: Call) -> Reply:
        """Refuse: the id is missing."""
        raise operations.missing_id_error("patch")

    @endpoint(access=Access.API_KEY, answer={})
    async def delete(self, call: Call) -> Reply:
        """Refuse: the id is missing."""
        raise operations.missing_id_error("delete")


class UserHandler(UserReplyHandler):
    """`/api/user/{userId}`: create with that id, retrieve, update, patch, deactivate, reactivate, delete."""

    @endpoint(access=Access.API_KEY, raw_body=True, takes=_SCHEMA, answer=_ANSWER)
    async def post(self, call: Call, user_id: str, body: Document) -> Reply:
        """Create."""
        return await self.created(await operations.create(self.services, call, body, user_id))

    @endpoint(access=Access.API_KEY, answer=_ANSWER)
    async def get(self, call: Call, user_id: str) -> Reply:
        """Retrieve."""
        user = await user_lookup.retrieve(self.services, call, user_id)
        return await self.found(user)

    @endpoint(access=Access.API_KEY, query={"reactivate": "boolean"}, takes=_SCHEMA, answer=_ANSWER)
    async def put(self, call: Call, user_id: str) -> Reply:
        """Replace, or with `reactivate` activate again."""
        if self.flag("reactivate"):
            self.optional_body()  # for its `eventInfo`
            user = await operations.reactivate(self.services, call, user_id)
        else:
            body = self.json_object()
            user = await operations.update(self.services, call, body, user_id)
        return await self.changed(user)

    @endpoint(access=Access.API_KEY, takes=_SCHEMA, answer=_ANSWER)
    async def patch(self, call: Call, user_id: str) -> Reply:
        """Change parts."""
        kind, patch = self.patch_body()
        user = await operations.patch(self.services, call, kind, patch, user_id)
        return await self.changed(user)

    @endpoint(access=Access.API_KEY, query={"hardDelete": "boolean"}, body=_HARD_DELETE, body_required=False)
    async def delete(self, call: Call, user_id: str, body: Document) -> Reply:
        """Deactivate, or with `hardDelete` delete."""
        remove = operations.delete if self.is_flag_set("hardDelete", body) else operations.deactivate
        await remove(self.services, call, user_id)
        return Reply()


class UserBulkHandler(ApiHandler):
    """`/api/user/bulk`."""

    @endpoint(
        access=Access.API_KEY,
        query={
            "dryRun": "boolean",
            "hardDelete": "boolean",
            "limit": "integer",
            "query": "text",
            "queryString": "text",
            "userId": "uuids",
            "userIds": "uuids",
        },
        takes=user_deletions.REQUEST,
        answer="api/user-delete.response.json",
    )
    async def delete(self, call: Call) -> Reply:
        """Deactivate, or with `hardDelete` delete; the body takes precedence over the query."""
        body = {name: value for name, value in self.optional_body().items() if value is not None}
        request = {**self._query_members(), **body}
        return Reply(await user_deletions.delete(self.services, call, request))

    def _query_members(self) -> Document:
        query = self.query()
        found: Document = {**self.given_parameters("query", "queryString")}
        found |= {name: self.flag(name) for name in ("dryRun", "hardDelete") if query.get(name)}
        if user_ids := [*self.texts("userId"), *self.texts("userIds")]:
            found["userIds"] = user_ids
        if limit := query.get("limit"):
            number = whole_number(limit)
            found["limit"] = limit if number is None else number
        return found


class NewRegistrationHandler(ApiHandler):
    """`/api/user/registration`: a new user with a registration."""

    @endpoint(
        access=Access.API_KEY, raw_body=True, takes=_REGISTRATION, answer="api/registration-with-token.response.json"
    )
    async def post(self, call: Call, body: Document) -> Reply:
        """Create the user and the registration."""
        return await self.register(call, body, None)

    async def register(
        self, call: Call, body: Document, user_id: str | None, application_id: str | None = None
    ) -> Reply:
        """Create a registration; the response has a new user as well."""
        done = await registrations.create(self.services, call, body, user_id, application_id)
        answer: Document = {"registration": registrations.to_response(self.services, done.registration), **done.token}
        answer |= await verification_responses.for_registration(
            self.services, done.user, done.registration, is_new_user=done.is_new_user
        )
        if done.is_new_user:
            answer["user"] = await user_views.to_response(self.services, done.user)
        return Reply(answer)


class UserRegistrationsHandler(NewRegistrationHandler):
    """`/api/user/registration/{userId}`: the application is named in the body."""

    @endpoint(
        access=Access.API_KEY, raw_body=True, takes=_REGISTRATION, answer="api/registration-with-token.response.json"
    )
    async def post(self, call: Call, user_id: str, body: Document, application_id: str | None = None) -> Reply:
        """Register the user, or with `user` create it with this id; the path takes precedence over the body."""
        return await self.register(call, body, user_id, application_id)

    @endpoint(access=Access.API_KEY, answer={})
    async def get(self, call: Call, user_id: str) -> Reply:
        """Refuse: the application is missing."""
        raise _missing_application()

    @endpoint(access=Access.API_KEY, takes=_REGISTRATION, answer=_REGISTRATION_ANSWER)
    async def put(self, call: Call, user_id: str, application_id: str | None = None) -> Reply:
        """Replace."""
        registration = await registrations.update(self.services, call, self.json_object(), user_id, application_id)
        return Reply({"registration": registrations.to_response(self.services, registration)})

    @endpoint(access=Access.API_KEY, takes=_REGISTRATION, answer=_REGISTRATION_ANSWER)
    async def patch(self, call: Call, user_id: str, application_id: str | None = None) -> Reply:
        """Change parts."""
        kind, patch = self.patch_body()
        registration = await registrations.patch(self.services, call, kind, patch, user_id, application_id)
        return Reply({"registration": registrations.to_response(self.services, registration)})

    @endpoint(access=Access.API_KEY, answer={})
    async def delete(self, call: Call, user_id: str) -> Reply:
        """Refuse: the application is missing."""
        raise _missing_application()


class RegistrationHandler(UserRegistrationsHandler):
    """`/api/user/registration/{userId}/{applicationId}`: one registration."""

    @endpoint(access=Access.API_KEY, answer=_REGISTRATION_ANSWER)
    async def get(self, call: Call, user_id: str, application_id: str) -> Reply:
        """Retrieve."""
        registration = await registrations.retrieve(self.services, call, user_id, application_id)
        return Reply({"registration": registrations.to_response(self.services, registration)})

    delete = calls(registrations.delete, "Remove.", takes="api/event-info.request.json", raw_body=False)


def _missing_application() -> Invalid:
    return Invalid.field("missing", "applicationId", "You must specify the [applicationId] in the path.")


ROUTES = [
    Route("/api/user/registration", NewRegistrationHandler),
    Route("/api/user/registration/{user_id}", UserRegistrationsHandler),
    Route("/api/user/registration/{user_id}/{application_id}", RegistrationHandler),
    Route("/api/user/bulk", UserBulkHandler),
    Route("/api/user", UsersHandler),
    Route(
        "/api/user/search",
        IndexSearchHandler,
        {"found": "api/user-search.response.json", "operation": operations.search},
    ),
    Route("/api/user/{user_id}", UserHandler),
]
