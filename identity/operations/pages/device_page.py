"""The pages of the device grant: what the one that asks shows, and what comes of the answer.

As the consent page it finds the login again by a login intent, which the answer uses up.
"""

from __future__ import annotations

import dataclasses

from identity.call import Call, Document
from identity.errors import AccessDenied
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
    """The user has to be asked about a device; `link` is the account that it brings along, empty where it does not."""

    client: Client
    current: CurrentLogin
    device: DeviceGrant
    link: Document


async def get_client(services: Services, call: Call, hints: TenantHints, given: Document) -> Client:
    """The client whose device is to be connected.

    Raises InvalidRequest, UnauthorizedClient where it has no devices, and AddressRefusedError.
    """
    client = await clients.get_client(services, hints, given.get("client_id"))
    await ip_access_lists.require_address(services, client, call.origin.ip_address)
    device_grants.require_enabled(client)
    return client


async def find_signed_in_user(services: Services, client: Client, browser: Browser) -> Document | None:
    """The user of the browser's session, if there is one."""
    session = await sso_sessions.find(services, client.tenant, browser.sso_secret)
    return None if session is None else await services.users.find_cached(client.tenant_id, session.user_id)


async def show(
    services: Services, call: Call, transaction: AuthenticatedTransaction, browser: Browser
) -> DevicePage | Step:
    """What to ask; or what comes next where nobody is logged in any more, or may not be. Raises OAuth2Error."""
    recalled = await authorization.restore_login(
        services, call, transaction.verified_client, transaction.login, browser
    )
    if recalled is None:
        return LoginPage(transaction.verified_client.client)
    request, current = recalled
    client = transaction.verified_client.client
    if request.user_code is None or authorization.unmet_requirement(call, client, current) is not None:
        return await authorization.proceed(services, call, transaction.verified_client, request, current)
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
    """What an answer comes to, when the intent was claimed; `grant_id` names the device that the page showed.

    Raises AccessDenied where the user does not want the device, which is then told so.
    """
    step = await show(services, call, transaction, browser)
    if not isinstance(step, DevicePage):
        return step
    if step.device.grant_id != grant_id:
        raise device_grants.invalid_user_code()
    if not is_allowed:
        await device_grants.deny(services, call, step.client, step.device)
        raise AccessDenied("consent_canceled", "The user does not want this device.")
    verified_client = transaction.verified_client
    request = authorization.validate(call, verified_client)
    return await authorization.respond(services, call, verified_client, request, step.current, step.device)
