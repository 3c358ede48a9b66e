"""Whether a login needs a second factor: what tenant and application ask for, and on which devices they do without."""

from __future__ import annotations

import dataclasses

from identity.call import Call, Document
from identity.domain.login.login_outcomes import Authenticated
from identity.domain.two_factor import two_factor
from identity.operations.two_factor import two_factor_trust
from identity.services import Services


def is_challenged(tenant: Document, application: Document | None, user: Document, trust: object = None) -> bool:
    """Whether a login needs a second factor; `trust` is what `two_factor_trust.counting` found of the device."""
    return two_factor.is_challenged(tenant, application, user, is_trusted=bool(trust))


async def apply_device_trust(
    services: Services, call: Call, proven: Authenticated, trust_id: str | None
) -> Authenticated:
    """The credentials, with the second factor taken for shown on a device that counts as trusted.

    The device is looked up only where somebody would be asked otherwise.
    """
    if not trust_id or proven.has_second_factor or not is_challenged(proven.tenant, proven.application, proven.user):
        return proven
    trusts = await two_factor_trust.find_valid_trusts(services, call, proven.user, proven.application, trust_id)
    is_asked = is_challenged(proven.tenant, proven.application, proven.user, trusts)
    return proven if is_asked else dataclasses.replace(proven, has_second_factor=True)
