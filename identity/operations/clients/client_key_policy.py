"""Validate the authentication methods and public keys of an application when it is saved."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Final

from identity.call import Document
from identity.domain.authorization.client_authentication import PKI_CERTIFICATE, SELF_SIGNED_CERTIFICATE, methods
from identity.domain.clients.oauth_settings import TlsClientName
from identity.domain.providers.identity_providers import transport_problem
from identity.errors import FieldError
from identity.outbound.addresses import check_url
from identity.services import Services
from identity.tokens import client_certificates, external_keys

_PATH: Final = "application.oauthConfiguration"
_MEMBERS: Final = ("kty", "kid", "use", "alg", "crv", "n", "e", "x", "y")


def problems(services: Services, application: Document) -> list[FieldError]:
    """Return the errors of an application's keys; valid keys are reduced to their public members.

    Private and symmetric keys are rejected, not reduced: a key that its owner disclosed is compromised.
    """
    oauth = application["oauthConfiguration"]
    errors = [*_set_problems(oauth), *_address_problems(services, oauth), *_method_problems(application)]
    if not errors and "jwks" in oauth:
        public = [{name: entry[name] for name in _MEMBERS if name in entry} for entry in oauth["jwks"]["keys"]]
        oauth["jwks"] = {"keys": public}
    return errors


def _set_problems(oauth: Document) -> Iterator[FieldError]:
    entries = oauth.get("jwks", {}).get("keys", [])
    for index, entry in enumerate(entries):
        if reason := external_keys.jwk_problem(entry):
            yield _problem("invalid", f"jwks.keys[{index}]", f"The key cannot be used: {reason}.")
    for kid, count in collections.Counter(entry.get("kid") for entry in entries).items():
        if count > 1:
            yield _problem("duplicate", "jwks.keys", f"There are {count} keys with the kid [{kid}].")


def _address_problems(services: Services, oauth: Document) -> Iterator[FieldError]:
    if "jwksURI" not in oauth:
        return
    if "jwks" in oauth:
        yield _problem("invalid", "jwksURI", "An application has either jwks or jwksURI (RFC 7591 section 2).")
    networks = services.config.client_keys.allowed_networks
    url = oauth["jwksURI"]
    if reason := check_url(url, networks) or transport_problem(url, networks):
        yield _problem("invalid", "jwksURI", f"The URL cannot be used: {reason}.")


def _method_problems(application: Document) -> Iterator[FieldError]:
    oauth = application["oauthConfiguration"]
    yield from _certificate_problems(application)
    if oauth.keys() & {"jwks", "jwksURI"}:
        return
    if SELF_SIGNED_CERTIFICATE in methods(application):
        message = "self_signed_tls_client_auth needs the public keys of the client, in jwks or at jwksURI."
        yield _problem("missing", "jwks", message)
    if "private_key_jwt" in methods(application):
        yield _problem("missing", "jwks", "private_key_jwt needs the public keys of the client, in jwks or at jwksURI.")
    elif oauth["requireSignedRequestObject"] and "client_secret_jwt" not in methods(application):
        message = "Signed requests need the public keys of the client, in jwks or at jwksURI, or client_secret_jwt."
        yield _problem("missing", "jwks", message)


def _certificate_problems(application: Document) -> Iterator[FieldError]:
    name = TlsClientName.of(application)
    if name is None and PKI_CERTIFICATE in methods(application):
        message = "tls_client_auth needs the name in the certificate of the client."
        yield _problem("missing", "tlsClientAuthConfiguration", message)
    if name is not None and not client_certificates.is_name(name.kind, name.value):
        yield _problem("invalid", "tlsClientAuthConfiguration.value", f"It is not a name of the type {name.kind}.")


def _problem(kind: str, member: str, message: str) -> FieldError:
    path = f"{_PATH}.{member}"
    return FieldError.of(kind, path, f"The [{path}] is not valid. {message}")
