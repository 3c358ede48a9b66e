"""The account pages that list, add and delete passkeys.

A passkey that is added here is discoverable, so that the login page can use it without a login id.
"""

from __future__ import annotations

from typing import Final

from identity.call import Call, Document
from identity.domain.passwords import password_hashing
from identity.domain.users import users as user_rules
from identity.domain.webauthn import relying_party, workflows
from identity.errors import Invalid, NotFound
from identity.ids import TenantId
from identity.operations.authorization import passwordless
from identity.operations.clients.clients import Client
from identity.operations.objects import features
from identity.operations.pages import passkey_login
from identity.operations.pages.accounts import Account
from identity.operations.webauthn import challenges, known_browsers, offers, passkeys, registration
from identity.operations.webauthn.known_browsers import BrowserCookie
from identity.operations.webauthn.registration import NewPasskey
from identity.services import Services

FAILED: Final = "accountPasskeysAdd.failed"
LAST: Final = "accountPasskeysDelete.last"

_RESPONSE: Final = "api/webauthn-register-complete.request.json"
_CEREMONY: Final = "hosted-registration"
_NAME_LENGTH: Final = 255


def is_offered(services: Services, client: Client, base_url: str) -> bool:
    """Whether the account pages of the tenant offer passkeys at a URL of the service."""
    is_enabled = workflows.is_enabled(client.tenant) and features.is_on(services, offers.FEATURE)
    return is_enabled and relying_party.of_page(client.tenant, base_url) is not None


async def find_all(services: Services, account: Account) -> list[Document]:
    """Return the passkeys of the user, oldest first."""
    return await services.directory.webauthn_credentials.find_of_user(account.client.tenant_id, account.user_id)


async def find(services: Services, account: Account, passkey_id: str) -> Document | None:
    """Return a passkey of the user."""
    return next((one for one in await find_all(services, account) if one["id"] == passkey_id), None)


async def start(
    services: Services,
    account: Account,
    base_url: str,
    session: str,
    user_agent: str,
    workflow: str = workflows.GENERAL,
) -> Document | None:
    """Return the options to create a passkey for a workflow; None if the user cannot have another one.

    Only a form of the same `session` can complete the registration.
    """
    tenant, user = account.client.tenant, account.user
    party = relying_party.of_page(tenant, base_url)
    assert party is not None
    login_id = user_rules.primary_login_id(user)
    passkey = NewPasskey(login_id, login_id, user_agent)
    try:
        return await registration.begin(
            services,
            tenant,
            user,
            workflow,
            passkey,
            party[1],
            ceremony=_CEREMONY,
            session=session,
        )
    except Invalid:
        return None


async def add(
    services: Services, call: Call, account: Account, session: str, response: str, name: str
) -> BrowserCookie | None:
    """Store the passkey of a browser's response, in JSON; return the cookie of the browser. None if it is rejected."""
    client = account.client
    party = relying_party.of_page(client.tenant, call.origin.base_url)
    if party is None:
        return None
    origin, relying_party_id = party
    try:
        body = {
            "credential": passkey_login.read_response(response),
            "origin": origin,
            "rpId": relying_party_id,
            "userId": account.user_id,
        }
        request = services.schemas[_RESPONSE].read(body)
        challenge = await challenges.consume(
            services, client.tenant_id, _CEREMONY, request["credential"]["response"]["clientDataJSON"]
        )
        if challenge.user_id != account.user_id or challenge.settings["session"] != session:
            return None
        await registration.finish(services, call, challenge, request, display_name=name.strip()[:_NAME_LENGTH])
    except (Invalid, NotFound):
        return None
    return known_browsers.user_cookie(services, call, client.tenant, account.user)


async def remove(services: Services, call: Call, account: Account, passkey_id: str) -> bool:
    """Delete a passkey of the user; False if the user could no longer sign in without it."""
    owned = await find_all(services, account)
    if not any(one["id"] == passkey_id for one in owned):
        return True
    if len(owned) == 1 and not await _has_another_way(services, account):
        return False
    try:
        await passkeys.remove(services, call, TenantId(account.user["tenantId"]), passkey_id)
    except NotFound:
        # Another request deleted it.
        return True
    return True


async def _has_another_way(services: Services, account: Account) -> bool:
    """Whether the user can sign in to the application without a passkey."""
    if password_hashing.stored_password(account.user) is not None:
        return True
    if passwordless.is_offered(account.client) and account.user.get("email"):
        return True
    links = services.directory.identity_provider_links
    return bool(await links.find_of_user(account.client.tenant_id, account.user_id))
