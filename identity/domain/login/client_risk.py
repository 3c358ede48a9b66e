"""The risk of a login: the signals, their weights, and the level of their sum.

signal      a fact about a login that an attacker's login often has, such as a new device
finding     a signal that a login has, with the level MEDIUM or HIGH
score       the sum of the weights of the findings; the operator's thresholds turn it into the level of the login
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from identity.call import Document
from identity.config.sections import ClientRisk as Settings
from identity.domain.login import breach_detection
from identity.instants import Instant

IMPOSSIBLE_TRAVEL: Final = "ImpossibleTravel"

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS
_DAY_MS: Final = 24 * _HOUR_MS


class Level(enum.IntEnum):
    """A level of risk, in ascending order; the names are those of events and login records."""

    LOW = 0
    MEDIUM = 1
    HIGH = 2


POLICY_LEVELS: Final[Mapping[str, Level]] = {"ChallengeOnHighRisk": Level.HIGH, "ChallengeOnMediumRisk": Level.MEDIUM}
"""loginPolicy values that depend on the risk -> the lowest level at which they require a second factor."""


@dataclasses.dataclass(frozen=True, slots=True)
class RiskFacts:
    """What is known about a login. `user` is as stored before it; `failures` are the instants of recent failed logins.

    `user_agent` is None where it is not that of the user, as for a backend that does not state it.
    """

    now: Instant
    user: Document
    is_new_device: bool = False
    is_travel_impossible: bool = False
    is_device_trusted: bool = False
    is_address_blocklisted: bool = False
    user_agent: str | None = None
    failures: Sequence[int] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """A signal that a login has."""

    name: str
    level: Level
    weight: int
    is_published: bool


@dataclasses.dataclass(frozen=True, slots=True)
class ClientRisk:
    """The level of a login, and the findings that led to it."""

    level: Level
    findings: tuple[Finding, ...] = ()

    @property
    def reasons(self) -> list[str]:
        """The names of the findings, the heaviest first."""
        return [finding.name for finding in sorted(self.findings, key=lambda finding: -finding.weight)]

    @property
    def published_threats(self) -> tuple[str, ...]:
        """The names of the findings that the published API has, whatever their level."""
        return tuple(finding.name for finding in self.findings if finding.is_published)

    @property
    def threats(self) -> tuple[str, ...]:
        """The published findings of the level HIGH: those that make a login suspicious."""
        return tuple(f.name for f in self.findings if f.is_published and f.level is Level.HIGH)


@dataclasses.dataclass(frozen=True, slots=True)
class Signal:
    """A row of the table: how to find the signal, and what it weighs at each level.

    `switch` is the member of `clientRiskConfiguration` that turns it off; None for the signals of this service, which
    the published API does not have and whose names therefore appear only in login records and lambdas.
    """

    name: str
    find: Callable[[RiskFacts, Settings], Level]
    weights: Mapping[Level, int]
    switch: str | None = None


def assess(facts: RiskFacts, configuration: Mapping[str, bool], settings: Settings) -> ClientRisk:
    """Return the risk of a login. `configuration` is the tenant's clientRiskConfiguration, with a switch per signal."""
    findings = tuple(
        Finding(signal.name, level, signal.weights[level], is_published=signal.switch is not None)
        for signal in SIGNALS
        if signal.switch is None or configuration.get(signal.switch, True)
        if (level := signal.find(facts, settings)) is not Level.LOW
    )
    score = sum(finding.weight for finding in findings)
    if score >= settings.high_score:
        return ClientRisk(Level.HIGH, findings)
    return ClientRisk(Level.MEDIUM if score >= settings.medium_score else Level.LOW, findings)


def _high(*, found: bool) -> Level:
    return Level.HIGH if found else Level.LOW


def _at_least(value: float, medium: float, high: float) -> Level:
    if value >= high:
        return Level.HIGH
    return Level.MEDIUM if value >= medium else Level.LOW


def _breached_password(facts: RiskFacts, _settings: Settings) -> Level:
    status = facts.user.get("breachedPasswordStatus")
    return _high(found=status not in {None, breach_detection.NOT_BREACHED})


def _suspicious_user_agent(facts: RiskFacts, settings: Settings) -> Level:
    agent = (facts.user_agent or "").lower()
    return _high(found=any(part.lower() in agent for part in settings.suspicious_user_agents))


