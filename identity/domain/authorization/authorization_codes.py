"""What an authorization code stands for between authorization response and token request (RFC 6749 section 4.1)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from identity.call import Document
from identity.domain.authorization import claims_request
from identity.domain.authorization.claims_request import ClaimsRequest
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
        return cls(
            client_id=stored["clientId"],
            redirect_uri=stored["redirectUri"],
            user_id=stored["userId"],
            scopes=tuple(stored["scopes"]),
            auth_instant=Instant(stored["authInstant"]),
            authentication_type=stored["authenticationType"],
            nonce=stored.get("nonce"),
            code_challenge=stored.get("codeChallenge"),
            dpop_jkt=stored.get("dpopJkt"),
            sso_session_id=stored.get("ssoSessionId"),
            authentication_methods=tuple(stored.get("authenticationMethods", ())),
            claims=ClaimsRequest.from_document(stored.get("claims")),
            resources=tuple(stored.get("resources", ())),
            device=stored["device"],
            token_ids=tuple(stored.get("tokenIds", ())),
            user_code=stored.get("userCode"),
            device_grant_id=stored.get("deviceGrantId"),
        )

    def to_document(self) -> Document:
        """Return the stored form."""
        document: Document = {
            "clientId": self.client_id,
            "redirectUri": self.redirect_uri,
            "userId": self.user_id,
            "scopes": list(self.scopes),
            "nonce": self.nonce,
            "codeChallenge": self.code_challenge,
            "dpopJkt": self.dpop_jkt,
            "authInstant": self.auth_instant,
            "authenticationType": self.authentication_type,
            "ssoSessionId": self.sso_session_id,
            "device": dict(self.device),
            "authenticationMethods": list(self.authentication_methods),
            "claims": self.claims.to_document(),
            "resources": list(self.resources),
            "tokenIds": list(self.token_ids),
        }
        if self.user_code is not None:
            document |= {"userCode": self.user_code, "deviceGrantId": self.device_grant_id}
        return document
