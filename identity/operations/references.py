"""Which objects refer to which others: nothing that is referred to can be deleted, and nothing refers to what is gone.

Both sides change the object that is referred to, inside a transaction: who wants to refer to it holds it, who wants to
delete it removes it. Of two that meet, MongoDB lets one through, and the other looks again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

from identity.call import Document
from identity.domain import lambdas as lambda_rules
from identity.domain.resource import Resource
from identity.errors import FieldError, Invalid
from identity.instants import Instant
from identity.services import Services
from identity.store.documents import Documents
from identity.store.mongo import Session

T = TypeVar("T")

Write = Callable[[Session | None], Awaitable[T]]


@dataclasses.dataclass(frozen=True, slots=True)
class Reference:
    """Documents of the collection `source` name ids of the collection `target` in these members.

    A member is a dotted path; lists on the way, and at its end, count with all their items. With `until` the last step
    lies in a list of objects, and counts until the instant that stands beside it under that name.
    """

    source: str
    members: tuple[str, ...]
    target: str
    until: str | None = None


_SIGNING = ("jwtConfiguration.accessTokenKeyId", "jwtConfiguration.idTokenKeyId")
_VERIFYING = ("jwtConfiguration.accessTokenVerificationKeyIds", "jwtConfiguration.idTokenVerificationKeyIds")
_RETIRED = ("private.retiredKeys.keyId",)
_WEBHOOK_KEYS = (
    "signatureConfiguration.previousSigningKeyId",
    "signatureConfiguration.signingKeyId",
    "sslCertificateKeyId",
)
_ACCESS_LIST = ("accessControlConfiguration.uiIPAccessControlListId",)
_USER_MAILS = (
    "adminTwoFactorMethodRemove",
    "emailUpdate",
    "emailVerified",
    "forgotPassword",
    "loginIdInUseOnCreate",
    "loginIdInUseOnUpdate",
    "loginNewDevice",
    "loginSuspicious",
    "passwordResetSuccess",
    "passwordUpdate",
    "passwordless",
    "setPassword",
    "twoFactorMethodAdd",
    "twoFactorMethodRemove",
)
_MAILS = (
    *(f"emailConfiguration.{name}EmailTemplateId" for name in _USER_MAILS),
    "multiFactorConfiguration.email.templateId",
)
_MESSAGES = ("multiFactorConfiguration.sms.templateId",)

TABLE = (
    Reference("tenants", (*_SIGNING, *_VERIFYING), "keys"),
    Reference("applications", (*_SIGNING, *_VERIFYING), "keys"),
    Reference("tenants", _RETIRED, "keys", until="until"),
    Reference("applications", _RETIRED, "keys", until="until"),
    Reference(
        "identity_providers",
        (
            "assertionDecryptionConfiguration.keyTransportDecryptionKeyId",
            "defaultKeyId",
            "keyId",
            "requestSigningKeyId",
            "verificationKeyIds",
        ),
        "keys",
    ),
    Reference("identity_providers", ("lambdaConfiguration.reconcileId",), "lambdas"),
    Reference("webhooks", _WEBHOOK_KEYS, "keys"),
    Reference("messengers", ("sslCertificateId",), "keys"),
    Reference("tenants", ("multiFactorConfiguration.sms.messengerId",), "messengers"),
    Reference("tenants", _MESSAGES, "message_templates"),
    Reference("applications", _MESSAGES, "message_templates"),
    Reference("api_keys", ("ipAccessControlListId",), "ip_access_control_lists"),
    Reference("tenants", _ACCESS_LIST, "ip_access_control_lists"),
    Reference("applications", _ACCESS_LIST, "ip_access_control_lists"),
    Reference("tenants", ("failedAuthenticationConfiguration.userActionId",), "user_actions"),
    Reference(
        "tenants",
        (
            *_MAILS,
            "emailConfiguration.verificationEmailTemplateId",
            "familyConfiguration.confirmChildEmailTemplateId",
            "familyConfiguration.familyRequestEmailTemplateId",
            "familyConfiguration.parentRegistrationEmailTemplateId",
            "passwordValidationRules.breachDetection.notifyUserEmailTemplateId",
        ),
        "email_templates",
    ),
    Reference(
        "applications",
        (*_MAILS, "emailConfiguration.emailVerificationEmailTemplateId", "verificationEmailTemplateId"),
        "email_templates",
    ),
    Reference("consents", ("consentEmailTemplateId", "emailPlus.emailTemplateId"), "email_templates"),
    Reference(
        "user_actions",
        ("cancelEmailTemplateId", "endEmailTemplateId", "modifyEmailTemplateId", "startEmailTemplateId"),
        "email_templates",
    ),
    Reference("tenants", tuple(lambda_rules.REFERENCES["tenant"]), "lambdas"),
    Reference("applications", tuple(lambda_rules.REFERENCES["application"]), "lambdas"),
    Reference("tenants", ("themeId",), "themes"),
    Reference("applications", ("themeId",), "themes"),
    Reference("entity_types", _RETIRED, "keys", until="until"),
    Reference(
        "entity_types", ("jwtConfiguration.accessTokenKeyId", "jwtConfiguration.accessTokenVerificationKeyIds"), "keys"
    ),
    Reference("entities", ("type.id",), "entity_types"),
    Reference("entities", ("parentId",), "entities"),
)


def members_of(source: str) -> tuple[str, ...]:
    """The members of a collection's documents that name others: the look-ups by them need an index."""
    return tuple(member for row in TABLE if row.source == source for member in row.members)


