"""Refresh tokens: the members of a record, and its lifetime (spec: OAuth, refresh token lifecycle).

The record is the object of the API; its member `private` holds what later tokens repeat and the API does not show.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from identity.call import Document
from identity.ids import ApplicationId, UserId, new_id
from identity.instants import Instant, later

USE_RECORDED_SECONDS: Final = 60
"""The minimum interval between recorded uses of a token that its use does not change."""


@dataclasses.dataclass(frozen=True, slots=True)
class RefreshToken:
    """The authorization that a refresh token represents, which later tokens repeat.

    `grants` are the grant types so far (`gty`). `pkce_verified`: the code was bound by PKCE. `dpop_jkt` is the
    thumbprint of the key that the token is bound to, `certificate_thumbprint` that of the certificate. `claims` is a
    stored ClaimsRequest.
    """

    user_id: UserId
    client_id: ApplicationId | None
    scopes: tuple[str, ...]
    auth_instant: Instant
    grants: tuple[str, ...] = ()
    authentication_methods: tuple[str, ...] = ()
    pkce_verified: bool = False
    sso_session_id: str | None = None
    dpop_jkt: str | None = None
    claims: Document | None = None
    resources: tuple[str, ...] = ()
    certificate_thumbprint: str | None = None

    @classmethod
    def from_record(cls, record: Document) -> RefreshToken:
        """Return the refresh token of a record, which may also have been imported."""
        private, meta_data = record["private"], record["metaData"]
        return cls(
            UserId(record["userId"]),
            record.get("applicationId"),
            tuple(meta_data.get("scopes", ())),
            Instant(private.get("authInstant", record["insertInstant"])),
            tuple(private.get("grants", ())),
            tuple(private.get("authenticationMethods", ())),
            bool(private.get("hasProof")),
            private.get("ssoSessionId"),
            private.get("dpopJkt"),
            private.get("claims"),
            tuple(meta_data.get("resources", ())),
            private.get("certificateThumbprint"),
        )

    @property
    def is_bound(self) -> bool:
        """Whether the token is bound to a key or a certificate."""
        return self.dpop_jkt is not None or self.certificate_thumbprint is not None

    def new_record(self, device: Document, now: Instant) -> Document:
        """Return a new record, without the value and the tenant, which the store adds."""
        private = {
            "authInstant": self.auth_instant,
            "grants": list(self.grants),
            "hasProof": self.pkce_verified,
            "ssoSessionId": self.sso_session_id,
            "authenticationMethods": list(self.authentication_methods),
        }
        if self.claims:
            private["claims"] = self.claims
        if self.dpop_jkt is not None:
            private["dpopJkt"] = self.dpop_jkt
        if self.certificate_thumbprint is not None:
            private["certificateThumbprint"] = self.certificate_thumbprint
        meta_data: Document = {"data": {}, "device": device, "scopes": list(self.scopes)}
        if self.resources:
            meta_data["resources"] = list(self.resources)
        return {
            "id": new_id(),
            "applicationId": self.client_id,
            "userId": self.user_id,
            "insertInstant": now,
            "startInstant": now,
            "data": {},
            "metaData": meta_data,
            "private": private,
        }


@dataclasses.dataclass(frozen=True, slots=True)
class RefreshTokenPolicy:
    """The refresh token settings of a jwtConfiguration."""

    ttl_seconds: int
    maximum_seconds: int
    expiration: str
    is_one_time: bool
    grace_seconds: int

    @classmethod
    def of(cls, jwt_configuration: Document) -> RefreshTokenPolicy:
        """Return the policy of a jwtConfiguration."""
        window = jwt_configuration["refreshTokenSlidingWindowConfiguration"]
        return cls(
            jwt_configuration["refreshTokenTimeToLiveInMinutes"] * 60,
            window["maximumTimeToLiveInMinutes"] * 60,
            jwt_configuration["refreshTokenExpirationPolicy"],
            jwt_configuration["refreshTokenUsagePolicy"] == "OneTimeUse",
            jwt_configuration["refreshTokenOneTimeUseConfiguration"]["gracePeriodInSeconds"],
        )

    @property
    def is_sliding(self) -> bool:
        """Whether each use restarts the lifetime."""
        return self.expiration != "Fixed"

    def start(self, record: Document, now: Instant) -> Instant:
        """Return the start of the lifetime after a use at `now`."""
        return now if self.is_sliding else Instant(record["startInstant"])

    def expires(self, inserted: Instant, started: Instant) -> Instant:
        """Return the expiration of a token by its insertion and the start of its lifetime."""
        expires = later(started, seconds=self.ttl_seconds)
        if self.expiration == "SlidingWindowWithMaximumLifetime":
            return min(expires, later(inserted, seconds=self.maximum_seconds))
        return expires


def device(named: Mapping[str, str], address: str, now: Instant) -> Document:
    """Return the device of a login: as named by the request, with its IP address and the time of its last access."""
    known = {name: named[name] for name in ("description", "name", "type") if name in named}
    return {**known, "lastAccessedAddress": address, "lastAccessedInstant": now}


def is_use_recorded(record: Document, address: str, now: Instant) -> bool:
    """Whether the record has a use from this IP address within the last `USE_RECORDED_SECONDS`."""
    last_device = record["metaData"]["device"]
    if last_device.get("lastAccessedAddress") != address:
        return False
    accessed: int = last_device.get("lastAccessedInstant", 0)
    return accessed > later(now, seconds=-USE_RECORDED_SECONDS)


def to_event(record: Document) -> Document:
    """Return the record as events contain it: without its value and private members."""
    return {name: value for name, value in record.items() if name not in {"token", "private", "expiresAt"}}
