"""The jwtConfiguration of a tenant, an application or an entity type: signing keys, and the lifetime of tokens."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

from identity.call import Document

ACCESS_MEMBER: Final = "accessTokenKeyId"
"""The only signing key member of an entity type."""
ID_MEMBER: Final = "idTokenKeyId"

VERIFICATION_MEMBERS: Final = {
    ACCESS_MEMBER: "accessTokenVerificationKeyIds",
    ID_MEMBER: "idTokenVerificationKeyIds",
}
"""Member of a signing key -> member with the further keys that verify the same tokens."""
KEY_MEMBERS: Final = tuple(VERIFICATION_MEMBERS)
REFERENCES: Final = (*KEY_MEMBERS, *VERIFICATION_MEMBERS.values())
"""All members that name keys."""


@dataclasses.dataclass(frozen=True, slots=True)
class TokenSettings:
    """Typed access to a jwtConfiguration; it copies nothing, because every token reads a few members.

    The settings of an application or entity type take effect if `is_enabled`; those of the tenant complete them.
    """

    stored: Mapping[str, Any] = dataclasses.field(repr=False)

    @classmethod
    def of(cls, owner: Document) -> TokenSettings:
        """Return the settings of an owner, which may have been read without its jwtConfiguration."""
        return cls(owner.get("jwtConfiguration", {}))

    @property
    def is_enabled(self) -> bool:
        """Whether the settings of an application or entity type take effect."""
        return bool(self.stored.get("enabled"))

    @property
    def ttl_seconds(self) -> int:
        """The lifetime of access and ID tokens; 0 if an entity type has none."""
        return int(self.stored.get("timeToLiveInSeconds", 0))

    @property
    def signing_keys(self) -> dict[str, str]:
        """Member -> id of the key that it names."""
        return {member: self.stored[member] for member in KEY_MEMBERS if member in self.stored}

    def signing_key(self, member: str) -> str:
        """Return the id of the key that a member names. Raises KeyError."""
        return str(self.stored[member])

    def verification_keys(self, member: str) -> Sequence[str]:
        """Return the ids of further keys that verify the tokens of a signing key member."""
        found: Sequence[str] = self.stored.get(VERIFICATION_MEMBERS[member], ())
        return found

    @property
    def verification_references(self) -> dict[str, str]:
        """Path within the jwtConfiguration -> id of a key that only verifies."""
        return {
            f"{VERIFICATION_MEMBERS[member]}[{index}]": key_id
            for member in KEY_MEMBERS
            for index, key_id in enumerate(self.verification_keys(member))
        }

    @property
    def references(self) -> dict[str, str]:
        """Path within the jwtConfiguration -> id, of all keys."""
        return {**self.signing_keys, **self.verification_references}

    @property
    def key_ids(self) -> set[str]:
        """The ids of all keys."""
        return set(self.references.values())

    def has_own(self, member: str) -> bool:
        """Whether the application or entity type signs with a key of its own."""
        return self.is_enabled and member in self.stored


def effective_keys(tenant: Document, owner: Document | None) -> dict[str, str]:
    """Return the configured signing keys: those of the application or entity type, completed by those of the tenant."""
    own = None if owner is None else TokenSettings.of(owner)
    keys = {} if own is None or not own.is_enabled else own.signing_keys
    return {**TokenSettings.of(tenant).signing_keys, **keys}


def effective_ttl_seconds(tenant: Document, owner: Document | None = None) -> int:
    """Return the lifetime of access and ID tokens: that of the application or entity type, else the tenant's."""
    own = None if owner is None else TokenSettings.of(owner)
    if own is not None and own.is_enabled and own.ttl_seconds:
        return own.ttl_seconds
    return TokenSettings.of(tenant).ttl_seconds