async def problems(
    services: Services, resource: Resource, document: Document, stored: Document | None, targets: tuple[str, ...]
) -> list[FieldError]:
    """A field error for each object of the collections `targets` that a document, and not yet `stored`, names in vain.

    `keeping` has the last word; this one says everything at once.
    """
    errors = []
    before = set() if stored is None else {(member, value) for _, member, value in _named(resource, stored)}
    for row, member, value in _named(resource, document):
        if row.target in targets and (member, value) not in before:
            found = await _collection(services, row.target).cached(document.get("tenantId"), value)
            if found is None:
                path = f"{resource.name}.{member}"
                errors.append(FieldError.of("invalid", path, f"The [{path}] must name an existing object."))
    return errors


async def keeping(
    services: Services,
    resource: Resource,
    document: Document,
    stored: Document | None,
    write: Write[T],
    session: Session | None = None,
) -> T:
    """Write a document, and hold what it names and `stored`, its former state, did not.

    Raises Invalid with `[invalid]` for what was deleted in the meantime.
    """
    before = set() if stored is None else {(row.target, value) for row, _, value in _named(resource, stored)}
    fresh = {
        (row.target, value): member
        for row, member, value in _named(resource, document)
        if (row.target, value) not in before and row.until is None
    }
    if not fresh:
        return await write(session)

    async def held(session: Session) -> T:
        # All turns first: what another changes after the first look of a transaction would end it.
        await services.database.take_turns(session, [f"{target} {value}" for target, value in fresh])
        for target, value in sorted(fresh):
            if not await _collection(services, target).hold(document.get("tenantId"), value, session):
                path = f"{resource.name}.{fresh[target, value]}"
                raise Invalid.field("invalid", path, f"The [{path}] must name an existing object.")
        return await write(session)

    return await (services.database.in_transaction(held) if session is None else held(session))


async def removing(
    services: Services,
    resource: Resource,
    object_id: str,
    now: Instant,
    remove: Write[T],
    session: Session | None = None,
) -> T:
    """Remove an object to which nothing refers. Raises Invalid with `[inUse]`."""
    rows = [row for row in TABLE if row.target == resource.collection]
    if not rows:
        return await remove(session)

    async def unless_used(session: Session) -> T:
        for row in rows:
            if await _collection(services, row.source).count_across_tenants(_naming(row, object_id, now), 1, session):
                users = row.source.replace("_", " ")
                message = f"The {resource.label} is in use: there are {users} that refer to it."
                raise Invalid.field("inUse", resource.id_name, message)
        return await remove(session)

    return await (services.database.in_transaction(unless_used) if session is None else unless_used(session))


def _named(resource: Resource, document: Document) -> Iterator[tuple[Reference, str, str]]:
    """(row, member, id) of everything that a document names."""
    for row in TABLE:
        if row.source == resource.collection:
            for member in row.members:
                for value in _values(document, member.split(".")):
                    yield row, member, value


def _values(value: Any, steps: list[str]) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _values(item, steps)
    elif not steps:
        yield value
    elif isinstance(value, dict) and value.get(steps[0]) is not None:
        yield from _values(value[steps[0]], steps[1:])


def _naming(row: Reference, object_id: str, now: Instant) -> Document:
    """What documents of the row's source that refer to the object look like."""
    if row.until is None:
        return {"$or": [{member: object_id} for member in row.members]}
    places = (member.rpartition(".") for member in row.members)
    return {"$or": [{place: {"$elemMatch": {last: object_id, row.until: {"$gt": now}}}} for place, _, last in places]}


def _collection(services: Services, name: str) -> Documents:
    others: dict[str, Documents] = {"api_keys": services.api_keys, "users": services.users}
    return others.get(name) or services.documents[name]
