"""What a device requested and what its user approved (RFC 8628 sections 3.1 and 3.3)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from identity.call import Document
from identity.instants import Instant


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceRequest:
    """A device authorization request: `address` is its IP address, `device` what the device states about itself.

    `pending_link_id` names an account at a provider that the approval links.
    """

    scopes: tuple[str, ...] = ()
    address: str = ""
    device: Mapping[str, str] = dataclasses.field(default_factory=dict)
    pending_link_id: str | None = None
    user_code: str = dataclasses.field(default="", repr=False)

    @classmethod
    def from_document(cls, stored: Document) -> DeviceRequest:
        """Return the request that `to_document` stored."""
        return cls(
            tuple(stored["scopes"]),
            stored["address"],
            stored["device"],
            stored.get("pendingIdPLinkId"),
            stored["userCode"],
        )

    def to_document(self) -> Document:
        """Return the stored form."""
        return {
            "scopes": list(self.scopes),
            "address": self.address,
            "device": dict(self.device),
            "pendingIdPLinkId": self.pending_link_id,
            "userCode": self.user_code,
        }


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceApproval:
    """The login of the user who approved a device, and the scopes granted to it."""

    user_id: str
    scopes: tuple[str, ...]
    auth_instant: Instant
    authentication_type: str
    authentication_methods: tuple[str, ...]

    @classmethod
    def from_document(cls, stored: Document) -> DeviceApproval:
        """Return the approval that `to_document` stored."""
        return cls(
            stored["userId"],
            tuple(stored["scopes"]),
            Instant(stored["authInstant"]),
            stored["authenticationType"],
            tuple(stored["authenticationMethods"]),
        )

    def to_document(self) -> Document:
        """Return the stored form."""
        return {
            "userId": self.user_id,
            "scopes": list(self.scopes),
            "authInstant": self.auth_instant,
            "authenticationType": self.authentication_type,
            "authenticationMethods": list(self.authentication_methods),
        }
