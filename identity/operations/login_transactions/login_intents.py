"""Login intents: a user and the whole authorization request, while a page of ours comes before the response.

An intent is bound to its tenant, client and page, and to the browser, whose cookie holds the secret. A browser may have
several at once, one for each tab: the cookie holds them all, the newest first, and a page names its own by `id_of`.

What stands in one is its owner's: a login that is complete and whose session waits for an answer is kept here
(`LoginIntent`), one to which something is missing by `halted_logins`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from identity.call import Document
from identity.ids import UserId, fingerprint
from identity.instants import Instant
from identity.operations.clients.clients import Client
from identity.operations.login_transactions.authorization_steps import Current, VerifiedClient
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
    has_second_factor: bool


async def remember(services: Services, proven: VerifiedClient, current: Current, page: str) -> str:
    """Remember a login and its request for a page that comes next; answers the secret of the intent."""
    session = current.session
    intent: dict[str, Any] = {
        "userId": session.user_id,
        "sessionId": session.session_id,
        "authInstant": session.auth_instant,
        "sessionType": session.authentication_type,
        "secondFactor": session.second_factor,
        "isPersistent": session.is_persistent,
        "isKept": bool(current.secret),
        "authenticationType": current.authentication_type,
        "hasSecondFactor": current.has_second_factor,
    }
    return await keep(services, proven, page, intent)


async def find(services: Services, client: Client, page: str, cookie: str, intent_id: str) -> LoginIntent | None:
    """The intent of this browser, for this client and page, that a request names: no page can be left out."""
    return _opened(client, await look(services, client, page, cookie, intent_id))


async def consume(services: Services, client: Client, cookie: str, intent_id: str) -> LoginIntent | None:
    """As `find`, and nobody finds it again: of all callers one gets it."""
    return _opened(client, await take(services, client, cookie, intent_id))


async def keep(services: Services, proven: VerifiedClient, page: str, document: Document) -> str:
    """Keep what a page is about, with its request; answers the secret of the intent.

    What the login page sends beside the request, the password first, is left out.
    """
    client = proven.client
    whole = {**document, "clientId": client.client_id, "page": page, "given": of_request(services, proven)}
    ttl_seconds = client.tenant["externalIdentifierConfiguration"]["loginIntentTimeToLiveInSeconds"]
    return await services.login_intents.issue(client.tenant_id, whole, ttl_seconds)


async def look(services: Services, client: Client, page: str, cookie: str, intent_id: str) -> Document | None:
    """What was kept for this browser, for this client and page, under the id."""
    secret = _secret(cookie, intent_id)
    stored = None if secret is None else await services.login_intents.find(client.tenant_id, secret)
    return stored if stored is not None and (stored["page"], stored["clientId"]) == (page, client.client_id) else None


async def take(services: Services, client: Client, cookie: str, intent_id: str) -> Document | None:
    """What was kept for this browser and client under the id; of all callers one gets it."""
    secret = _secret(cookie, intent_id)
    stored = None if secret is None else await services.login_intents.consume(client.tenant_id, secret)
    return stored if stored is not None and stored["clientId"] == client.client_id else None


async def change(services: Services, client: Client, cookie: str, intent_id: str, document: Document) -> bool:
    """Let an id stand for something else, for the same page and the time that is left; False when it is used up."""
    secret = _secret(cookie, intent_id)
    return secret is not None and await services.login_intents.replace(client.tenant_id, secret, document)


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


def of_request(services: Services, proven: VerifiedClient) -> Document:
    """The request's own parameters: all but what the form of the login page has beside them."""
    form, request = (services.schemas[name].schema["properties"] for name in (_FORM, _REQUEST))
    return {name: value for name, value in proven.given.items() if name in request or name not in form}


def _opened(client: Client, stored: Document | None) -> LoginIntent | None:
    if stored is None:
        return None
    session = SsoSession(
        stored["sessionId"],
        UserId(stored["userId"]),
        Instant(stored["authInstant"]),
        stored["sessionType"],
        stored["isPersistent"],
        frozenset({client.client_id}),
        stored["secondFactor"],
    )
    return LoginIntent(
        stored["given"], session, stored["isKept"], stored["authenticationType"], stored["hasSecondFactor"]
    )
