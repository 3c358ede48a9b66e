"""The OAuth settings of an application, as the protocol endpoints decide on them, and its client_id.

`TlsClientName` is the name in the certificate of a client that authenticates by tls_client_auth (RFC 8705 section
2.1.2).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from identity.call import Document
from identity.domain.objects import stored_values
from identity.domain.objects.stored_values import stored_as


@dataclasses.dataclass(frozen=True, slots=True)
class OAuthSettings:
    """The members of an `oauthConfiguration` that decisions depend on; its schema has the defaults of the others."""

    profile: str | None = None
    enabled_grants: tuple[str, ...] = ()
    client_secret: str = dataclasses.field(default="", repr=False)
    jwks: Document | None = None
    jwks_uri: str | None = stored_as("jwksURI", default=None)
    authorized_origin_urls: tuple[str, ...] = stored_as("authorizedOriginURLs", default=())
    authorized_url_validation_policy: str = stored_as("authorizedURLValidationPolicy", default="")
    authorized_resource_uris: tuple[str, ...] = ()
    provided_scope_policy: Mapping[str, Mapping[str, bool]] = dataclasses.field(default_factory=dict)
    unknown_scope_policy: str = ""
    require_pushed_authorization_requests: bool = False
    require_signed_request_object: bool = False
    require_registration: bool = False
    generate_refresh_tokens: bool = False
    dpop_bound_access_tokens: bool = False
    dpop_nonce_required: bool = False
    tls_client_certificate_bound_access_tokens: bool = False
    authentication_context_class: str | None = None
    authentication_methods_enabled: bool = False
    step_up_configuration: Document | None = None
    device_verification_url: str | None = stored_as("deviceVerificationURL", default=None)
    logout_url: str | None = stored_as("logoutURL", default=None)
    logout_behavior: str = "AllApplications"
    debug: bool = False

    @property
    def has_bound_access_tokens(self) -> bool:
        """Whether every access token is bound to a key or a certificate."""
        return self.dpop_bound_access_tokens or self.tls_client_certificate_bound_access_tokens

    @classmethod
    def of(cls, application: Document) -> OAuthSettings:
        """Return the settings of an application."""
        return stored_values.from_document(cls, application["oauthConfiguration"])


def client_id_of(application: Document) -> str:
    """Return the client_id of an application: its id, or the `clientId` that it has in place of it.

    In the application of a request, it is the one that the client presented.
    """
    return str(application["oauthConfiguration"].get("clientId", application["id"]))


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
