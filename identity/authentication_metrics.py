"""Prometheus metrics of logins, token requests, second factors and account lock-outs, in every process.

Label values are bounded: they come from tables of the service, and everything else counts as `other`.
"""

from __future__ import annotations

import functools
import re

import prometheus_client

OTHER = "other"
_METHODS = frozenset(
    {"FEDERATED_JWT", "ONE_TIME_PASSWORD", "OPENID_CONNECT", "PASSWORD", "PASSWORDLESS", "PING", "REGISTRATION"}
    | {"APPLICATION_TOKEN", "USER_CREATE", "WebAuthn"}
)
_SECOND_FACTORS = frozenset({"authenticator", "email", "recoveryCode", "sms", "voice"})
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")


class AuthenticationMetrics:
    """The counters of authentication."""

    def __init__(self, registry: prometheus_client.CollectorRegistry | None = None) -> None:
        """Without a registry the metrics are counted but not exported."""
        self._logins = prometheus_client.Counter(
            "identity_logins", "Login attempts, by method and result", ["method", "result"], registry=registry
        )
        self._tokens = prometheus_client.Counter(
            "identity_token_requests",
            "Requests to the token endpoint, by grant type, and by OAuth error or `issued`",
            ["grant_type", "result"],
            registry=registry,
        )
        self._second_factors = prometheus_client.Counter(
            "identity_second_factors", "Verified two-factor codes", ["method", "result"], registry=registry
        )
        self.lock_outs = prometheus_client.Counter(
            "identity_lock_outs", "Accounts locked after too many failed logins", registry=registry
        )
        # Alerts on a series that does not exist never fire.
        for result in ("LoggedIn", "WrongCredentials"):
            self.count_login("PASSWORD", result)
            self._logins.labels("PASSWORD", _snake_case(result)).reset()

    def count_login(self, method: str, result: str) -> None:
        """Count a login; `result` is the name of the class of its result, or of the error that ended it."""
        self._logins.labels(method if method in _METHODS else OTHER, _snake_case(result)).inc()

    def count_token_request(self, grant_type: str | None, result: str) -> None:
        """Count a token request; the caller passes supported grant types and errors of RFC 6749 only."""
        self._tokens.labels(grant_type or OTHER, result).inc()

    def count_second_factor(self, method: str, *, is_correct: bool) -> None:
        """Count a verified code."""
        label = method if method in _SECOND_FACTORS else OTHER
        self._second_factors.labels(label, "correct" if is_correct else "incorrect").inc()


@functools.cache
def _snake_case(name: str) -> str:
    return _WORDS.sub("_", name).lower()
