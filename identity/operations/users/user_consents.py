"""User consents: given by users in person, if they are old enough, or by another user for them.

The giver receives a mail if the consent names a template; with `emailPlus` a second mail follows later, unless the
user consent has been revoked by then.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from identity.call import AnonymousCaller, Call, Caller, Document, Origin
from identity.domain.objects.resource_definition import Resource, Unique
from identity.domain.users import families
from identity.errors import FieldError, Invalid
from identity.ids import TenantId
from identity.instants import Instant, later
from identity.operations.messaging import mail, user_views
from identity.operations.objects import crud, user_lookup
from identity.services import Services
from identity.store.mongo import Write

_PATH = "userConsent"
_DUE = "private.secondMailInstant"
_RETRY_SECONDS = 600
_RANDOM = random.SystemRandom()


async def prepare(services: Services, call: Call, document: Document, stored: Document | None) -> Document:
    """Validate the consent, both users and the values. Raises Invalid."""
    if stored is not None:
        document |= {name: stored[name] for name in ("consentId", "giverUserId", "userId")}
    document.pop("consent", None)
    tenant_id = TenantId(document["tenantId"])
    consent = await services.configuration.consents.find_cached(None, document.get("consentId", ""))
    users = {name: await _find_user(services, tenant_id, document.get(name)) for name in ("giverUserId", "userId")}
    errors = [_error("invalid", "consentId", "must name an existing consent")] if consent is None else []
    errors += [_error("invalid", name, "must name an existing user") for name, one in users.items() if one is None]
    if consent is not None:
        errors += _value_problems(consent, document["values"])
    crud.require_no_errors(errors)
    assert consent is not None
    giver, user = users["giverUserId"], users["userId"]
    assert giver is not None
    assert user is not None
    if stored is None and giver["id"] == user["id"]:
        years = families.minimum_for_self_consent(consent, user)
        if not families.is_at_least(user, years, call.now):
            raise Invalid([_error("tooYoung", "giverUserId", f"must be {years} years old to consent in person")])
    return document


async def _commit(
    services: Services, call: Call, user_consent: Document | None, stored: Document | None, writes: Sequence[Write]
) -> None:
    """Commit a user consent, and schedule its second mail when it is given or given again."""
    assert user_consent is not None, "user consents are revoked, never deleted"
    _set_active_consent_id(user_consent)
    consent = await _find_consent(services, user_consent)
    if user_consent["status"] == "Revoked":
        user_consent["private"].pop("secondMailInstant", None)
    elif consent is not None and (stored is None or stored["status"] == "Revoked"):
        _schedule_second_mail(user_consent, consent, call.now)
    await services.runtime.database.execute(writes)


async def create(services: Services, call: Call, body: Document, object_id: str | None) -> Document:
    """Create a user consent and mail its giver. Raises Invalid."""
    call = await _in_tenant_of_user(services, call, body)
    document = await crud.create(services, call, RESOURCE, body, object_id)
    if await _delete_if_orphaned(services, document):
        raise Invalid([_error("invalid", "consentId", "must name an existing consent")])
    await _send_mail(services, call, document, "consentEmailTemplateId")
    return document


async def retrieve_of_user(services: Services, call: Call, user_id: str) -> list[Document]:
    """Return the consents of a user, newest first. Raises NotFound for a missing user."""
    tenant_id = await user_lookup.get_tenant_id(services, call, user_id)
    await services.directory.users.get(tenant_id, user_id)
    found = await services.directory.user_consents.find_all(tenant_id, {"userId": user_id})
    return [await to_response(services, one) for one in found]


async def update(services: Services, call: Call, body: Document, object_id: str) -> Document:
    """Update status and values; consent, giver and user are immutable. Raises NotFound and Invalid."""
    stored = await crud.retrieve(services, call, RESOURCE, object_id)
    requested = body.get(_PATH)
    if isinstance(requested, dict):
        fixed = {name: stored[name] for name in ("consentId", "giverUserId", "userId")}
        body = {**body, _PATH: {**requested, **fixed}}
    return await crud.update(services, call, RESOURCE, body, object_id)


async def revoke(services: Services, call: Call, object_id: str) -> None:
    """Revoke a user consent. Raises NotFound."""
    body = {_PATH: {"status": "Revoked"}}
    await crud.patch(services, call, RESOURCE, "application/merge-patch+json", body, object_id)


async def delete_of_consent(services: Services, consent_id: str) -> None:
    """Delete the user consents of a deleted consent in all tenants."""
    await services.directory.user_consents.delete_in_chunks_across_tenants({"consentId": consent_id})


async def send_second_mails(services: Services) -> None:
    """Send the second mails that are due; a failed one is retried."""
    now = services.clock.now()
    call = Call(None, AnonymousCaller(), now, Origin("", "", "", ""))
    documents = services.directory.user_consents
    for consent in await documents.find_all_across_tenants({_DUE: {"$lte": now}}):
        tenant_id, due = TenantId(consent["tenantId"]), consent["private"]["secondMailInstant"]
        own = {"_id": consent["id"], _DUE: due}
        lease = {"$set": {_DUE: later(now, seconds=_RETRY_SECONDS)}}
        if await documents.update(tenant_id, own, lease):
            await _send_mail(services, call, consent, "emailPlus")
            await documents.update(tenant_id, {"_id": consent["id"]}, {"$unset": {_DUE: ""}})


async def to_response(services: Services, document: Document) -> Document:
    """Return a user consent in API form, with its consent."""
    consent = await _find_consent(services, document)
    with_consent = {**document, **({} if consent is None else {"consent": consent})}
    return crud.to_response(services, RESOURCE, with_consent)


async def _to_response(services: Services, _caller: Caller, document: Document) -> Document:
    return await to_response(services, document)


RESOURCE = Resource(
    "userConsent",
    path="/api/user/consent",
    verbs=frozenset({"create", "retrieve", "update", "patch", "delete"}),
    unique=(Unique("active", ("tenantId", "userId", "private.activeConsentId"), "userConsent.consentId", sparse=True),),
    prepare=prepare,
    commit=_commit,
    create=create,
    update=update,
    delete=revoke,
    to_response=_to_response,
)


def _set_active_consent_id(document: Document) -> None:
    """Set the member whose unique index keeps a user from having two active consents of a kind."""
    private = {name: value for name, value in document.get("private", {}).items() if name != "activeConsentId"}
    if document["status"] == "Active":
        private["activeConsentId"] = document["consentId"]
    document["private"] = private


def _schedule_second_mail(document: Document, consent: Document, now: Instant) -> None:
    plus = consent["emailPlus"]
    if plus["enabled"]:
        hours = _RANDOM.uniform(plus["minimumTimeToSendEmailInHours"], plus["maximumTimeToSendEmailInHours"])
        document["private"]["secondMailInstant"] = later(now, seconds=round(hours * 3600))


async def _send_mail(services: Services, call: Call, document: Document, kind: str) -> None:
    """Send the giver one of the two mails, if the consent has a template for it."""
    consent = await _find_consent(services, document)
    if consent is None or document["status"] != "Active":
        return
    template_id = consent["emailPlus"].get("emailTemplateId") if kind == "emailPlus" else consent.get(kind)
    giver = await services.directory.users.find(document["tenantId"], document["giverUserId"])
    if template_id is not None and giver is not None:
        user = await services.directory.users.find(document["tenantId"], document["userId"])
        data: Document = {"consent": consent, "userConsent": await to_response(services, document)}
        if user is not None:
            data["consentingUser"] = await user_views.to_response(services, user)
        tenant_id = TenantId(document["tenantId"])
        await mail.send(services, call.within(tenant_id), tenant_id, template_id, giver, data)


async def _in_tenant_of_user(services: Services, call: Call, body: Document) -> Call:
    """Return the call in the tenant of the user that a body names, if the call has no tenant."""
    requested = body.get(_PATH)
    user_id = requested.get("userId") if isinstance(requested, dict) else None
    if call.tenant_id is not None or not isinstance(user_id, str):
        return call
    user = await services.directory.users.find_cached_across_tenants(user_id.strip().lower())
    return call if user is None else call.within(TenantId(user["tenantId"]))


async def _find_consent(services: Services, document: Document) -> Document | None:
    found = await services.configuration.consents.find_cached(None, document["consentId"])
    return None if found is None else {name: value for name, value in found.items() if name != "private"}


async def _find_user(services: Services, tenant_id: TenantId, user_id: str | None) -> Document | None:
    return None if user_id is None else await services.directory.users.find(tenant_id, user_id)


async def _delete_if_orphaned(services: Services, document: Document) -> bool:
    """Delete a user consent whose user or consent was deleted while it was written; return whether it was."""
    consent = await services.configuration.consents.find(None, document["consentId"])
    user = await services.directory.users.find(document["tenantId"], document["userId"])
    if consent is None or user is None:
        await services.directory.user_consents.delete(document["tenantId"], document["id"])
        return True
    return False


def _value_problems(consent: Document, values: list[str]) -> list[FieldError]:
    unknown = [value for value in values if value not in consent["values"]]
    if unknown:
        return [_error("invalid", "values", f"must be values of the consent: {', '.join(unknown)[:200]} is not")]
    if len(values) > 1 and not consent["multipleValuesAllowed"]:
        return [_error("invalid", "values", "may hold one value only")]
    return []


def _error(kind: str, name: str, what: str) -> FieldError:
    path = f"{_PATH}.{name}"
    return FieldError.of(kind, path, f"The [{path}] {what}.")
