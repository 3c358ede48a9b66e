"""/api/user/registration: registrations of users for applications."""

from __future__ import annotations

from identity.call import Call, Document
from identity.errors import Invalid
from identity.operations.messaging import user_views
from identity.operations.users import registrations as operations
from identity.operations.verification import verification_responses
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Reply, calls, endpoint

_SCHEMA = operations.SCHEMA
_ANSWER = f"{_SCHEMA}#registration"


class NewRegistrationHandler(ApiHandler):
    """`/api/user/registration`: a new user with a registration."""

    @endpoint(access=Access.API_KEY, raw_body=True, takes=_SCHEMA, answer="api/registration-with-token.response.json")
    async def post(self, call: Call, body: Document) -> Reply:
        """Create the user and the registration."""
        return await self.register(call, body, None)

    async def register(
        self, call: Call, body: Document, user_id: str | None, application_id: str | None = None
    ) -> Reply:
        """Create a registration; the response has a new user as well."""
        done = await operations.create(self.services, call, body, user_id, application_id)
        answer: Document = {"registration": operations.to_response(self.services, done.registration), **done.token}
        answer |= await verification_responses.for_registration(
            self.services, done.user, done.registration, is_new_user=done.is_new_user
        )
        if done.is_new_user:
            answer["user"] = await user_views.to_response(self.services, done.user)
        return Reply(answer)


class UserRegistrationsHandler(NewRegistrationHandler):
    """`/api/user/registration/{userId}`: the application is named in the body."""

    @endpoint(access=Access.API_KEY, raw_body=True, takes=_SCHEMA, answer="api/registration-with-token.response.json")
    async def post(self, call: Call, user_id: str, body: Document, application_id: str | None = None) -> Reply:
        """Register the user, or with `user` create it with this id; the path takes precedence over the body."""
        return await self.register(call, body, user_id, application_id)

    @endpoint(access=Access.API_KEY, answer={})
    async def get(self, call: Call, user_id: str) -> Reply:
        """Refuse: the application is missing."""
        raise _missing_application()

    @endpoint(access=Access.API_KEY, takes=_SCHEMA, answer=_ANSWER)
    async def put(self, call: Call, user_id: str, application_id: str | None = None) -> Reply:
        """Replace."""
        registration = await operations.update(self.services, call, self.json_object(), user_id, application_id)
        return Reply({"registration": operations.to_response(self.services, registration)})

    @endpoint(access=Access.API_KEY, takes=_SCHEMA, answer=_ANSWER)
    async def patch(self, call: Call, user_id: str, application_id: str | None = None) -> Reply:
        """Change parts."""
        kind, patch = self.patch_body()
        registration = await operations.patch(self.services, call, kind, patch, user_id, application_id)
        return Reply({"registration": operations.to_response(self.services, registration)})

    @endpoint(access=Access.API_KEY, answer={})
    async def delete(self, call: Call, user_id: str) -> Reply:
        """Refuse: the application is missing."""
        raise _missing_application()


class RegistrationHandler(UserRegistrationsHandler):
    """`/api/user/registration/{userId}/{applicationId}`: one registration."""

    @endpoint(access=Access.API_KEY, answer=_ANSWER)
    async def get(self, call: Call, user_id: str, application_id: str) -> Reply:
        """Retrieve."""
        registration = await operations.retrieve(self.services, call, user_id, application_id)
        return Reply({"registration": operations.to_response(self.services, registration)})

    delete = calls(operations.delete, "Remove.", takes="api/event-info.request.json", raw_body=False)


def _missing_application() -> Invalid:
    return Invalid.field("missing", "applicationId", "You must specify the [applicationId] in the path.")


ROUTES = [
    Route("/api/user/registration", NewRegistrationHandler),
    Route("/api/user/registration/{user_id}", UserRegistrationsHandler),
    Route("/api/user/registration/{user_id}/{application_id}", RegistrationHandler),
]