def _failed_attempts(facts: RiskFacts, settings: Settings) -> Level:
    since = facts.now - settings.failed_attempt_minutes * _MINUTE_MS
    recent = sum(instant >= since for instant in facts.failures)
    return _at_least(recent, settings.failed_attempts_medium, settings.failed_attempts)


def _dormant_account(facts: RiskFacts, settings: Settings) -> Level:
    days = (facts.now - facts.user.get("lastLoginInstant", facts.now)) / _DAY_MS
    return _at_least(days, settings.dormant_account_medium_days, settings.dormant_account_days)


def _dormant_password(facts: RiskFacts, settings: Settings) -> Level:
    days = (facts.now - facts.user.get("passwordLastUpdateInstant", facts.now)) / _DAY_MS
    return _at_least(days, settings.dormant_password_medium_days, settings.dormant_password_days)


def _recent_identity_change(facts: RiskFacts, settings: Settings) -> Level:
    return _recent_change(facts, settings, [entry["insertInstant"] for entry in facts.user.get("identities", [])])


def _recent_password_change(facts: RiskFacts, settings: Settings) -> Level:
    return _recent_change(facts, settings, [facts.user.get("passwordLastUpdateInstant", 0)])


def _recent_factor_change(facts: RiskFacts, settings: Settings) -> Level:
    methods = facts.user["twoFactor"]["methods"]
    return _recent_change(facts, settings, [method.get("insertInstant", 0) for method in methods])


def _recent_change(facts: RiskFacts, settings: Settings, instants: Sequence[int]) -> Level:
    """Return the level of the last change. What a user was created with, and had at the first login, is no change."""
    created = facts.user["insertInstant"] + _MINUTE_MS
    changes = [instant for instant in instants if instant > created]
    if not changes or "lastLoginInstant" not in facts.user:
        return Level.LOW
    hours = (facts.now - max(changes)) / _HOUR_MS
    if hours < settings.recent_change_hours:
        return Level.HIGH
    return Level.MEDIUM if hours < settings.recent_change_medium_hours else Level.LOW


def _untrusted_device(facts: RiskFacts, _settings: Settings) -> Level:
    # Most devices are not trusted: on its own this is neither a reason for a challenge nor suspicious.
    is_found = bool(facts.user["twoFactor"]["methods"]) and not facts.is_device_trusted
    return Level.MEDIUM if is_found else Level.LOW


SIGNALS: Final = (
    Signal(IMPOSSIBLE_TRAVEL, lambda facts, _: _high(found=facts.is_travel_impossible), {Level.HIGH: 100},
           "impossibleTravel"),
    Signal("BlocklistedIp", lambda facts, _: _high(found=facts.is_address_blocklisted), {Level.HIGH: 100},
           "blocklistedIp"),
    Signal("BreachedPassword", _breached_password, {Level.HIGH: 100}),
    Signal("SuspiciousUserAgent", _suspicious_user_agent, {Level.HIGH: 60}, "suspiciousUserAgent"),
    Signal("UnrecognizedDevice", lambda facts, _: _high(found=facts.is_new_device), {Level.HIGH: 50},
           "unrecognizedDevice"),
    Signal("FailedAttempts", _failed_attempts, {Level.MEDIUM: 25, Level.HIGH: 50}),
    Signal("DormantAccount", _dormant_account, {Level.MEDIUM: 20, Level.HIGH: 40}, "dormantAccount"),
    Signal("RecentIdentityChange", _recent_identity_change, {Level.MEDIUM: 20, Level.HIGH: 40}, "recentIdentityChange"),
    Signal("RecentPasswordChange", _recent_password_change, {Level.MEDIUM: 20, Level.HIGH: 40}, "recentPasswordChange"),
    Signal("RecentFactorChange", _recent_factor_change, {Level.MEDIUM: 20, Level.HIGH: 40}),
    Signal("DormantPassword", _dormant_password, {Level.MEDIUM: 10, Level.HIGH: 20}, "dormantPassword"),
    Signal("UntrustedDevice", _untrusted_device, {Level.MEDIUM: 10}, "untrustedDevice"),
)  # fmt: skip
"""The signals. A single one of weight 100 makes the risk HIGH with the default thresholds, one of 50 MEDIUM."""
