"""The device grant: the request, its user code, and the approval of the user (RFC 8628 sections 3.1, 3.3 and 6.1).

The letters of user codes are those of other generated ids. Case, spaces and hyphens are insignificant.
"""

from __future__ import annotations

import dataclasses
import re
import secrets
from collections.abc import Mapping
from typing import Final

from identity.call import Document
from identity.domain.objects.external_identifiers import ALPHABETS
from identity.domain.objects.stored_values import stored_as
from identity.ids import new_text
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


_IGNORED: Final = re.compile(r"[\s\u2010-\u2015-]+")
_MAXIMUM_CHARACTERS: Final = 300
"""More than any code has, including hyphens between all letters."""


def generate_user_code(generator: Document) -> str:
    """Return a random code of the tenant's `deviceUserCodeIdGenerator`; random bytes are hexadecimal."""
    length: int = generator["length"]
    alphabet = ALPHABETS.get(generator["type"])
    return secrets.token_hex(length).upper() if alphabet is None else new_text(length, alphabet)


def normalize_user_code(typed: str) -> str:
    """Return a typed code in the form in which it was issued; empty if it cannot be one."""
    text = _IGNORED.sub("", typed) if len(typed) <= _MAXIMUM_CHARACTERS else ""
    return text.upper() if text.isascii() and text.isalnum() else ""
