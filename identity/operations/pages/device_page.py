"""The pages of the device grant: enter the user code, then approve the device (RFC 8628 section 3.3).

Like the consent page, the approval page belongs to a login transaction, which its form consumes.
"""

from __future__ import annotations

import dataclasses

from identity.call import Call, Document
from identity.domain.providers import identity_providers as provider_rules
from identity.errors import AccessDenied
from identity.ids import parse_id
from identity.operations.authorization import authorization, device_approvals, device_codes, device_grants
from identity.operations.clients import clients, ip_access_lists
from identity.operations.clients.clients import Client, TenantHints
from identity.operations.login_transactions.authorization_steps import Browser, CurrentLogin, LoginPage, Step
from identity.operations.login_transactions.login_transactions import AuthenticatedTransaction
from identity.operations.sessions import sso_sessions
from identity.services import Services
from identity.store.device_grants import DeviceGrant


@dataclasses.dataclass(frozen=True, slots=True)
class DevicePage:
    """The user has to approve a device; `link` is the provider account that it asks to link, or empty."""

    client: Client
    current: CurrentLogin
    device: DeviceGrant
    link: Document


async def get_client(services: Services, call: Call, hints: TenantHints, given: Document) -> Client:
    """Return the client of a request to the pages.

    Raises InvalidRequest, UnauthorizedClient if the client may not use the device grant, and AddressRefusedError.
    """
    client = await clients.get_client(services, hints, given.get("client_id"))
    await ip_access_lists.require_address(services, client, call.origin.ip_address)
    device_grants.require_enabled(client)
    return client


async def find_signed_in_user(services: Services, client: Client, browser: Browser) -> Document | None:
    """Return the user of the browser's SSO session."""
    session = await sso_sessions.find(services, client.tenant, browser.sso_secret)
    return None if session is None else await services.directory.users.find_cached(client.tenant_id, session.user_id)


async def find_linked_provider_name(services: Services, client: Client, provider_id: str | None) -> str:
    """Return the name of an identity provider of the tenant; empty for any other id."""
    known_id = parse_id(provider_id)
    provider = None if known_id is None else await services.configuration.identity_providers.find_cached(None, known_id)
    if provider is None or not provider_rules.is_available_to(provider, client.tenant_id):
        return ""
    return str(provider["name"])


async def show(
    services: Services, call: Call, transaction: AuthenticatedTransaction, browser: Browser
) -> DevicePage | Step:
    """Return the approval page, or the next step if the user logged out or may not log in. Raises OAuth2Error."""
    verified_client, client = transaction.verified_client, transaction.client
    restored = await authorization.restore_login(services, call, transaction, browser)
    if restored is None:
        return LoginPage(client)
    request, current = restored
    if request.user_code is None or authorization.unmet_requirement(call, client, current) is not None:
        return await authorization.proceed(services, call, verified_client, request, current)
    device = await device_approvals.get_pending(services, call, client, request.user_code)
    link = await device_codes.find_pending_link(services, call, client.tenant_id, device)
    return DevicePage(client, current, device, link)


async def answer(
    services: Services,
    call: Call,
    transaction: AuthenticatedTransaction,
    browser: Browser,
    grant_id: str,
    *,
    is_allowed: bool,
) -> Step:
    """Approve or deny the device, after the transaction was consumed; `grant_id` names the device on the page.

    Raises AccessDenied if the user denied the device, which then receives the same error.
    """
    step = await show(services, call, transaction, browser)
    if not isinstance(step, DevicePage):
        return step
    if step.device.grant_id != grant_id:
        raise device_grants.invalid_user_code()
    if not is_allowed:
        await device_grants.deny(services, call, step.client, step.device)
        raise AccessDenied("consent_canceled", "The user denied the device.")
    request = authorization.validate(call, transaction.verified_client)
    return await authorization.respond(services, call, transaction.verified_client, request, step.current, step.device)
