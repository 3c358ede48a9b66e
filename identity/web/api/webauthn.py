"""/api/webauthn: passkeys of users, their registration, and logins with them."""

from __future__ import annotations

from typing import Final

from identity.call import Call, Document
from identity.errors import Invalid
from identity.ids import parse_id
from identity.operations.webauthn import authentication, passkeys, registration
from identity.web.api.login import LOGIN_WITHOUT_PASSWORD_ANSWERS, LoginApiHandler
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Query, Reply, calls, endpoint

_FEATURE: Final = "webAuthn"
_QUERY: Final[Query] = {"userId": "uuid"}
_CREDENTIAL: Final = "api/webauthn-credential.response.json"


class PasskeysHandler(ApiHandler):
    """The passkeys of a user."""

    @endpoint(access=Access.API_KEY, query=_QUERY, answer="api/webauthn-credentials.response.json", feature=_FEATURE)
    async def get(self, call: Call) -> Reply:
        """Retrieve those of the user of `?userId=`."""
        found = await passkeys.retrieve_of_user(self.services, call, self.user_id())
        return Reply({"credentials": [passkeys.to_response(self.services, one) for one in found]})

    @endpoint(access=Access.API_KEY, query=_QUERY, feature=_FEATURE)
    async def delete(self, call: Call) -> Reply:
        """Delete those of the user of `?userId=`."""
        await passkeys.delete_of_user(self.services, call, self.user_id())
        return Reply()

    def user_id(self) -> str:
        """Return the user of the query. Raises Invalid."""
        given = self.query().get("userId")
        user_id = parse_id(given)
        if user_id is None:
            kind = "couldNotConvert" if given else "missing"
            raise Invalid.field(kind, "userId", "You must specify the id of a user as the [userId] parameter.")
        return user_id


class PasskeyHandler(ApiHandler):
    """A passkey."""

    @endpoint(access=Access.API_KEY, answer=_CREDENTIAL, feature=_FEATURE)
    async def get(self, call: Call, passkey_id: str) -> Reply:
        """Retrieve it."""
        found = await passkeys.retrieve(self.services, call, passkey_id)
        return Reply({"credential": passkeys.to_response(self.services, found)})

    delete = calls(passkeys.delete, "Delete it.", feature=_FEATURE)


class ImportHandler(ApiHandler):
    """Passkeys of another system."""

    post = calls(passkeys.import_, "Import them.", takes="api/webauthn-import.request.json", feature=_FEATURE)


class RegisterStartHandler(ApiHandler):
    """The start of a registration."""

    post = calls(
        registration.start,
        "Return the options to create a passkey.",
        takes="api/webauthn-register-start.request.json",
        answer="api/webauthn-register-start.response.json",
        feature=_FEATURE,
    )


class RegisterCompleteHandler(ApiHandler):
    """The completion of a registration."""

    @endpoint(
        access=Access.RECOGNIZED_KEY,
        raw_body=True,
        takes="api/webauthn-register-complete.request.json",
        answer=_CREDENTIAL,
        feature=_FEATURE,
    )
    async def post(self, call: Call, body: Document) -> Reply:
        """Verify the response of the browser, and store the passkey."""
        done = await registration.complete(self.services, call, body)
        return Reply({"credential": passkeys.to_response(self.services, done["credential"])})


class StartHandler(ApiHandler):
    """The start of an authentication."""

    post = calls(
        authentication.start,
        "Return the options to use a passkey.",
        takes="api/webauthn-start.request.json",
        answer="api/webauthn-start.response.json",
        feature=_FEATURE,
    )


class LoginHandler(LoginApiHandler):
    """A login with a passkey."""

    @endpoint(
        access=Access.RECOGNIZED_KEY,
        raw_body=True,
        takes="api/webauthn-login.request.json",
        answer=LOGIN_WITHOUT_PASSWORD_ANSWERS,
        feature=_FEATURE,
    )
    async def post(self, call: Call, body: Document) -> Reply:
        """Log in."""
        return self.respond(await authentication.log_in(self.services, call, body, self.trust_id))


class AssertHandler(ApiHandler):
    """The verification of a passkey without a login."""

    @endpoint(
        access=Access.RECOGNIZED_KEY,
        raw_body=True,
        takes="api/webauthn-assert.request.json",
        answer=_CREDENTIAL,
        feature=_FEATURE,
    )
    async def post(self, call: Call, body: Document) -> Reply:
        """Verify the response of the browser."""
        done = await authentication.complete_assertion(self.services, call, body)
        return Reply({"credential": passkeys.to_response(self.services, done["credential"])})


ROUTES = [
    Route("/api/webauthn/register/start", RegisterStartHandler),
    Route("/api/webauthn/register/complete", RegisterCompleteHandler),
    Route("/api/webauthn/import", ImportHandler),
    Route("/api/webauthn/start", StartHandler),
    Route("/api/webauthn/login", LoginHandler),
    Route("/api/webauthn/assert", AssertHandler),
    Route("/api/webauthn", PasskeysHandler),
    Route("/api/webauthn/{passkey_id}", PasskeyHandler),
]
