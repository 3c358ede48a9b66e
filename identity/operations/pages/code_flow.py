"""The service as a client of its own authorization endpoint: the code flow with PKCE (RFC 7636).

The console, its page that tries an application, and the hosted backend log in this way.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from identity.call import Call, Document
from identity.domain.authorization import pkce
from identity.domain.objects.external_identifiers import Lifetimes
from identity.errors import InvalidRequest
from identity.ids import Secret, TenantId, new_secret
from identity.operations.clients.clients import Client
from identity.operations.limits import anonymous_request_limits
from identity.services import Services
from identity.store.login_state import FederationStates

AUTHORIZE: Final = "/oauth2/authorize"


@dataclasses.dataclass(frozen=True, slots=True)
class LoginRedirect:
    """The authorization request as a URL, the browser's secret for the callback, and the lifetime of the login."""

    location: str
    browser_secret: str
    ttl_seconds: int


@dataclasses.dataclass(frozen=True, slots=True)
class CodeFlow:
    """A login that begins; the authorization response is valid only in the browser with the secret."""

    client: Client
    browser_secret: str
    state: Secret = dataclasses.field(default_factory=new_secret)
    code_verifier: Secret = dataclasses.field(default_factory=new_secret)

    def parameters(self, redirect_uri: str, scope: str) -> dict[str, str]:
        """Return the parameters of the authorization request."""
        return {
            "client_id": self.client.presented_client_id,
            "code_challenge": pkce.challenge(self.code_verifier),
            "code_challenge_method": pkce.METHOD,
            "redirect_uri": redirect_uri,
            "response_type": "code",
            "scope": scope,
            "state": self.state,
            "tenantId": self.client.tenant_id,
        }

    async def store(
        self, services: Services, call: Call, logins: FederationStates, location: str, pending: Document
    ) -> LoginRedirect:
        """Store what completes the login, and return the redirect to `location`. Raises InvalidRequest."""
        await anonymous_request_limits.count_request(services, self.client.tenant_id, call.origin.ip_address)
        secret = self.browser_secret or new_secret()
        ttl_seconds = Lifetimes.of(self.client.tenant).login_intent_seconds
        pending = {**pending, "codeVerifier": self.code_verifier}
        await logins.issue(self.client.tenant_id, self.state, secret, pending, ttl_seconds)
        return LoginRedirect(location, secret, ttl_seconds)


async def consume(logins: FederationStates, given: Mapping[str, str], browser_secret: str) -> tuple[TenantId, Document]:
    """Return the tenant and the stored login of an authorization response, once.

    Raises InvalidRequest for another browser and for an expired login.
    """
    found = await logins.consume_across_tenants(given.get("state", ""), browser_secret)
    if found is None:
        message = "This sign-in has expired, was completed already, or was started in another browser."
        raise InvalidRequest("unknown", message)
    return found


def token_request(pending: Document, redirect_uri: str, code: str | None) -> Document:
    """Return the token request of a stored login."""
    return {
        "grant_type": "authorization_code",
        "code": code,
        "code_verifier": pending["codeVerifier"],
        "redirect_uri": redirect_uri,
    }
