"""Response members about open verifications, for callers with an API key and for users who log in."""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain.login import login_outcomes
from identity.domain.objects.owner_settings import FORM_FIELD, EmailVerification
from identity.ids import TenantId
from identity.operations.clients.clients import Client, application_of
from identity.operations.messaging import user_views
from identity.operations.verification import email_verifications, registration_verifications, verification_codes
from identity.operations.verification.verification_codes import OpenVerification
from identity.services import Services


async def for_user(services: Services, user: Document, *, with_codes: bool) -> Document:
    """Return the members of a response about a user: verification ids, and with `with_codes` the codes of new ones."""
    email = await _find_open_email(services, user)
    found: Document = {}
    if email is not None:
        found |= {"emailVerificationId": email.id, "verificationIds": [_listed(email, user, with_codes=with_codes)]}
        if email.one_time_code is not None and with_codes:
            found["emailVerificationOneTimeCode"] = email.one_time_code
    registrations = await _find_open_registrations(services, user)
    if registrations:
        found["registrationVerificationIds"] = {one: started.id for one, started in registrations.items()}
    codes = {one: started.one_time_code for one, started in registrations.items() if started.one_time_code is not None}
    if codes and with_codes:
        found["registrationVerificationOneTimeCodes"] = codes
    return found


async def for_registration(
    services: Services, user: Document, registration: Document, *, is_new_user: bool
) -> Document:
    """Return the members of a response about a new registration, which may have been created with its user."""
    found: Document = {}
    if not registration["verified"]:
        started = await registration_verifications.find_open(services, user, registration["applicationId"])
        if started is not None:
            found["registrationVerificationId"] = started.id
            if started.one_time_code is not None:
                found["registrationVerificationOneTimeCode"] = started.one_time_code
    email = await _find_open_email(services, user) if is_new_user else None
    if email is not None:
        found["verificationIds"] = [_listed(email, user, with_codes=True)]
    return found


async def for_gated_user(
    services: Services, call: Call, client: Client | None, result: login_outcomes.EmailNotVerified
) -> Document:
    """Return the body of a 212 response; with the FormField strategy it has the id, while the code is mailed.

    Raises Unavailable when a mail is required and the tenant's limit of mails is exceeded.
    """
    body: Document = {"user": await user_views.to_response(services, result.user)}
    tenant_id = TenantId(result.user["tenantId"])
    tenant = await services.configuration.tenants.get(None, tenant_id)
    if EmailVerification.of(tenant).uses_code:
        application = application_of(client)
        started = await email_verifications.find_or_start(services, call.within(tenant_id), result.user, application)
        body |= {"emailVerificationId": started.id, "identityVerificationId": started.id}
    return body


async def for_gated_registration(
    services: Services, call: Call, client: Client | None, result: login_outcomes.RegistrationNotVerified
) -> Document:
    """Return the body of a 213 response, like that of a 212. Raises as `for_gated_user` does."""
    body: Document = {"user": await user_views.to_response(services, result.user)}
    application = application_of(client)
    if application is not None and application["verificationStrategy"] == FORM_FIELD:
        inside = call.within(TenantId(result.user["tenantId"]))
        started = await registration_verifications.find_or_start(services, inside, result.user, application)
        body |= {"registrationVerificationId": started.id}
    return body


async def _find_open_email(services: Services, user: Document) -> OpenVerification | None:
    """Return the open verification of a user's address. Skips the look-up, for speed, where none is required."""
    tenant_id = TenantId(user["tenantId"])
    tenant = await services.configuration.tenants.find_cached(None, tenant_id)
    if "email" not in user or user["verified"] or tenant is None or not EmailVerification.of(tenant).verify_email:
        return None
    return await verification_codes.find_open(services, tenant_id, email_verifications.KIND, user["id"])


async def _find_open_registrations(services: Services, user: Document) -> dict[str, OpenVerification]:
    found = {
        one["applicationId"]: await registration_verifications.find_open(services, user, one["applicationId"])
        for one in user["registrations"]
        if not one["verified"]
    }
    return {application_id: started for application_id, started in found.items() if started is not None}


def _listed(started: OpenVerification, user: Document, *, with_codes: bool) -> Document:
    code = {} if started.one_time_code is None or not with_codes else {"oneTimeCode": started.one_time_code}
    return {"id": started.id, "type": "email", "value": user["email"], **code}
