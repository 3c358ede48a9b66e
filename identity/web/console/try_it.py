"""`/admin/applications/<id>/try`: sign in to an application, and see every request and response."""

from __future__ import annotations

import dataclasses
import urllib.parse
from collections.abc import Mapping
from typing import Any, Final

import orjson

from identity.call import Call, Document
from identity.errors import OAuth2Error
from identity.ids import unbase64url
from identity.operations.pages import trial_logins
from identity.operations.pages.trial_logins import Trial
from identity.web.base_handlers import Route
from identity.web.console.handlers import LOGIN_COOKIE
from identity.web.console.resources import ResourceHandler
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.oauth2.oauth_handlers import error_body

_SCOPE: Final = "openid profile email offline_access"
_RESPONSE: Final = ("code", "error", "error_reason", "error_description", "iss", "state", "userState")
_TOKENS: Final = ("access_token", "id_token", "refresh_token")
_SHOWN_CHARACTERS: Final = 24


class TryHandler(ResourceHandler):
    """The page with the button, and with the messages of the login that it started."""

    slug = "applications"
    section = "applications"

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer="text/html")
    async def get(self, call: Call, object_id: str) -> Reply:
        """Show the page; with a response of the login, its messages."""
        document = await self.load(object_id)
        given = {name: value for name in _RESPONSE if (value := self.parameter(name))}
        if "state" not in given:
            return self.try_page(document)
        try:
            trial = await trial_logins.complete(
                self.services, call, object_id, self.administrator.user["id"], self.cookie(LOGIN_COOKIE), given
            )
        except OAuth2Error as error:
            return self.try_page(document, failure=error_body(error))
        return self.try_page(document, trial=trial)

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer={303: None})
    async def post(self, call: Call, object_id: str) -> Reply:
        """Start the login."""
        document = await self.load(object_id)
        if not self.may_verb("update"):
            return self.message_page(403, "You may not do this", "Your roles do not permit it.")
        scope = self.field("scope").strip() or _SCOPE
        try:
            started = await trial_logins.begin(
                self.services, call, document, self.administrator.user["id"], self.cookie(LOGIN_COOKIE), scope
            )
        except OAuth2Error as error:
            return self.try_page(document, failure=error_body(error))
        cookie = self.new_cookie(LOGIN_COOKIE, started.browser_secret, started.ttl_seconds)
        return dataclasses.replace(self.redirect_to(started.location), cookies=[cookie])

    def try_page(
        self, document: Document, trial: Trial | None = None, failure: Mapping[str, Any] | None = None
    ) -> Reply:
        """Return the page."""
        steps = [] if trial is None else messages(trial)
        return self.object_page("try_it.html", document, "Try it", steps=steps, failure=failure, scope=_SCOPE)


def messages(trial: Trial) -> list[tuple[str, str]]:
    """Return the messages of a login with their titles; tokens and codes are shortened."""
    address, _, query = trial.authorization_request.partition("?")
    asked = "\n".join(f"  {name}={value}" for name, value in urllib.parse.parse_qsl(query))
    found = [
        ("1. Authorization request, by the browser", f"GET {address}?\n{asked}"),
        ("2. Authorization response, to the redirect URI", _lines(trial.authorization_response)),
    ]
    if not trial.token_response:
        return found
    response = {name: _short(name, value) for name, value in trial.token_response.items()}
    claims = {name: claims_of(str(trial.token_response.get(name, ""))) for name in ("access_token", "id_token")}
    return [
        *found,
        ("3. Token request, by the application", f"POST /oauth2/token\n{_lines(trial.token_request)}"),
        ("4. Token response", _json(response)),
        *((f"Claims of the {name}", _json(each)) for name, each in claims.items() if each),
        ("5. Userinfo, for the access token", f"GET /oauth2/userinfo\n\n{_json(trial.claims)}"),
    ]


def claims_of(token: str) -> Document:
    """Return the claims of a JWT without verifying it; none of anything else."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        found = orjson.loads(unbase64url(parts[1]))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _lines(parameters: Mapping[str, str]) -> str:
    return "\n".join(f"  {name}={_short(name, value)}" for name, value in parameters.items())


def _short(name: str, value: Any) -> Any:
    """Return a value, or the beginning of a secret one."""
    is_secret = name in {*_TOKENS, "code", "code_verifier"} and isinstance(value, str)
    return f"{value[:_SHOWN_CHARACTERS]}… ({len(value)} characters)" if is_secret else value


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS).decode()


ROUTES = [Route("/admin/applications/{object_id}/try", TryHandler)]
