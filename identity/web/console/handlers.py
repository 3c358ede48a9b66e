"""The base handler of the console: the session, CSRF protection, calls of the API, and pages."""

from __future__ import annotations

import dataclasses
import urllib.parse
from collections.abc import Mapping
from http.cookies import Morsel, SimpleCookie
from typing import Any, ClassVar, Final

from tornado.httputil import HTTPHeaders

from identity import __version__
from identity.call import Call
from identity.domain.configuration import administrator_roles
from identity.errors import ServiceError
from identity.ids import fingerprint, same_secret
from identity.operations.pages import console_sessions
from identity.operations.pages.console_sessions import Administrator
from identity.operations.sessions import sso_sessions
from identity.operations.status import is_quiesced
from identity.services import Services
from identity.web import internal_requests
from identity.web.console import navigation, render
from identity.web.endpoint import Endpoint, Method, Reply
from identity.web.internal_requests import InternalResponse
from identity.web.oauth2.oauth_handlers import FORM, PageHandler

SESSION_COOKIE: Final = "fusionauth.console"
LOGIN_COOKIE: Final = "fusionauth.console-login"
"""Binds a sign-in to the browser that started it."""
CSRF_FIELD: Final = "csrf_token"

_TITLES: Final = {
    400: "The request is not valid",
    401: "You may not do this",
    403: "You may not do this",
    404: "There is nothing here",
    503: "Try again in a moment",
}


@dataclasses.dataclass(frozen=True, slots=True)
class ApiError(Exception):
    """An API call of a page failed; the page shows why."""

    response: InternalResponse


async def administrator_of(services: Services, headers: HTTPHeaders) -> Administrator | None:
    """Return the administrator of the session that a request names, before its body is read."""
    given = SimpleCookie(headers.get("Cookie", ""))
    cookies = {name.removeprefix("__Host-"): morsel.value for name, morsel in given.items()}
    session, sso_session = cookies.get(SESSION_COOKIE, ""), cookies.get(sso_sessions.COOKIE, "")
    return await console_sessions.find(services, services.clock.now(), session, sso_session)


