"""/api/user/forgot-password and /api/user/change-password."""

from __future__ import annotations

from identity.call import ApiKeyCaller, Call, Document
from identity.errors import Unauthorized
from identity.operations.password_changes import password_api
from identity.operations.users import login_responses
from identity.web.api.login import LoginApiHandler
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Query, Reply, calls, endpoint

_BEGUN = "api/forgot-password.response.json"
_CHANGE = "api/change-password.request.json"
_CHANGED = "api/change-password.response.json"
_ADDRESS: Query = {"ipAddress": "text"}


class ForgotPasswordHandler(ApiHandler):
    """Password resets."""

    post = calls(
        password_api.start_reset,
        "Start a reset.",
        access=Access.OPTIONAL_KEY,
        takes="api/forgot-password.request.json",
        answer={200: f"{_BEGUN}?", 403: None, 404: None, 422: None},
    )


class ChangePasswordHandler(LoginApiHandler):
    """New passwords by an id in the body, a login id or an access token."""

    @endpoint(
        access=Access.KEY_OR_BEARER,
        query={**_ADDRESS, "loginId": "text", "loginIdTypes": "texts", "username": "text"},
        answer={200: None, 404: None},
    )
    async def get(self, call: Call) -> Reply:
        """Check whether a user can change the password without a trust token.

        Official clients before 1.61 send the login id as `username`.
        """
        login_id = self.query().get("loginId") or self.query().get("username")
        types = self.texts("loginIdTypes")
        call = login_responses.with_stated_ip_address(call, self.query())
        await password_api.check_user(self.services, call, self.token(), login_id, types)
        return Reply()

    @endpoint(access=Access.KEY_OR_BEARER, raw_body=True, takes=_CHANGE, answer={200: f"{_CHANGED}?", 404: None})
    async def post(self, call: Call, body: Document) -> Reply:
        """Change a password."""
        if body.get("changePasswordId"):
            return Reply(await password_api.change_by_id(self.services, call, body))
        if isinstance(call.caller, ApiKeyCaller):
            await password_api.change_by_login_id(self.services, call, body)
            return Reply()
        token = self.token()
        if token is None:
            raise Unauthorized(log_detail="neither id nor key nor token")
        return Reply(await password_api.change_by_token(self.services, call, body, token))


class ChangePasswordIdHandler(ApiHandler):
    """New passwords by an id in the path."""

    uuid_paths = False

    @endpoint(access=Access.RECOGNIZED_KEY, query=_ADDRESS, answer={200: None})
    async def get(self, call: Call, change_password_id: str) -> Reply:
        """Check whether an id can be used without a trust token."""
        call = login_responses.with_stated_ip_address(call, self.query())
        await password_api.check_id(self.services, call, change_password_id)
        return Reply()

    post = calls(
        password_api.change_by_id, "Change a password.", access=Access.RECOGNIZED_KEY, takes=_CHANGE, answer=_CHANGED
    )


ROUTES = [
    Route("/api/user/forgot-password", ForgotPasswordHandler),
    Route("/api/user/change-password", ChangePasswordHandler),
    Route("/api/user/change-password/{change_password_id}", ChangePasswordIdHandler),
]
