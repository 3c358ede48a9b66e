"""The events about users and registrations, with the payloads that receivers know."""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain.users import registrations, users
from identity.events.changes import Event
from identity.ids import TenantId
from identity.services import Services


def user_event(event_type: str, user: Document, **extra: object) -> Event:
    """An event about a user; `extra` are the members that its type has beside `user`."""
    return Event(event_type, {"user": users.without_secrets(user), **extra})


def before_update(original: Document, user: Document) -> list[Event]:
    """What webhooks may veto about an update: the update, and each login id that changes its value."""
    return [
        user_event("user.update", user, original=users.without_secrets(original)),
        *(
            user_event("user.identity.update", user, loginIdType=kind, previousLoginId=before, newLoginId=after)
            for kind, before, after in users.changed_identities(original, user)
        ),
    ]


def after_update(original: Document, user: Document, *, new_password: bool) -> list[Event]:
    """What is told after an update was committed."""
    events = [user_event("user.update.complete", user, original=users.without_secrets(original))]
    if original.get("email") and original.get("email") != user.get("email"):
        events.append(user_event("user.email.update", user, previousEmail=original["email"]))
    if new_password:
        events.append(user_event("user.password.update", user))
    return events + two_factor_changes(original, user)


def email_verified(user: Document) -> list[Event]:
    """What webhooks may veto about an address that becomes verified; `user` is who it is then."""
    return [user_event("user.email.verified", user), identity_verified(user, "email", user["email"])]


def identity_verified(user: Document, login_id_type: str, login_id: str) -> Event:
    """What webhooks may veto about a login id that becomes verified."""
    return user_event("user.identity.verified", user, loginId=login_id, loginIdType=login_id_type)


def two_factor_changes(original: Document | None, user: Document) -> list[Event]:
    """One event for every two-factor method that was added or removed."""
    before = {} if original is None else _methods(original)
    after = _methods(user)
    return [
        *(user_event("user.two-factor.method.add", user, method=after[key]) for key in after if key not in before),
        *(user_event("user.two-factor.method.remove", user, method=before[key]) for key in before if key not in after),
    ]


def registration_event(
    event_type: str, user: Document, registration: Document, original: Document | None = None
) -> Event:
    """An event about one registration, which travels beside its user."""
    before = {} if original is None else {"original": registrations.without_secrets(original)}
    return Event(
        event_type,
        {
            "user": registrations.user_without_registrations(user),
            "applicationId": registration["applicationId"],
            "registration": registrations.without_secrets(registration),
            **before,
        },
    )


async def announce_duplicates(
    services: Services, call: Call, event_type: str, user: Document, others: list[Document]
) -> None:
    """Tell that a request failed because others have its login ids: one event for each of them."""
    events = [_duplicate(event_type, user, other) for other in others]
    await services.bus.announce(call.within(TenantId(user["tenantId"])), events)


def _duplicate(event_type: str, user: Document, existing: Document) -> Event:
    shared = users.shared_login_ids(user, existing)
    names = {"email": "duplicateEmail", "phoneNumber": "duplicatePhoneNumber", "username": "duplicateUsername"}
    return user_event(
        event_type,
        user,
        existing=users.without_secrets(existing),
        duplicateIdentities=[{"type": kind, "value": value} for kind, value in sorted(shared.items())],
        **{names[kind]: value for kind, value in shared.items()},
    )


def _methods(user: Document) -> dict[str, Document]:
    return {method["id"]: method for method in users.without_secrets(user)["twoFactor"]["methods"]}
