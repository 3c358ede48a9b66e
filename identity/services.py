"""The dependencies of operations in facets, one per subject; wired once by wiring.py."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from identity.authentication_metrics import AuthenticationMetrics
from identity.background_tasks import BackgroundWork
from identity.config import Config
from identity.events.bus import Bus
from identity.events.delivery import Deliverer
from identity.ids import TenantId
from identity.instants import Clock
from identity.outbound import breached_passwords
from identity.outbound.address_lists import AddressLists
from identity.outbound.connector_clients import ConnectorClients
from identity.outbound.federation import FederationClient
from identity.outbound.geoip import GeoIpDatabase
from identity.outbound.http import HttpClient
from identity.outbound.spans import Tracer
from identity.password_pool import PasswordPool
from identity.sandbox.pool import Sandbox
from identity.schemas import Schemas
from identity.store.action_logs import ActionLogs
from identity.store.activity import ActivityCounts, RecentEntries, ReportCounts
from identity.store.api_keys import ApiKeys
from identity.store.append_only_logs import AppendOnlyLog
from identity.store.authorization_codes import AuthorizationCodes, PushedRequests
from identity.store.browser_sessions import ConsoleSessions, SsoSessions
from identity.store.client_registrations import ClientRegistrations, InitialAccessTokens
from identity.store.device_grants import DeviceGrants
from identity.store.documents import Documents
from identity.store.entities import Entities, EntityGrants
from identity.store.erasures import Erasures
from identity.store.event_erasure import EventErasure
from identity.store.families import Families
from identity.store.groups import GroupMembers
from identity.store.identity_providers import IdentityProviderLinks, IdentityProviders
from identity.store.instance import InstanceStore
from identity.store.keys import Keys
from identity.store.login_records import LoginRecords
from identity.store.login_state import FederationStates, LoginIntents, PendingLinks
from identity.store.mongo import Database
from identity.store.name_reservations import NameReservations
from identity.store.one_time_tokens import OneTimeIds, OneTimeTokens, OpenVerifications
from identity.store.personal_keys import PersonalKeys
from identity.store.previous_secrets import PreviousSecrets
from identity.store.rate_limits import FailedApiKeys, LockOuts, RateLimits
from identity.store.redis import Redis
from identity.store.refresh_tokens import RefreshTokens
from identity.store.revocations import Revocations
from identity.store.scope_consents import ScopeConsents
from identity.store.signed_values import DpopNonces, KnownDevices
from identity.store.system_settings import SystemSettingsCache
from identity.store.two_factor_trusts import TwoFactorTrusts
from identity.store.users import UserImports, Users
from identity.store.webauthn_credentials import WebAuthnCredentials
from identity.store.webhook_event_log import WebhookEventLog
from identity.store.webhook_health import WebhookHealth
from identity.store.work_queues import LogoutNotices, Mails, TextMessages
from identity.tokens.external_keys import ClientKeys
from identity.tokens.issuer import TokenIssuer


@dataclasses.dataclass(frozen=True, kw_only=True)
class Directory:
    """Users, groups, families and entities, with what belongs to each of them."""

    users: Users
    groups: Documents
    group_members: GroupMembers
    families: Families
    user_consents: Documents
    user_comments: Documents
    identity_provider_links: IdentityProviderLinks
    webauthn_credentials: WebAuthnCredentials
    name_reservations: NameReservations
    entities: Entities
    entity_grants: EntityGrants
    entity_types: Documents


@dataclasses.dataclass(frozen=True, kw_only=True)
class Configuration:
    """The objects that administrators configure."""

    tenants: Documents
    applications: Documents
    keys: Keys
    api_keys: ApiKeys
    lambdas: Documents
    themes: Documents
    identity_providers: IdentityProviders
    consents: Documents
    user_actions: Documents
    user_action_reasons: Documents
    webhooks: Documents
    system: SystemSettingsCache


@dataclasses.dataclass(frozen=True, slots=True)
class LambdaRuntime:
    """The sandbox of lambdas, and the client for the requests that they send."""

    sandbox: Sandbox
    http: HttpClient

    async def close(self) -> None:
        """End every process and close every connection."""
        await self.sandbox.close()
        await self.http.close()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outbound:
    """What leaves the service: mails, text messages, events, and requests to identity providers."""

    email_templates: Documents
    message_templates: Documents
    messengers: Documents
    mails: Mails
    text_messages: TextMessages
    deliverer: Deliverer
    wake_workers: Callable[[], None]
    """Notifies the workers of pending deliveries."""
    service_id: str
    """The id of this service in the `webhook-via` header."""
    tracer: Tracer
    http: HttpClient
    """The client for webhooks."""
    federation: FederationClient
    """The client for identity providers."""
    connector_clients: ConnectorClients


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tokens:
    """The issuer of tokens; codes, refresh tokens and other stored values that are exchanged for tokens."""

    issuer: TokenIssuer
    authorization_codes: AuthorizationCodes
    refresh_tokens: RefreshTokens
    device_grants: DeviceGrants
    pushed_requests: PushedRequests
    revocations: Revocations
    client_keys: ClientKeys
    """The public keys of applications, with the client that fetches them, and of issuers that vouch for clients."""
    dpop_nonces: DpopNonces
    one_time_ids: OneTimeIds
    one_time_tokens: OneTimeTokens
    open_verifications: OpenVerifications
    scope_consents: ScopeConsents


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sessions:
    """SSO sessions and logins that are not yet complete."""

    sso_sessions: SsoSessions
    logout_notices: LogoutNotices
    login_intents: LoginIntents
    pending_links: PendingLinks
    provider_logins: FederationStates
    """Logins at an identity provider, by browser."""
    link_logins: FederationStates
    """Logins whose user chooses the account of a pending link, by browser."""
    backend_logins: FederationStates
    """Logins through the hosted backend, by browser."""
    console_logins: FederationStates
    """Logins to the administrators' console, by browser."""
    trial_logins: FederationStates
    """Logins by which administrators try an application, by browser."""
    console_sessions: ConsoleSessions
    two_factor_trusts: TwoFactorTrusts
    known_devices: KnownDevices


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of attempts and of addresses, and of the registration of clients."""

    rate_limits: RateLimits
    lock_outs: LockOuts
    failed_api_keys: FailedApiKeys
    previous_secrets: PreviousSecrets
    """The secrets that a rotation replaced, for a limited time."""
    ip_access_control_lists: Documents
    initial_access_tokens: InitialAccessTokens
    client_registrations: ClientRegistrations
    blocklist: AddressLists
    """The addresses with a bad reputation, from the operator's files."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ErasureStores:
    """The work queue of erasures, and the stores that erase."""

    erasures: Erasures
    event_erasure: EventErasure
    personal_keys: PersonalKeys


