"""The content of an authorization code (RFC 6749 section 4.1)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from identity.call import Document
from identity.domain.authorization import claims_request
from identity.domain.authorization.claims_request import ClaimsRequest
from identity.domain.objects import stored_values
from identity.instants import Instant


@dataclasses.dataclass(frozen=True, slots=True)
class AuthorizationCode:
    """The grant behind a code; `resources` are all that the request named, of which a token may get fewer.

    `token_ids` are tokens of the authorization response (hybrid flow), which a replay of the code revokes as well.
    `user_code` and `device_grant_id` name a device that the token request approves.
    """

    client_id: str
    redirect_uri: str
    user_id: str
    scopes: tuple[str, ...]
    auth_instant: Instant
    authentication_type: str
    nonce: str | None = None
    code_challenge: str | None = None
    dpop_jkt: str | None = None
    sso_session_id: str | None = None
    authentication_methods: tuple[str, ...] = ()
    claims: ClaimsRequest = claims_request.NO_CLAIMS
    resources: tuple[str, ...] = ()
    device: Mapping[str, str] = dataclasses.field(default_factory=dict)
    token_ids: tuple[str, ...] = ()
    user_code: str | None = None
    device_grant_id: str | None = None

    @classmethod
    def from_document(cls, stored: Document) -> AuthorizationCode:
        """Return the grant that `to_document` stored."""
        claims = ClaimsRequest.from_document(stored.get("claims"))
        return dataclasses.replace(stored_values.from_document(cls, {**stored, "claims": None}), claims=claims)

    def to_document(self) -> Document:
        """Return the stored form."""
        return {**stored_values.to_document(self), "claims": self.claims.to_document()}
