"""The second factor of a login: whether the policies of tenant and application require it, and device trust."""

from __future__ import annotations

import dataclasses

from identity.call import Call, Document
from identity.domain.login.login_outcomes import Authenticated
from identity.domain.two_factor import two_factor
from identity.operations.two_factor import two_factor_trust
from identity.services import Services


def is_challenged(tenant: Document, application: Document | None, user: Document, trust: object = None) -> bool:
    """Whether a login requires a second factor; `trust` is the result of `two_factor_trust.find_valid_trusts`."""
    return two_factor.is_challenged(tenant, application, user, is_trusted=bool(trust))


async def apply_device_trust(
    services: Services, call: Call, authenticated: Authenticated, trust_id: str | None
) -> Authenticated:
    """Return the credentials, with the second factor satisfied if the device is trusted.

    The device is looked up only if the login requires a second factor.
    """
    if (
        not trust_id
        or authenticated.has_second_factor
        or not is_challenged(authenticated.tenant, authenticated.application, authenticated.user)
    ):
        return authenticated
    trusts = await two_factor_trust.find_valid_trusts(
        services, call, authenticated.user, authenticated.application, trust_id
    )
    is_required = is_challenged(authenticated.tenant, authenticated.application, authenticated.user, trusts)
    return authenticated if is_required else dataclasses.replace(authenticated, has_second_factor=True)