@dataclasses.dataclass(frozen=True, kw_only=True)
class Logs:
    """The append-only logs, the erasure of deleted users, journals, health of webhooks, and counts of reports."""

    audit_logs: AppendOnlyLog
    event_logs: AppendOnlyLog
    login_records: LoginRecords
    action_logs: ActionLogs
    erasure: ErasureStores
    webhook_event_log: WebhookEventLog
    user_imports: UserImports
    report_counts: ReportCounts
    webhook_health: WebhookHealth
    activity_counts: ActivityCounts
    failed_logins: RecentEntries
    """The failed logins of each user."""
    refused_requests: RecentEntries
    """The refused authorization and token requests of each client."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Runtime:
    """The instance, its databases, and the parts of this process that operations use."""

    database: Database
    redis: Redis
    collections: Mapping[str, Documents]
    """The collections of declared resources, users and API keys, by collection name."""
    instance: InstanceStore
    instance_id: str
    default_tenant_id: TenantId
    lambda_runtime: LambdaRuntime
    background_work: BackgroundWork
    """Work whose duration must not be observable by callers."""
    authentication_metrics: AuthenticationMetrics
    passwords: PasswordPool
    breached_passwords: breached_passwords.BreachedPasswordSource
    """The source of breached passwords."""
    geoip: GeoIpDatabase


@dataclasses.dataclass(frozen=True, kw_only=True)
class Services:
    """The dependencies of operations."""

    config: Config
    clock: Clock
    schemas: Schemas
    bus: Bus
    directory: Directory
    configuration: Configuration
    outbound: Outbound
    tokens: Tokens
    sessions: Sessions
    limits: Limits
    logs: Logs
    runtime: Runtime
