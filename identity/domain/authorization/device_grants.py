"""The request of a device and the approval of its user (RFC 8628 sections 3.1 and 3.3)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from identity.domain.objects.stored_values import stored_as
from identity.instants import Instant


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceRequest:
    """A device authorization request: `address` is its IP address, `device` what the device states about itself.

    `pending_link_id` names an account at a provider that the approval links.
    """

    scopes: tuple[str, ...] = ()
    address: str = ""
    device: Mapping[str, str] = dataclasses.field(default_factory=dict)
    pending_link_id: str | None = stored_as("pendingIdPLinkId", default=None)
    user_code: str = dataclasses.field(default="", repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceApproval:
    """The login of the user who approved a device, and the scopes granted to it."""

    user_id: str
    scopes: tuple[str, ...]
    auth_instant: Instant
    authentication_type: str
    authentication_methods: tuple[str, ...]
