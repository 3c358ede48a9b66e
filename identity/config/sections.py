"""The sections of the configuration as dataclasses. Defaults and descriptions are only in schemas/config.json."""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import overload

from identity.ids import Secret

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclasses.dataclass(frozen=True, slots=True)
class AllowedNetworks(Sequence[Network]):
    """Networks that the address guard allows, and the setting that lists them, for messages."""

    networks: tuple[Network, ...]
    setting: str

    @overload
    def __getitem__(self, index: int) -> Network: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Network]: ...

    def __getitem__(self, index: int | slice) -> Network | Sequence[Network]:
        """See Sequence."""
        return self.networks[index]

    def __len__(self) -> int:
        """See Sequence."""
        return len(self.networks)


@dataclasses.dataclass(frozen=True, slots=True)
class Server:
    """The HTTP server and the proxies in front of it."""

    address: str
    port: int
    quiesced: bool
    base_url: str | None
    trusted_proxies: tuple[Network, ...]
    form_action_sources: tuple[str, ...]
    shutdown_seconds: float
    idle_seconds: float
    max_body_bytes: int
    max_anonymous_body_bytes: int
    max_import_bytes: int
    max_header_bytes: int
    hsts_seconds: int


@dataclasses.dataclass(frozen=True, slots=True)
class MongoDB:
    """The MongoDB database."""

    uri: Secret
    database: str


@dataclasses.dataclass(frozen=True, slots=True)
class Redis:
    """The Redis database."""

    url: Secret


@dataclasses.dataclass(frozen=True, slots=True)
class Kickstart:
    """The initial setup of a new instance."""

    file: Path | None


@dataclasses.dataclass(frozen=True, slots=True)
class Secrets:
    """Encryption of secrets at rest."""

    master_key_file: Path | None


@dataclasses.dataclass(frozen=True, slots=True)
class License:
    """The enabled features; None means all of them."""

    features: Mapping[str, bool] | None

    def has(self, feature: str) -> bool:
        """Whether a feature is enabled; features that are not listed are."""
        return self.features is None or self.features.get(feature, True)


