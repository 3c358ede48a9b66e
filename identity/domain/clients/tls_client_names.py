"""The name in the certificate of a client that authenticates by tls_client_auth (RFC 8705 section 2.1.2)."""

from __future__ import annotations

import dataclasses
from typing import Final

from identity.call import Document

SUBJECT_DN: Final = "subject_dn"
SAN_DNS: Final = "san_dns"
SAN_EMAIL: Final = "san_email"
SAN_IP: Final = "san_ip"
SAN_URI: Final = "san_uri"


@dataclasses.dataclass(frozen=True, slots=True)
class TlsClientName:
    """The `tlsClientAuthConfiguration` of an application: the kind of name and its value."""

    kind: str
    value: str

    @classmethod
    def of(cls, application: Document) -> TlsClientName | None:
        """Return the name that an application registered, if any."""
        stored = application["oauthConfiguration"].get("tlsClientAuthConfiguration")
        return None if stored is None else cls(stored["type"], stored["value"])
