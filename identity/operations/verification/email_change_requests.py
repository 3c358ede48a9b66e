"""Requests of users to change their own email address: validated, stored as pending, and sent to both addresses."""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain.messaging.builtin_mails import BuiltinMail
from identity.domain.users import users as user_rules
from identity.errors import FieldError
from identity.ids import TenantId
from identity.operations.clients import first_party_requests
from identity.operations.clients.clients import Client
from identity.operations.limits import message_limits
from identity.operations.messaging import mail, user_notifications
from identity.operations.objects import crud
from identity.operations.verification import email_changes, email_verifications
from identity.operations.verification.verification_codes import OpenVerification
from identity.schemas import is_email
from identity.services import Services

PATH = "user.email"


def is_different(user: Document, email: str) -> bool:
    """Whether an address differs from the user's own."""
    return user_rules.login_key(email) != user_rules.login_key(user.get("email", ""))


async def request_change(
    services: Services, call: Call, client: Client, user: Document, email: str
) -> OpenVerification:
    """Store a pending change of address until the new address is verified. The current address stays in use.

    Raises Invalid for an address that cannot be used, and Unavailable when the tenant's limit of mails is exceeded.
    """
    email, call = user_rules.login_key(email), call.within(client.tenant_id)
    await require_usable(services, call, client.tenant, user, email)
    await message_limits.count_message(services, client.tenant, "sendEmailVerification", user["id"])
    started = await email_changes.start(services, client.tenant, user, email)
    await _send_verification(services, call, client, user, email, started)
    if user.get("email"):
        await _notify_current_address(services, call, client, user)
    return started


async def resend(services: Services, call: Call, client: Client, user: Document) -> bool:
    """Send the verification of the pending change again; False if there is none. Raises Unavailable."""
    found = await email_changes.find_open(services, user)
    if found is None:
        return False
    await message_limits.count_message(services, client.tenant, "sendEmailVerification", user["id"])
    email = found[1]
    started = await email_changes.start(services, client.tenant, user, email)
    await _send_verification(services, call.within(client.tenant_id), client, user, email, started)
    return True


async def require_usable(services: Services, call: Call, tenant: Document, user: Document, email: str) -> None:
    """Raise Invalid for an address that is malformed, blocked or in use."""
    email = user_rules.login_key(email)
    if not is_email(email):
        crud.require_no_errors([FieldError.of("notEmail", PATH, "The [user.email] is not an email address.")])
    changed = {**user, "email": email}
    errors = user_rules.blocked_domain_problems(changed, tenant["registrationConfiguration"]["blockedDomains"])
    others = await services.directory.users.find_duplicates(TenantId(tenant["id"]), changed)
    if others:
        await user_notifications.notify_duplicate(services, call, tenant, changed, others, "update")
    crud.require_no_errors(errors + user_rules.duplicate_problems(changed, others))


async def _send_verification(
    services: Services, call: Call, client: Client, user: Document, email: str, started: OpenVerification
) -> None:
    template = email_verifications.template_of(client.tenant, client.application)
    link = {"link": first_party_requests.page_url(call, client, f"/email/verify/{started.id}")}
    await mail.send(
        services, call, client.tenant_id, template or BuiltinMail("verifyNewEmail"),
        user, {**started.template_variables(), **link},
        application=client.application, options=mail.MailOptions(address=email),
    )  # fmt: skip


async def _notify_current_address(services: Services, call: Call, client: Client, user: Document) -> None:
    """Send the current address the link that revokes the change."""
    token = await email_changes.issue_revocation(services, user)
    data = {
        "link": first_party_requests.page_url(call, client, f"/email/revoke-change/{token}"),
        "previousEmail": user["email"],
    }
    template = BuiltinMail("emailChange")
    await mail.send(services, call, client.tenant_id, template, user, data, application=client.application)
