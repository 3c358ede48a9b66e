"""Refresh tokens: what a record holds, and how long it lives (spec: OAuth, refresh token lifecycle).

The record is the API's object. Under `private` stands what later tokens repeat: `authInstant` (of the real
authentication), `grants` (for the token's `gty`), `hasProof` (the code was bound by PKCE), `ssoSessionId`,
`authenticationMethods` (`amr`) and, where claims were asked for one by one, `claims`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

from identity.call import Document
from identity.ids import ApplicationId, UserId, new_id
from identity.instants import Instant, later

USE_RECORDED_SECONDS: Final = 60
"""How often at most it is written down that a token was used which the use does not change."""


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
        """The policy that a jwtConfiguration states."""
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
        """Whether each use gives the token a new start."""
        return self.expiration != "Fixed"

    def start(self, record: Document, now: Instant) -> Instant:
        """The start of the token's time after a use at `now`."""
        return now if self.is_sliding else Instant(record["startInstant"])

    def expires(self, inserted: Instant, started: Instant) -> Instant:
        """When a token ends that was inserted and last started then."""
        match self.expiration:
            case "SlidingWindowWithMaximumLifetime":
                latest = later(inserted, seconds=self.maximum_seconds)
                return min(later(started, seconds=self.ttl_seconds), latest)
            case _:
                return later(started, seconds=self.ttl_seconds)


def new_record(
    user_id: UserId,
    application_id: ApplicationId,
    scopes: Sequence[str],
    device: Document,
    private: Document,
    now: Instant,
) -> Document:
    """A new record, without its value and its tenant, which the store adds."""
    return {
        "id": new_id(),
        "applicationId": application_id,
        "userId": user_id,
        "insertInstant": now,
        "startInstant": now,
        "data": {},
        "metaData": {"data": {}, "device": device, "scopes": list(scopes)},
        "private": private,
    }


def device(named: Mapping[str, str], address: str, now: Instant) -> Document:
    """The device of a login: what the request told of it, its address, and when it was there last."""
    known = {name: named[name] for name in ("description", "name", "type") if name in named}
    return {**known, "lastAccessedAddress": address, "lastAccessedInstant": now}


def is_use_recorded(record: Document, address: str, now: Instant) -> bool:
    """Whether a use from this address less than `USE_RECORDED_SECONDS` ago stands on the record."""
    seen = record["metaData"]["device"]
    if seen.get("lastAccessedAddress") != address:
        return False
    noted: int = seen.get("lastAccessedInstant", 0)
    return noted > later(now, seconds=-USE_RECORDED_SECONDS)


def to_event(record: Document) -> Document:
    """The record as events carry it: without its value and what is private."""
    return {name: value for name, value in record.items() if name not in {"token", "private", "expiresAt"}}
