"""The dependencies of operations, wired once by wiring.py."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar, cast

from identity.background_tasks import BackgroundWork
from identity.config import Config
from identity.events.bus import Bus
from identity.events.delivery import Deliverer
from identity.ids import TenantId
from identity.instants import Clock
from identity.outbound import breached_passwords
from identity.outbound.federation import FederationClient
from identity.outbound.geoip import GeoIpDatabase
from identity.outbound.http import HttpClient
from identity.outbound.spans import Tracer
from identity.password_pool import PasswordPool
from identity.sandbox.pool import Sandbox
from identity.schemas import Schemas
from identity.store.action_logs import ActionLogs
from identity.store.api_keys import ApiKeys
from identity.store.append_only_logs import AppendOnlyLog
from identity.store.authorization_codes import AuthorizationCodes
from identity.store.device_grants import DeviceGrants
from identity.store.documents import Documents
from identity.store.dpop_nonces import DpopNonces
from identity.store.entities import Entities, EntityGrants
from identity.store.failed_api_keys import FailedApiKeys
from identity.store.families import Families
from identity.store.federation_state import FederationStates
from identity.store.group_members import GroupMembers
from identity.store.identity_provider_links import IdentityProviderLinks
from identity.store.identity_providers import IdentityProviders
from identity.store.instance import InstanceStore
from identity.store.known_devices import KnownDevices
from identity.store.lock_outs import LockOuts
from identity.store.login_intents import LoginIntents
from identity.store.login_records import LoginRecords
from identity.store.logout_notices import LogoutNotices
from identity.store.mails import Mails
from identity.store.mongo import Database
from identity.store.name_reservations import NameReservations
from identity.store.one_time_ids import OneTimeIds
from identity.store.one_time_tokens import OneTimeTokens
from identity.store.open_verifications import OpenVerifications
from identity.store.pending_links import PendingLinks
from identity.store.pushed_requests import PushedRequests
from identity.store.rate_limits import RateLimits
from identity.store.redis import Redis
from identity.store.refresh_tokens import RefreshTokens
from identity.store.report_counts import ReportCounts
from identity.store.revocations import Revocations
from identity.store.scope_consents import ScopeConsents
from identity.store.sso_sessions import SsoSessions
from identity.store.system_settings import SystemSettingsCache
from identity.store.text_messages import TextMessages
from identity.store.two_factor_trusts import TwoFactorTrusts
from identity.store.user_imports import UserImports
from identity.store.users import Users
from identity.store.vault import Vault
from identity.store.webhook_event_log import WebhookEventLog
from identity.store.webhook_health import WebhookHealth
from identity.tokens.client_jwks import ClientKeys
from identity.tokens.issuer import TokenIssuer

D = TypeVar("D", bound=Documents)


class Collection(Generic[D]):
    """An attribute of Services: the collection of its name."""

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    def __get__(self, services: Services, _owner: type) -> D:
        return cast("D", services.documents[self._name])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Collections:
    """The collections of MongoDB that operations use."""

    database: Database
    documents: Mapping[str, Documents]
    """The collections of declared resources, by collection name."""
    api_keys: ApiKeys
    users: Users
    mails: Mails
    text_messages: TextMessages
    logout_notices: LogoutNotices
    refresh_tokens: RefreshTokens
    system: SystemSettingsCache
    audit_logs: AppendOnlyLog
    event_logs: AppendOnlyLog
    login_records: LoginRecords
    name_reservations: NameReservations
    identity_provider_links: IdentityProviderLinks
    user_imports: UserImports
    scope_consents: ScopeConsents
    two_factor_trusts: TwoFactorTrusts
    action_logs: ActionLogs
    webhook_event_log: WebhookEventLog


@dataclasses.dataclass(frozen=True, kw_only=True)
class EphemeralStores:
    """The stores of Redis that operations use: state that expires."""

    redis: Redis
    pending_links: PendingLinks
    pushed_requests: PushedRequests
    provider_logins: FederationStates
    """Logins at an identity provider, by browser."""
    link_logins: FederationStates
    """Logins whose user chooses the account of a pending link, by browser."""
    backend_logins: FederationStates
    """Logins through the hosted backend, by browser."""
    authorization_codes: AuthorizationCodes
    device_grants: DeviceGrants
    sso_sessions: SsoSessions
    login_intents: LoginIntents
    lock_outs: LockOuts
    rate_limits: RateLimits
    failed_api_keys: FailedApiKeys
    revocations: Revocations
    one_time_ids: OneTimeIds
    one_time_tokens: OneTimeTokens
    open_verifications: OpenVerifications

    @classmethod
    def over(cls, redis: Redis, vault: Vault) -> EphemeralStores:
        """Return the stores over one Redis and one vault."""
        return cls(
            redis=redis,
            pending_links=PendingLinks(redis, vault),
            pushed_requests=PushedRequests(redis),
            provider_logins=FederationStates(redis, vault, "provider"),
            link_logins=FederationStates(redis, vault, "link"),
            backend_logins=FederationStates(redis, vault, "backend"),
            authorization_codes=AuthorizationCodes(redis),
            device_grants=DeviceGrants(redis),
            sso_sessions=SsoSessions(redis),
            login_intents=LoginIntents(redis),
            lock_outs=LockOuts(redis),
            rate_limits=RateLimits(redis),
            failed_api_keys=FailedApiKeys(redis),
            revocations=Revocations(redis),
            one_time_ids=OneTimeIds(redis),
            one_time_tokens=OneTimeTokens(redis),
            open_verifications=OpenVerifications(redis, vault),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Services(Collections, EphemeralStores):
    """The dependencies of operations."""

    config: Config
    clock: Clock
    schemas: Schemas
    instance_id: str
    default_tenant_id: TenantId
    instance: InstanceStore
    known_devices: KnownDevices
    report_counts: ReportCounts
    geoip: GeoIpDatabase
    dpop_nonces: DpopNonces
    tokens: TokenIssuer
    passwords: PasswordPool
    sandbox: Sandbox
    bus: Bus
    http: HttpClient
    """The client for webhooks."""
    federation: FederationClient
    """The client for identity providers."""
    breached_passwords: breached_passwords.BreachedPasswordSource
    """The source of breached passwords."""
    client_keys: ClientKeys
    """The public keys of applications, with the client that fetches them."""
    deliverer: Deliverer
    tracer: Tracer
    service_id: str
    """The id of this service in the `webhook-via` header."""
    webhook_health: WebhookHealth
    background_work: BackgroundWork
    """Work whose duration must not be observable by callers."""
    wake_workers: Callable[[], None]
    """Notifies the workers of pending deliveries."""

    # Collections of declared resources: of the instance, or with objects of one tenant each.
    applications = Collection[Documents]()
    consents = Collection[Documents]()
    email_templates = Collection[Documents]()
    entities = Collection[Entities]()
    entity_grants = Collection[EntityGrants]()
    entity_types = Collection[Documents]()
    families = Collection[Families]()
    group_members = Collection[GroupMembers]()
    groups = Collection[Documents]()
    identity_providers = Collection[IdentityProviders]()
    ip_access_control_lists = Collection[Documents]()
    keys = Collection[Documents]()
    lambdas = Collection[Documents]()
    message_templates = Collection[Documents]()
    messengers = Collection[Documents]()
    tenants = Collection[Documents]()
    themes = Collection[Documents]()
    user_action_reasons = Collection[Documents]()
    user_actions = Collection[Documents]()
    user_comments = Collection[Documents]()
    user_consents = Collection[Documents]()
    webhooks = Collection[Documents]()
