"""The offer to add a passkey after a login without one, for the reauthentication workflow."""

from __future__ import annotations

from typing import Final

from identity.call import Call
from identity.domain.webauthn import relying_party, workflows
from identity.operations.clients.clients import Client
from identity.operations.objects import features
from identity.operations.webauthn import known_browsers
from identity.services import Services

FEATURE: Final = "webAuthn"

_OFFERED_AFTER: Final = frozenset({"PASSWORD", "PASSWORDLESS"})


async def is_due(services: Services, call: Call, client: Client, user_id: str, authentication_type: str) -> bool:
    """Whether a login is followed by the offer: the user has no passkey, and did not decline one in this browser."""
    if authentication_type not in _OFFERED_AFTER or known_browsers.is_known(call, client.tenant):
        return False
    workflow = workflows.effective(client.tenant, client.application, workflows.REAUTHENTICATION)
    if not workflow.is_enabled or not features.is_on(services, FEATURE):
        return False
    if relying_party.of_page(client.tenant, call.origin.base_url) is None:
        return False
    return not await services.directory.webauthn_credentials.find_of_user(client.tenant_id, user_id)
