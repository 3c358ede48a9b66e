"""The account pages on which users download their data and delete their account."""

from __future__ import annotations

from typing import Any, Final

from identity.call import Call, Document
from identity.domain.clients import refresh_tokens
from identity.domain.passwords import password_hashing
from identity.domain.users import users as user_rules
from identity.errors import Invalid
from identity.operations.login import login_records
from identity.operations.messaging import user_views
from identity.operations.pages import accounts
from identity.operations.pages.accounts import Account
from identity.operations.users import users
from identity.services import Services

CONFIRMATION: Final = "confirmation"
_LOGINS: Final = 500
_SECRET: Final = frozenset({"token", "tenantId", "userId", "publicKey", "private", "expiresAt"})


async def export(services: Services, call: Call, account: Account) -> Document:
    """Return what is stored about the user: profile, registrations, consents, links, devices, passkeys and logins.

    It contains no credentials, and at most the last 500 logins.
    """
    tenant_id, user_id = account.client.tenant_id, account.user_id
    tokens = await services.tokens.refresh_tokens.find_of_user(tenant_id, user_id, call.now)
    consents = await services.tokens.scope_consents.find_of_user(tenant_id, user_id, call.now)
    links = await services.directory.identity_provider_links.find_of_user(tenant_id, user_id)
    passkeys = await services.directory.webauthn_credentials.find_of_user(tenant_id, user_id)
    return {
        "exportInstant": call.now,
        "user": await user_views.to_response(services, account.user),
        "devices": [_shown(refresh_tokens.to_event(record)) for record in tokens],
        "identityProviderLinks": [_shown(link) for link in links],
        "logins": await login_records.find_recent(services, call.within(tenant_id), user_id, 0, _LOGINS),
        "passkeys": [_shown(passkey) for passkey in passkeys],
        "scopeConsents": [_shown(consent) for consent in consents],
    }


def may_delete(account: Account) -> bool:
    """Whether the tenant lets users delete their accounts."""
    # Tenants that were stored by earlier versions do not have the member.
    policy = account.client.tenant["userDeletePolicy"].get("selfService", {})
    return bool(policy.get("enabled", False))


def confirmation_field(account: Account) -> str:
    """Return the field that confirms a deletion: the current password, or the login id of a user without one."""
    has_password = password_hashing.stored_password(account.user) is not None
    return "currentPassword" if has_password else CONFIRMATION


async def delete(services: Services, call: Call, account: Account, form: Document) -> None:
    """Delete the account. Raises Invalid for an incorrect confirmation, and WebhookTransactionFailed."""
    name = confirmation_field(account)
    if name == "currentPassword":
        await accounts.require_password(services, call, account, form.get(name, ""))
    elif user_rules.login_key(form.get(name, "")) != user_rules.login_key(user_rules.primary_login_id(account.user)):
        raise Invalid.field("invalid", name, "Type your email address or username to confirm the deletion.")
    await users.delete(services, call.within(account.client.tenant_id), account.user_id)


def _shown(document: Document) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in _SECRET}
