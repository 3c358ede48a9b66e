"""Consents that users give or revoke by fields of forms."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from identity.call import Call, Document
from identity.domain.users import families
from identity.errors import FieldError
from identity.ids import TenantId
from identity.instants import Instant
from identity.operations.users import user_consents
from identity.services import Services


@dataclasses.dataclass(frozen=True, slots=True)
class GivenConsent:
    """A consent that a form gives: `key` is the name of its field, `values` are the chosen values of the consent."""

    key: str
    consent: Document
    values: tuple[str, ...] = ()


async def with_values(services: Services, field: Document) -> Document:
    """Return a field with the values of its consent, if it has one, as options."""
    consent = await _find(services, field)
    if consent is None or not consent["values"]:
        return field
    control = "checkbox" if consent["multipleValuesAllowed"] else "radio"
    return {**field, "options": consent["values"], "control": control}


async def read(services: Services, field: Document, answer: Any) -> GivenConsent | None:
    """Return the consent that the answer to a field gives."""
    consent = await _find(services, field)
    if consent is None or not answer:
        return None
    values = (answer if isinstance(answer, list) else [answer]) if consent["values"] else []
    return GivenConsent(field["key"], consent, tuple(values))


def age_problems(consents: Iterable[GivenConsent], user: Document, now: Instant) -> list[FieldError]:
    """Return an error for each consent that the user is too young to give in person; pages have a text for it."""
    errors = []
    for given in consents:
        years = families.minimum_for_self_consent(given.consent, user)
        if not families.is_at_least(user, years, now):
            errors.append(FieldError.of("tooYoung", given.key, ""))
    return errors


async def give(services: Services, call: Call, user: Document, given: GivenConsent) -> None:
    """Store the consent of a user. Raises Invalid."""
    user_consent = {
        "consentId": given.consent["id"],
        "giverUserId": user["id"],
        "userId": user["id"],
        "values": list(given.values),
    }
    body = {"userConsent": user_consent}
    await user_consents.create(services, call.within(TenantId(user["tenantId"])), body, None)


async def find_active(services: Services, user: Document) -> dict[str, Document]:
    """Return the active consents of a user by the id of the consent."""
    where = {"userId": user["id"], "status": "Active"}
    found = await services.directory.user_consents.find_all(TenantId(user["tenantId"]), where)
    return {one["consentId"]: one for one in found}


def to_answer(field: Document, active: Document | None) -> Any:
    """Return the answer that the form shows for an active consent, or for none."""
    if field["control"] == "radio":
        return "".join(active["values"][:1]) if active else ""
    if field["options"]:
        return [option for option in field["options"] if active and option in active["values"]]
    return "true" if active else ""


async def replace(services: Services, call: Call, user: Document, consent_id: str, given: GivenConsent | None) -> None:
    """Give a consent, change its values, or revoke it where `given` is None. Raises Invalid."""
    call = call.within(TenantId(user["tenantId"]))
    active = (await find_active(services, user)).get(consent_id)
    if given is None and active is not None:
        await user_consents.revoke(services, call, active["id"])
    elif given is not None and active is None:
        await give(services, call, user, given)
    elif given is not None and active is not None:
        body = {"userConsent": {"values": list(given.values)}}
        await user_consents.update(services, call, body, active["id"])


async def _find(services: Services, field: Document) -> Document | None:
    consent_id = field.get("consentId")
    return None if consent_id is None else await services.configuration.consents.find_cached(None, consent_id)
