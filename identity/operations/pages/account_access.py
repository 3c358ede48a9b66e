"""The account pages that list and revoke access to the account: sessions, devices, applications and linked logins."""

from __future__ import annotations

import dataclasses
from typing import Final

from identity.call import Call, Document
from identity.domain.passwords import password_hashing
from identity.errors import NotFound
from identity.ids import ApplicationId, UserId
from identity.instants import Instant
from identity.operations.api import refresh_token_api, scope_consent_api
from identity.operations.authorization import passwordless
from identity.operations.pages.accounts import Account
from identity.operations.providers import unlinking
from identity.operations.sessions import sso_session_records
from identity.services import Services

LAST_LOGIN: Final = "accountLinks.last"
"""The page text for a linked login that cannot be removed."""


@dataclasses.dataclass(frozen=True, slots=True)
class BrowserSession:
    """A signed-in browser."""

    session_id: str
    signed_in_instant: Instant
    last_use_instant: Instant
    is_current: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Device:
    """A device or program that keeps the user signed in to an application, by a refresh token."""

    record_id: str
    application_id: str
    application_name: str
    name: str
    address: str
    last_use_instant: Instant


@dataclasses.dataclass(frozen=True, slots=True)
class ConnectedApplication:
    """An application with access to the account: its devices, and the scopes that the user allowed."""

    application_id: str
    name: str
    devices: int
    scopes: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class LinkedLogin:
    """An account at an identity provider by which the user can sign in."""

    provider_id: str
    provider_user_id: str
    provider_name: str
    display_name: str
    linked_instant: Instant


async def find_sessions(services: Services, call: Call, account: Account) -> list[BrowserSession]:
    """Return the sessions of the user: this browser's first, then the last used one."""
    tenant_id, current = account.client.tenant_id, account.current.session.session_id
    records = await sso_session_records.find_of_user(services, call, tenant_id, account.user_id)
    found = [
        BrowserSession(record["id"], record["insertInstant"], record["startInstant"], record["id"] == current)
        for record in records
    ]
    return sorted(found, key=lambda session: (not session.is_current, -session.last_use_instant))


async def end_session(services: Services, call: Call, account: Account, session_id: str) -> None:
    """End a session of the user; another user's is ignored. Raises WebhookTransactionFailed."""
    tenant_id = account.client.tenant_id
    record = await sso_session_records.find(services, call, tenant_id, session_id)
    if record is not None and record["userId"] == account.user_id:
        await sso_session_records.end(services, call, record)


async def find_devices(services: Services, call: Call, account: Account) -> list[Device]:
    """Return the devices of the user, the last used one first."""
    records = await services.tokens.refresh_tokens.find_of_user(account.client.tenant_id, account.user_id, call.now)
    found = [await _device(services, account, record) for record in records]
    return sorted(found, key=lambda device: -device.last_use_instant)


async def revoke_device(services: Services, call: Call, account: Account, record_id: str) -> None:
    """Revoke the access of a device of the user; another user's is ignored. Raises WebhookTransactionFailed."""
    record = await services.tokens.refresh_tokens.find(account.client.tenant_id, record_id)
    if record is not None and record["userId"] == account.user_id:
        await refresh_token_api.revoke_record(services, call, record)


async def find_applications(services: Services, call: Call, account: Account) -> list[ConnectedApplication]:
    """Return the applications with access to the account, by name."""
    tenant_id = account.client.tenant_id
    consents = await services.tokens.scope_consents.find_of_user(tenant_id, account.user_id, call.now)
    scopes = {consent["applicationId"]: tuple(sorted(consent["approved"])) for consent in consents}
    devices = await find_devices(services, call, account)
    ids = {*scopes, *(device.application_id for device in devices)}
    found = [
        ConnectedApplication(
            application_id,
            await _application_name(services, account, application_id),
            sum(device.application_id == application_id for device in devices),
            scopes.get(application_id, ()),
        )
        for application_id in ids
    ]
    return sorted(found, key=lambda application: (application.name.lower(), application.application_id))


async def revoke_application(services: Services, call: Call, account: Account, application_id: str) -> None:
    """Revoke what an application was allowed and its refresh tokens. Raises WebhookTransactionFailed."""
    inside = call.within(account.client.tenant_id)
    try:
        await scope_consent_api.withdraw(services, inside, account.user_id, application_id)
    except NotFound:
        tenant_id, client_id = account.client.tenant_id, ApplicationId(application_id)
        await refresh_token_api.revoke_of_user(services, inside, tenant_id, account.user_id, client_id)


async def find_links(services: Services, account: Account) -> list[LinkedLogin]:
    """Return the linked logins of the user, newest first."""
    links = await services.directory.identity_provider_links.find_of_user(account.client.tenant_id, account.user_id)
    return [await _linked_login(services, link) for link in links]


async def remove_link(services: Services, call: Call, account: Account, provider_id: str, provider_user_id: str) -> str:
    """Remove a linked login; return the key of a page text if it is the user's only way to sign in."""
    links = await find_links(services, account)
    if len(links) == 1 and not await _has_other_login(services, account):
        return LAST_LOGIN
    is_own = any((link.provider_id, link.provider_user_id) == (provider_id, provider_user_id) for link in links)
    if is_own:
        inside, user_id = call.within(account.client.tenant_id), str(account.user_id)
        await unlinking.unlink(services, inside, provider_id=provider_id, account=provider_user_id, user_id=user_id)
    return ""


async def _has_other_login(services: Services, account: Account) -> bool:
    """Whether the user can sign in without an identity provider."""
    if password_hashing.stored_password(account.user) is not None or passwordless.is_offered(account.client):
        return True
    passkeys = services.directory.webauthn_credentials
    return bool(await passkeys.find_of_user(account.client.tenant_id, UserId(account.user["id"])))


async def _device(services: Services, account: Account, record: Document) -> Device:
    device = record["metaData"].get("device", {})
    name = await _application_name(services, account, record["applicationId"])
    return Device(
        record["id"],
        record["applicationId"],
        name,
        device.get("name") or device.get("description") or device.get("type", ""),
        device.get("lastAccessedAddress", ""),
        device.get("lastAccessedInstant", record["startInstant"]),
    )


async def _application_name(services: Services, account: Account, application_id: str) -> str:
    application = await services.configuration.applications.find_cached(account.client.tenant_id, application_id)
    return application_id if application is None else str(application["name"])


async def _linked_login(services: Services, link: Document) -> LinkedLogin:
    provider = await services.configuration.identity_providers.find_cached(None, link["identityProviderId"])
    return LinkedLogin(
        link["identityProviderId"],
        link["identityProviderUserId"],
        link["identityProviderId"] if provider is None else provider["name"],
        link.get("displayName") or link["identityProviderUserId"],
        link["insertInstant"],
    )
