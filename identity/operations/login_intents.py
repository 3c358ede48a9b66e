"""Login intents: an authenticated user and the whole authorization request, while a page comes before the response.

An intent is bound to its tenant and client, and to the browser, whose cookie holds the secret. A browser may have
several at once, one for each tab: the cookie holds them all, the newest first, and a page names its own by `id_of`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from identity.call import Document
from identity.ids import UserId, fingerprint
from identity.instants import Instant
from identity.operations.authorization_steps import Current, Proven
from identity.operations.clients import Client
from identity.services import Services
from identity.store.sso_sessions import SsoSession

COOKIE: Final = "fusionauth.li"
_KEPT: Final = 4
_SEPARATOR: Final = "."
_FORM: Final = "oauth2/authorize.form.json"
_REQUEST: Final = "oauth2/authorize.request.json"


@dataclasses.dataclass(frozen=True, slots=True)
class LoginIntent:
    """A login that waits: `is_kept` says that its session lives beside it, and has to, as long as it waits."""

    given: Document = dataclasses.field(repr=False)
    session: SsoSession
    is_kept: bool
    authentication_type: str


async def remember(services: Services, proven: Proven, current: Current, page: str) -> str:
    """Remember a login and its request for a page that comes next; answers the secret of the intent.

    What the login page sends beside the request, the password first, is left out.
    """
    client, session = proven.client, current.session
    intent: dict[str, Any] = {
        "clientId": client.client_id,
        "page": page,
        "given": of_request(services, proven),
        "userId": session.user_id,
        "sessionId": session.session_id,
        "authInstant": session.auth_instant,
        "sessionType": session.authentication_type,
        "isPersistent": session.is_persistent,
        "isKept": bool(current.secret),
        "authenticationType": current.authentication_type,
    }
    ttl_seconds = client.tenant["externalIdentifierConfiguration"]["loginIntentTimeToLiveInSeconds"]
    return await services.login_intents.issue(client.tenant_id, intent, ttl_seconds)


async def find(services: Services, client: Client, page: str, cookie: str, intent_id: str) -> LoginIntent | None:
    """The intent of this browser, for this client and page, that a request names: no page can be left out."""
    secret = _secret(cookie, intent_id)
    stored = None if secret is None else await services.login_intents.find(client.tenant_id, secret)
    return None if stored is None or stored["page"] != page else _opened(client, stored)


async def consume(services: Services, client: Client, cookie: str, intent_id: str) -> LoginIntent | None:
    """As `find`, and nobody finds it again: of all callers one gets it."""
    secret = _secret(cookie, intent_id)
    stored = None if secret is None else await services.login_intents.consume(client.tenant_id, secret)
    return _opened(client, stored)


def id_of(secret: str) -> str:
    """The public name of an intent, which is of no use without the browser's cookie."""
    return fingerprint(f"login-intent {secret}")[:32]


def cookie_with(cookie: str, secret: str) -> str:
    """The value of the cookie with one more intent; the oldest give way."""
    kept = [secret, *filter(None, cookie.split(_SEPARATOR))]
    return _SEPARATOR.join(kept[:_KEPT])


def cookie_without(cookie: str, intent_id: str) -> str:
    """The value of the cookie without an intent that was used up."""
    return _SEPARATOR.join(secret for secret in cookie.split(_SEPARATOR) if secret and id_of(secret) != intent_id)


def _secret(cookie: str, intent_id: str) -> str | None:
    return next((secret for secret in cookie.split(_SEPARATOR) if secret and id_of(secret) == intent_id), None)


def of_request(services: Services, proven: Proven) -> Document:
    """The request's own parameters: all but what the form of the login page has beside them."""
    form, request = (services.schemas[name].schema["properties"] for name in (_FORM, _REQUEST))
    return {name: value for name, value in proven.given.items() if name in request or name not in form}


def _opened(client: Client, stored: Document | None) -> LoginIntent | None:
    """An intent of another client is none."""
    if stored is None or stored["clientId"] != client.client_id:
        return None
    session = SsoSession(
        stored["sessionId"],
        UserId(stored["userId"]),
        Instant(stored["authInstant"]),
        stored["sessionType"],
        stored["isPersistent"],
        frozenset({client.client_id}),
    )
    return LoginIntent(stored["given"], session, stored["isKept"], stored["authenticationType"])