@dataclasses.dataclass(frozen=True, slots=True)
class Passwords:
    """Limits of password hashing."""

    maximum_factors: Mapping[str, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Webhooks:
    """Delivery of events."""

    schedule: tuple[int, ...]
    jitter: float
    lease_seconds: int
    concurrency_per_webhook: int
    max_concurrency: int
    allowed_networks: AllowedNetworks
    backlog_per_second: int = 200
    breaker_failure_ratio: float = 0.7
    breaker_minimum_attempts: int = 10
    breaker_window_seconds: int = 300
    breaker_pause_seconds: int = 30
    disable_after_seconds: int = 432_000
    payload_warn_bytes: int = 2**20
    payload_max_bytes: int = 25 * 2**20
    retries: str = "durable"

    @property
    def is_published(self) -> bool:
        """Whether retries follow the published API instead of the schedule."""
        return self.retries == "published"


@dataclasses.dataclass(frozen=True, slots=True)
class Email:
    """Sending of mail."""

    schedule: tuple[int, ...]
    timeout_seconds: int
    concurrency_per_tenant: int
    max_concurrency: int
    authorities_file: Path | None
    allowed_networks: AllowedNetworks
    plaintext_auth_hosts: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Lambdas:
    """Limits of lambda invocations and of the requests that they send, and their concurrency."""

    time_limit_ms: int
    memory_limit_bytes: int
    stack_limit_bytes: int
    output_limit_bytes: int
    processes: int
    max_waiting: int
    fetch_processes: int
    fetch_requests: int
    fetch_timeout_ms: int
    fetch_total_ms: int
    fetch_limit_bytes: int
    allowed_networks: AllowedNetworks


@dataclasses.dataclass(frozen=True, slots=True)
class IdentityProviders:
    """Requests to external identity providers; timeouts are milliseconds."""

    max_concurrency: int
    connect_timeout: int
    read_timeout: int
    allowed_networks: AllowedNetworks
    endpoint_overrides: Mapping[str, str]


@dataclasses.dataclass(frozen=True, slots=True)
class Connectors:
    """Requests to the servers and directories of connectors."""

    max_concurrency: int
    authorities_file: Path | None
    allowed_networks: AllowedNetworks


@dataclasses.dataclass(frozen=True, slots=True)
class ClientKeys:
    """Requests for the key sets that applications publish; timeouts are milliseconds."""

    max_concurrency: int
    connect_timeout: int
    read_timeout: int
    allowed_networks: AllowedNetworks


@dataclasses.dataclass(frozen=True, slots=True)
class TokenExchange:
    """The grant of RFC 8693; `maximum_actors` bounds its chains of delegation."""

    enabled: bool
    maximum_actors: int


@dataclasses.dataclass(frozen=True, slots=True)
class MutualTls:
    """Client certificates (RFC 8705), and the header in which a trusted proxy passes them on."""

    enabled: bool
    certificate_header: str
    authorities_file: Path | None
    base_url: str | None

    @property
    def alias(self) -> str | None:
        """The URL at which the proxy requests client certificates, if it is not that of the service."""
        return self.base_url if self.enabled else None


@dataclasses.dataclass(frozen=True, slots=True)
class ClientRegistration:
    """Dynamic client registration (RFC 7591): what registered clients may have, and how many there may be."""

    enabled: bool
    grant_types: tuple[str, ...]
    scopes: tuple[str, ...]
    maximum_per_tenant: int
    attempts_per_address: int
    trusted_issuers_file: Path | None


@dataclasses.dataclass(frozen=True, slots=True)
class Breaches:
    """The source of breached passwords; timeouts are milliseconds."""

    source: str
    file: Path | None
    url: str
    pairs: bool
    connect_timeout: int
    read_timeout: int
    allowed_networks: AllowedNetworks


@dataclasses.dataclass(frozen=True, slots=True)
class GeoIp:
    """Locations of IP addresses."""

    file: Path | None


@dataclasses.dataclass(frozen=True, slots=True)
class ClientRisk:
    """The thresholds of risk signals, and the lists of addresses and user agents with a bad reputation.

    Each pair of thresholds is that of MEDIUM, the milder one, and of HIGH.
    """

    medium_score: int
    high_score: int
    dormant_account_medium_days: int
    dormant_account_days: int
    dormant_password_medium_days: int
    dormant_password_days: int
    recent_change_medium_hours: int
    recent_change_hours: int
    failed_attempts_medium: int
    failed_attempts: int
    failed_attempt_minutes: int
    blocklist_files: tuple[Path, ...]
    blocklist_ids: tuple[str, ...]
    suspicious_user_agents: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Outbound:
    """The HTTP proxy for outgoing requests, if any."""

    proxy: Secret | None


@dataclasses.dataclass(frozen=True, slots=True)
class ApiKeys:
    """Rules for API key values chosen by callers, and for what responses to keys contain."""

    minimum_length: int
    show_tenant_secrets: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Console:
    """Sessions of the administrators' console, in seconds."""

    idle_seconds: int
    session_seconds: int
    recent_login_seconds: int


@dataclasses.dataclass(frozen=True, slots=True)
class ConsoleEmail:
    """The mail server for mails to administrators; without a host they get none."""

    host: str | None
    port: int
    security: str
    username: str | None
    password: Secret | None
    from_email: str
    from_name: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Audit:
    """Automatic entries of the audit log."""

    api_writes: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Logging:
    """The log on standard error."""

    level: str
    format: str


@dataclasses.dataclass(frozen=True, slots=True)
class Metrics:
    """Prometheus metrics."""

    enabled: bool
    allowed_networks: tuple[Network, ...]
    worker_address: str
    worker_port: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class Tracing:
    """Export of spans; disabled without an endpoint. `headers` are comma-separated `name=value` pairs."""

    endpoint: str | None
    headers: Secret | None
    service_name: str
    sample_ratio: float


@dataclasses.dataclass(frozen=True, slots=True)
class Config:
    """The configuration; `folder` contains the configuration file, `data_dir` is absolute."""

    folder: Path
    server: Server
    data_dir: Path
    mongodb: MongoDB
    redis: Redis
    kickstart: Kickstart
    secrets: Secrets
    license: License
    passwords: Passwords
    webhooks: Webhooks
    email: Email
    lambdas: Lambdas
    identity_providers: IdentityProviders
    connectors: Connectors
    client_keys: ClientKeys
    token_exchange: TokenExchange
    mutual_tls: MutualTls
    client_registration: ClientRegistration
    breaches: Breaches
    geoip: GeoIp
    client_risk: ClientRisk
    outbound: Outbound
    api_keys: ApiKeys
    audit: Audit
    console: Console
    console_email: ConsoleEmail
    logging: Logging
    metrics: Metrics
    tracing: Tracing

    @property
    def master_key_file(self) -> Path:
        """The configured master key file, or master.key in data_dir."""
        return self.secrets.master_key_file or self.data_dir / "master.key"

    def with_stores(self, mongodb_uri: str | None, redis_url: str | None) -> Config:
        """The configuration with the addresses of embedded stores; None keeps the configured address."""
        return dataclasses.replace(
            self,
            mongodb=dataclasses.replace(self.mongodb, uri=Secret(mongodb_uri or self.mongodb.uri)),
            redis=dataclasses.replace(self.redis, url=Secret(redis_url or self.redis.url)),
        )
