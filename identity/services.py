"""The collaborators that an operation may use, wired once by wiring.py."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import cast

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Collections:
    """What operations use of MongoDB."""

    database: Database
    documents: Mapping[str, Documents]
    """The collections of declared resources and of tenants, applications and keys, by collection name."""
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
    """What operations use of Redis: state that ends by itself."""

    redis: Redis
    pending_links: PendingLinks
    pushed_requests: PushedRequests
    provider_logins: FederationStates
    """Browsers that are at an identity provider."""
    link_logins: FederationStates
    """Browsers whose user has to say which account a pending link is for."""
    backend_logins: FederationStates
    """Browsers that log in through the hosted backend."""
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
        """Everything over one Redis and one vault."""
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
    """Everything an operation may reach for."""

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
    """For calls in the name of whoever configured a webhook."""
    federation: FederationClient
    """For calls to the identity providers of others, through a client of its own."""
    breached_passwords: breached_passwords.BreachedPasswordSource
    """Where passwords that became known are looked for."""
    client_keys: ClientKeys
    """The public keys of applications, fetched through a client of its own, too."""
    deliverer: Deliverer
    tracer: Tracer
    service_id: str
    """The id of this service in the `webhook-via` header."""
    webhook_health: WebhookHealth
    background_work: BackgroundWork
    """For work of which callers must not learn by how long it takes."""
    wake_workers: Callable[[], None]
    """Says that there are deliveries to be made."""

    @property
    def tenants(self) -> Documents:
        """Tenants: objects of the instance."""
        return self.documents["tenants"]

    @property
    def applications(self) -> Documents:
        """Applications, each of one tenant."""
        return self.documents["applications"]

    @property
    def groups(self) -> Documents:
        """Groups, each of one tenant."""
        return self.documents["groups"]

    @property
    def identity_providers(self) -> IdentityProviders:
        """Identity providers: objects of the instance, of one tenant or of all."""
        return cast("IdentityProviders", self.documents["identity_providers"])

    @property
    def group_members(self) -> GroupMembers:
        """Memberships of users in groups, each of one tenant."""
        return cast("GroupMembers", self.documents["group_members"])

    @property
    def families(self) -> Families:
        """Families, each of one tenant."""
        return cast("Families", self.documents["families"])

    @property
    def keys(self) -> Documents:
        """Signing and verification keys: objects of the instance."""
        return self.documents["keys"]

    @property
    def webhooks(self) -> Documents:
        """Webhooks: objects of the instance."""
        return self.documents["webhooks"]

    @property
    def entity_types(self) -> Documents:
        """Entity types: objects of the instance."""
        return self.documents["entity_types"]

    @property
    def entities(self) -> Entities:
        """Entities, each of one tenant."""
        return cast("Entities", self.documents["entities"])

    @property
    def entity_grants(self) -> EntityGrants:
        """Grants on entities, each of one tenant."""
        return cast("EntityGrants", self.documents["entity_grants"])

    @property
    def ip_access_control_lists(self) -> Documents:
        """IP access control lists: objects of the instance."""
        return self.documents["ip_access_control_lists"]
