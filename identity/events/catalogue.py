"""The catalogue of event types: scope, whether webhooks may veto them, and the members of their envelope."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal


@dataclasses.dataclass(frozen=True, slots=True)
class EventType:
    """One row of the catalogue.

    - `transactional`: tenants may require the approval of webhooks.
    - `linked_object`: the path in the payload to the id of the object concerned.
    - `feature`: the member of `license.features` that the type belongs to.
    - `has_info`: the event has `info`, which describes the request.
    - `repeats_ip_address`: `info.ipAddress` is repeated as `ipAddress`, for older receivers.
    - `holds_secrets`: the event carries usable tokens.
    """

    name: str
    scope: Literal["instance", "tenant"] = "tenant"
    transactional: bool = False
    linked_object: tuple[str, ...] | None = ("user", "id")
    feature: str | None = None
    has_info: bool = True
    repeats_ip_address: bool = False
    holds_secrets: bool = False

    @property
    def is_of_instance(self) -> bool:
        """Whether the event concerns the instance rather than one tenant."""
        return self.scope == "instance"

    def linked_object_id(self, payload: Mapping[str, Any]) -> Any:
        """The id of the object that an event with this payload concerns, or None."""
        found: Any = payload
        for step in self.linked_object or ("",):
            found = found.get(step) if isinstance(found, Mapping) else None
        return found


SECRET_MEMBERS = frozenset({"original", "refreshToken", "token"})
"""The members of events that carry usable tokens."""

_GROUP = ("group", "id")
_ENTITY = ("entity", "id")
_USER_ID = ("userId",)


def _with_complete(name: str, **members: Any) -> tuple[EventType, EventType]:
    """A transactional event before a change, and the event after it."""
    return EventType(name, transactional=True, **members), EventType(f"{name}.complete", **members)


_ROWS = (
    EventType("audit-log.create", scope="instance", linked_object=None),
    *_with_complete("entity.create", linked_object=_ENTITY, feature="entityManagement"),
    *_with_complete("entity.delete", linked_object=_ENTITY, feature="entityManagement"),
    *_with_complete("entity.update", linked_object=_ENTITY, feature="entityManagement"),
    EventType("event-log.create", scope="instance", linked_object=None, has_info=False),
    *_with_complete("group.create", linked_object=_GROUP),
    *_with_complete("group.delete", linked_object=_GROUP),
    *_with_complete("group.member.add", linked_object=_GROUP),
    *_with_complete("group.member.remove", linked_object=_GROUP),
    *_with_complete("group.member.update", linked_object=_GROUP),
    *_with_complete("group.update", linked_object=_GROUP),
    EventType("jwt.public-key.update", transactional=True, linked_object=None),
    EventType("jwt.refresh", transactional=True, linked_object=_USER_ID, holds_secrets=True),
    EventType("jwt.refresh-token.revoke", transactional=True, linked_object=_USER_ID),
    EventType("kickstart.success", scope="instance", linked_object=None, has_info=False),
    EventType("user.action", transactional=True, linked_object=("actioneeUserId",)),
    EventType("user.bulk.create", transactional=True, linked_object=None),
    *_with_complete("user.create"),
    EventType("user.deactivate", transactional=True),
    *_with_complete("user.delete"),
    EventType("user.email.update"),
    EventType("user.email.verified", transactional=True),
    EventType("user.identity-provider.link"),
    EventType("user.identity-provider.unlink"),
    EventType("user.identity.update", transactional=True),
    EventType("user.identity.verified", transactional=True),
    EventType("user.login.failed", transactional=True, repeats_ip_address=True),
    EventType("user.login.new-device", transactional=True, feature="threatDetection", repeats_ip_address=True),
    EventType("user.login.success", transactional=True, repeats_ip_address=True),
    EventType("user.login.suspicious", transactional=True, feature="threatDetection", repeats_ip_address=True),
    EventType("user.loginId.duplicate.create"),
    EventType("user.loginId.duplicate.update"),
    EventType("user.password.breach", transactional=True, feature="breachedPasswordDetection"),
    EventType("user.password.reset.send"),
    EventType("user.password.reset.start"),
    EventType("user.password.reset.success"),
    EventType("user.password.update"),
    EventType("user.reactivate", transactional=True),
    *_with_complete("user.registration.create"),
    *_with_complete("user.registration.delete"),
    *_with_complete("user.registration.update"),
    EventType("user.registration.verified", transactional=True),
    EventType("user.two-factor.challenge"),
    EventType("user.two-factor.failed-attempt"),
    EventType("user.two-factor.method.add"),
    EventType("user.two-factor.method.remove"),
    EventType("user.two-factor.success"),
    *_with_complete("user.update"),
)

EVENTS: Mapping[str, EventType] = MappingProxyType({row.name: row for row in _ROWS})
"""The types that webhooks may subscribe to, by name."""

TRANSACTIONAL_EVENTS = frozenset(row.name for row in _ROWS if row.transactional)
"""The types that webhooks may veto."""

INSTANCE_EVENTS = frozenset(row.name for row in _ROWS if row.is_of_instance)
"""The types that concern the instance."""

ALIASES: Mapping[str, str] = MappingProxyType({"user.two-factor.failed.attempt": "user.two-factor.failed-attempt"})
"""Misspelled type names that were once published: accepted from callers, never sent."""
