"""Logins whose credentials were right and to which something is missing: what is remembered while a page asks for it.

Such a login is kept as a login intent, for the one page that it waits for: no step can be left out, repeated or taken
before another one, because each step uses its intent up and the next one has another secret. What a page needs to know
(which challenge, which verification) stands in `details`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from identity.call import Document
from identity.errors import InvalidRequest
from identity.operations.clients.clients import Client
from identity.operations.login_transactions import login_intents
from identity.operations.login_transactions.authorization_steps import Interlude, SsoCookie, VerifiedClient
from identity.services import Services
from identity.store.mongo import Session

TWO_FACTOR: Final = "two-factor"
TWO_FACTOR_ENABLE: Final = "two-factor-enable"
TWO_FACTOR_ENABLED: Final = "two-factor-enable-complete"
CHANGE_PASSWORD: Final = "/password/change"  # noqa: S105 (a path)
VERIFY_EMAIL: Final = "/email/verification-required"
VERIFY_REGISTRATION: Final = "/registration/verification-required"

_FIELDS: Final = (
    "userId",
    "authenticationType",
    "identityType",
    "isPersistent",
    "secondFactor",
    "reasonToChange",
    "sessionId",
    "link",
    "details",
    "since",
)


@dataclasses.dataclass(frozen=True, slots=True)
class HaltedLogin:
    """A user who showed right credentials, of what kind, and what was proven beside them so far.

    `session_id` is that of a session that met a gate: then nobody authenticated just now. `link` is the name of an
    account at a provider that is to be linked when the login is complete. `since` is when the password was right: the
    login waits only as long as it is the user's.
    """

    user_id: str
    authentication_type: str
    identity_type: str | None = None
    is_persistent: bool = False
    second_factor: str = ""
    reason_to_change: str | None = None
    session_id: str = ""
    link: str = dataclasses.field(default="", repr=False)
    details: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    since: int | None = None

    def with_details(self, **details: Any) -> HaltedLogin:
        """The login with these details, and none of before."""
        return dataclasses.replace(self, details=details)


@dataclasses.dataclass(frozen=True, slots=True)
class Waiting:
    """A login that waits for its page: the browser's `cookie` has the secret of the intent that `intent_id` names."""

    proven: VerifiedClient
    halted: HaltedLogin
    page: str
    cookie: str = dataclasses.field(repr=False)
    intent_id: str

    @property
    def client(self) -> Client:
        """Where the user wants to log in."""
        return self.proven.client


async def wait(
    services: Services,
    proven: VerifiedClient,
    halted: HaltedLogin,
    page: str,
    cookie: SsoCookie | None = None,
    suffix: str = "",
) -> Interlude:
    """The way to the page that a login waits for, and the intent by which the page finds it.

    `suffix` is what comes after the page in its path.
    """
    if halted.since is None:
        halted = dataclasses.replace(halted, since=services.clock.now())
    intent = await login_intents.keep(services, proven, page, {**_document(halted), "isHalted": True})
    return Interlude(proven.client, page + suffix, intent, cookie)


async def look(services: Services, client: Client, page: str, cookie: str, intent_id: str) -> Document | None:
    """What was kept of a login for this page, with its request in `given`; or None."""
    found = await login_intents.look(services, client, page, cookie, intent_id)
    return None if found is None or not found.get("isHalted") else found


def opened(stored: Document) -> HaltedLogin:
    """The login that a stored intent tells of."""
    found: list[Any] = [stored.get(name) for name in _FIELDS]
    return HaltedLogin(*found)


def after(waiting: Waiting, halted: HaltedLogin, page: str, intent: str) -> Waiting:
    """A login as its next page finds it, by the secret of its new intent."""
    cookie = login_intents.cookie_with(waiting.cookie, intent)
    return Waiting(waiting.proven, halted, page, cookie, login_intents.id_of(intent))


async def remember_details(services: Services, waiting: Waiting, **details: Any) -> bool:
    """Change what the page of a waiting login needs to know; False when the login went on meanwhile."""
    halted = dataclasses.replace(waiting.halted, details={**waiting.halted.details, **details})
    document = {
        **_document(halted),
        "isHalted": True,
        "clientId": waiting.client.client_id,
        "page": waiting.page,
        "given": login_intents.of_request(services, waiting.proven),
    }
    return await login_intents.change(services, waiting.client, waiting.cookie, waiting.intent_id, document)


class Claim:
    """The one use of an intent, for a write that may run again; of all who send one form one goes on."""

    def __init__(self, services: Services, waiting: Waiting) -> None:
        self._services, self._waiting = services, waiting
        self._is_ours = False

    async def write(self, _session: Session | None = None) -> None:
        """Use the intent up. Raises InvalidRequest for whoever comes second."""
        if self._is_ours:
            return
        waiting = self._waiting
        found = await login_intents.take(self._services, waiting.client, waiting.cookie, waiting.intent_id)
        if found is None:
            raise over()
        self._is_ours = True


class OverError(InvalidRequest):
    """A page whose login is over, or went on: it belongs on a page, because the application has an answer already."""


def over() -> OverError:
    """The refusal of a page whose login is over."""
    message = "This page was open for too long, or was answered already. Go back to the application and start again."
    return OverError("unknown", message)


def _document(halted: HaltedLogin) -> Document:
    values = (getattr(halted, field.name) for field in dataclasses.fields(halted))
    return dict(zip(_FIELDS, values, strict=True))