class ConsoleHandler(PageHandler):
    """A page for a signed-in administrator. Without a session the browser is redirected to the sign-in."""

    administrator: Administrator
    section: ClassVar[str] = ""
    """The entry of the navigation that the page belongs to."""

    async def answer(self, declared: Endpoint, method: Method, path: Mapping[str, str]) -> Reply:
        """Require a session, a role, and for a form its CSRF token; then call the method."""
        self.declared = declared
        call = await self.open_call(declared)
        found = await console_sessions.find(
            self.services, call.now, self.cookie(SESSION_COOKIE), self.cookie(sso_sessions.COOKIE)
        )
        if found is None:
            return await self.sign_in(call, self.return_path())
        self.administrator = found
        if found.authority is None:
            return self.message_page(403, "No access", "Your account has no role in the administrators' application.")
        if self.method == "POST" and not self.has_valid_token():
            return self.message_page(403, "The form has expired", "Go back, reload the page and submit it again.")
        try:
            return await method(call, **self.path_ids(path))
        except ApiError as error:
            return self.api_error_page(error.response)

    async def sign_in(self, call: Call, target: str, *, is_renewal: bool = False) -> Reply:
        """Redirect to the login; it returns to the path `target`."""
        started = await console_sessions.begin(
            self.services, call, self.cookie(LOGIN_COOKIE), target, is_renewal=is_renewal
        )
        cookie = self.new_cookie(LOGIN_COOKIE, started.browser_secret, started.ttl_seconds)
        return Reply(status=302, headers={"Location": started.location}, cookies=[cookie])

    async def renewal(self, call: Call) -> Reply | None:
        """Return the redirect to a new login if the last one is too old for what this page does."""
        if self.administrator.has_recent_login(call.now):
            return None
        return await self.sign_in(call, self.return_path(), is_renewal=True)

    def return_path(self) -> str:
        """Return the path to show after a sign-in: this one, for a form the page that it is on."""
        return self.request.uri or console_sessions.HOME if self.method == "GET" else self.request.path

    # Calls of the API

    async def call_api(
        self, method: str, path: str, query: Mapping[str, Any] | None = None, body: Any = None, **options: Any
    ) -> InternalResponse:
        """Call a route of the API as this administrator."""
        uri = path if not query else f"{path}?{urllib.parse.urlencode(query, doseq=True)}"
        return await internal_requests.send(
            self.application, self.request, self.administrator.caller, method, uri, body, **options
        )

    async def get_json(self, path: str, query: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """Return the JSON of a GET. Raises ApiError."""
        response = await self.call_api("GET", path, query, **options)
        if not response.is_success:
            raise ApiError(response)
        return response.json()

    async def find_json(self, path: str, query: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """Return the JSON of a GET; an empty object if the call fails, for parts of a page that others may read."""
        response = await self.call_api("GET", path, query, **options)
        return response.json() if response.is_success else {}

    def may(self, method: str, path: str) -> bool:
        """Whether this administrator may make a call."""
        return navigation.may_call(self.administrator.authority, method, path)

    # Forms

    def form_values(self) -> dict[str, list[str]]:
        """Return the fields of the submitted form."""
        if self.content_type() != FORM:
            return {}
        return {
            name: [value.decode("utf-8", "replace") for value in values]
            for name, values in self.request.body_arguments.items()
        }

    def field(self, name: str) -> str:
        """Return the last value of a field of the form; empty without one."""
        return self.form_values().get(name, [""])[-1]

    def parameter(self, name: str, default: str = "") -> str:
        """Return a parameter of the query."""
        values = self.request.query_arguments.get(name)
        return values[-1].decode("utf-8", "replace") if values else default

    def csrf_token(self) -> str:
        """Return the token of this session's forms."""
        return fingerprint(f"console-csrf {self.cookie(SESSION_COOKIE)}")

    def has_valid_token(self) -> bool:
        """Whether a form was served to this session and comes from our own origin."""
        return same_secret(self.field(CSRF_FIELD), self.csrf_token()) and not self.is_cross_origin()

    # Pages

    def page(self, template: str, status: int = 200, cookies: tuple[Morsel[str], ...] = (), **values: Any) -> Reply:
        """Return a page within the frame of the console."""
        user, authority = self.administrator.user, self.administrator.authority
        frame = {
            "csrf_token": self.csrf_token(),
            "navigation": navigation.entries(authority),
            "notice": self.notice(),
            "person": administrator_roles.name_of(user),
            "is_quiesced": is_quiesced(self.services),
            "section": self.section,
            "user_id": user["id"],
            "version": __version__,
        }
        return dataclasses.replace(render.page(template, {**frame, **values}, status), cookies=cookies)

    def notice(self) -> str:
        """Return the message about the change before this page."""
        return _NOTICES.get(self.parameter("done"), "")

    def message_page(self, status: int, heading: str, message: str, details: tuple[str, ...] = ()) -> Reply:
        """Return a page with a message."""
        return self.page("message.html", status, title=heading, message=message, details=details)

    def forbidden(self) -> Reply:
        """Return the page for what the roles of this administrator do not permit."""
        return self.message_page(403, _TITLES[403], "Your roles do not permit it.")

    def api_error_page(self, response: InternalResponse) -> Reply:
        """Return the page of a failed API call."""
        messages = tuple(error["message"] for error in _errors(response))
        status = {401: 403}.get(response.status, response.status)
        text = "Your roles do not permit it." if status == 403 else "The call of the API failed."
        if status == 404:
            text = "The object does not exist, or was deleted."
        return self.message_page(status, _TITLES.get(status, "Something went wrong"), text, messages)

    def redirect_to(self, path: str, **query: str) -> Reply:
        """Return a redirect after a form (303: the browser continues with a GET)."""
        return Reply(status=303, headers={"Location": render.with_query(path, query)})

    def refuse(self, error: ServiceError) -> None:
        """Send the error page of the console, or before the sign-in that of the hosted pages."""
        if not hasattr(self, "administrator"):
            super().refuse(error)
            return
        heading = _TITLES.get(error.status, "Something went wrong")
        self.send(self.message_page(error.status, heading, error.message or "The request is not acceptable."))


_NOTICES: Final = {
    "created": "Created.",
    "saved": "Your changes are saved.",
    "deleted": "Deleted.",
    "done": "Done.",
    "sent": "Sent.",
}


def _errors(response: InternalResponse) -> list[dict[str, str]]:
    """Return the errors of an API response."""
    if not response.body or not response.headers.get("Content-Type", "").startswith("application/json"):
        return []
    body = response.json()
    fields = [error for errors in body.get("fieldErrors", {}).values() for error in errors]
    return [*fields, *body.get("generalErrors", [])]
