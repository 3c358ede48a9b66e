"""The APIs that verify email addresses and registrations: with a mailed id, or by callers with an API key.

They do not reveal which accounts exist: without a key the response is the same whether or not a mail is sent.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncIterator

from identity.call import ApiKeyCaller, Call, Document
from identity.domain.objects import ip_addresses
from identity.domain.objects.owner_settings import EmailVerification
from identity.domain.users import users as user_rules
from identity.errors import Forbidden, Invalid, NotFound, Unauthorized, Unavailable
from identity.ids import Secret, TenantId, new_secret
from identity.operations.limits import failed_login_limits, message_limits
from identity.operations.messaging import decoy_mails
from identity.operations.objects import application_lookup, crud, user_lookup
from identity.operations.verification import email_verifications, registration_verifications
from identity.operations.verification.verification_codes import OpenVerification
from identity.services import Services
from identity.store.rate_limits import Limit

_EMAIL = "api/verify-email.request.json"
_REGISTRATION = "api/verify-registration.request.json"
_FAILURES = failed_login_limits.ADDRESS_FAILURES
_FAILURE_SECONDS = failed_login_limits.FAILURE_WINDOW_SECONDS


@dataclasses.dataclass(frozen=True, slots=True)
class VerificationRequest:
    """A request to start a verification: of which user, for which application, and whether to mail it.

    `is_counted`: the caller has counted it against the IP address already.
    """

    email: str | None
    application_id: str | None
    is_sent: bool = True
    is_counted: bool = False


async def verify_email(services: Services, call: Call, body: Document, verification_id: str | None) -> None:
    """Verify an address by the id in the body, else in the path; or, with an API key, the address of a user.

    Raises Invalid, NotFound, Unauthorized for a user id without an API key, and WebhookTransactionFailed.
    """
    request = services.schemas[_EMAIL].read(body)
    requested_id = request.get("verificationId") or verification_id
    if requested_id is None and "userId" in request:
        if not isinstance(call.caller, ApiKeyCaller):
            raise Unauthorized(log_detail="only an API key may say that an address is verified")
        user = await user_lookup.retrieve(services, call, request["userId"])
        if "email" not in user:
            raise Invalid.field("missing", "user.email", "The user has no email address that could be verified.")
        await email_verifications.mark_verified(services, call, user, "Administrative")
        return
    required_id = _require_id(requested_id)
    async with limit_failures(services, call):
        await email_verifications.complete(services, call, required_id, request.get("oneTimeCode"))


async def verify_registration(services: Services, call: Call, body: Document, verification_id: str | None) -> None:
    """Verify a registration by the id in the body, else in the path. Raises as `verify_email` does."""
    request = services.schemas[_REGISTRATION].read(body)
    required_id = _require_id(request.get("verificationId") or verification_id)
    async with limit_failures(services, call):
        await registration_verifications.complete(services, call, required_id, request.get("oneTimeCode"))


async def start_email(services: Services, call: Call, request: VerificationRequest) -> Document:
    """Start the verification of a user's address; only callers with an API key receive its id.

    Without a key a mail is sent unless the address is verified; an open verification is kept, so that links in earlier
    mails stay valid. Raises Invalid, Forbidden if the tenant does not verify addresses, and for callers with a key
    NotFound and Unavailable.
    """
    email = _require_email(request)
    application = await application_lookup.get_named(services, call, request.application_id)
    tenant_id = crud.require_tenant(call) if application is None else TenantId(application["tenantId"])
    tenant = await services.configuration.tenants.get(None, tenant_id)
    if not EmailVerification.of(tenant).verify_email:
        raise Forbidden(log_detail="the tenant does not verify email addresses")
    call = call.within(tenant_id)
    if not request.is_counted:
        await message_limits.count_message_from_address(services, call, tenant, "sendEmailVerification")
    user = await services.directory.users.find_by_email(tenant_id, email)

    if isinstance(call.caller, ApiKeyCaller):
        if user is None:
            raise NotFound(log_detail="no user with this email")
        started = await email_verifications.start(services, call, tenant, user, application, send=request.is_sent)
        return started.to_response()
    with contextlib.suppress(Unavailable):
        if user is not None and not user["verified"]:
            await email_verifications.start(services, call, tenant, user, application, reuse=True)
            return {}
    await _render_decoy_mail(
        services, call, tenant, email_verifications.template_of(tenant, application), email, application
    )
    return {}


async def start_registration(services: Services, call: Call, request: VerificationRequest) -> Document:
    """As `start_email`, for a registration; Forbidden if the application does not verify registrations."""
    email = _require_email(request)
    if request.application_id is None:
        raise Invalid.field("missing", "applicationId", "You must specify the [applicationId] parameter.")
    application = await application_lookup.get_named(services, call, request.application_id)
    assert application is not None
    tenant_id = TenantId(application["tenantId"])
    tenant = await services.configuration.tenants.get(None, tenant_id)
    if not application["verifyRegistration"]:
        raise Forbidden(log_detail="the application does not verify registrations")
    call = call.within(tenant_id)
    if not request.is_counted:
        await message_limits.count_message_from_address(services, call, tenant, "sendRegistrationVerification")
    user = await services.directory.users.find_by_email(tenant_id, email)
    registration = None if user is None else user_rules.find_registration(user, application["id"])
    if isinstance(call.caller, ApiKeyCaller):
        if user is None or registration is None:
            raise NotFound(log_detail="no user with this email and a registration")
        started = await registration_verifications.start(
            services, call, tenant, user, application, send=request.is_sent
        )
        return started.to_response()
    with contextlib.suppress(Unavailable):
        if user is not None and registration is not None and not registration["verified"]:
            await registration_verifications.start(services, call, tenant, user, application, reuse=True)
            return {}
    await _render_decoy_mail(services, call, tenant, application.get("verificationEmailTemplateId"), email, application)
    return {}


async def retrieve_by_verification_id(services: Services, call: Call, verification_id: str) -> Document:
    """Return the user of an email or registration verification. Raises NotFound."""
    for kind in (email_verifications.KIND, registration_verifications.KIND):
        token = await services.tokens.one_time_tokens.find(call.tenant_id, kind, verification_id)
        if token is not None:
            return await services.directory.users.get(token.tenant_id, token.document.get("userId", token.owner))
    raise NotFound(log_detail="no such verification")


async def _render_decoy_mail(
    services: Services, call: Call, tenant: Document, template_id: str | None, email: str, application: Document | None
) -> None:
    """Render a mail without sending it, so that the response time does not reveal whether the user exists."""
    data = OpenVerification(new_secret(), Secret("A1B2C3")).template_variables()
    await decoy_mails.render(services, call, tenant, template_id, email, data, application)


@contextlib.asynccontextmanager
async def limit_failures(services: Services, call: Call) -> AsyncIterator[None]:
    """Limit the failures of an IP address that guesses ids or codes, which a tenant can configure to be short.

    Callers with an API key are not limited. Raises Unavailable.
    """
    limit = Limit("verification-address", ip_addresses.network(call.origin.ip_address), _FAILURES, _FAILURE_SECONDS)
    if isinstance(call.caller, ApiKeyCaller):
        yield
        return
    await services.limits.rate_limits.count(services.runtime.default_tenant_id, [limit], failed_login_limits.TOO_MANY)
    try:
        yield
    except (NotFound, Invalid):
        raise
    except BaseException:
        await services.limits.rate_limits.refund(services.runtime.default_tenant_id, [limit])
        raise
    await services.limits.rate_limits.refund(services.runtime.default_tenant_id, [limit])


def _require_id(verification_id: str | None) -> str:
    if verification_id is None:
        raise Invalid.field("missing", "verificationId", "You must specify the [verificationId] property.")
    return verification_id


def _require_email(request: VerificationRequest) -> str:
    if not request.email:
        raise Invalid.field("blank", "email", "You must specify the [email] parameter.")
    return request.email
