"""The collections of MongoDB with their settings, and the stores of Redis. Only app.py and wiring.py import it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from identity import resources
from identity.domain.configuration import reference_table
from identity.domain.objects.resource_definition import Resource
from identity.domain.webhooks.retry_schedule import RetrySchedule
from identity.operations.configuration import applications, integrations, keys, system_configuration, tenants
from identity.operations.connectors import connectors
from identity.operations.entities import entities, entity_grants, entity_types
from identity.operations.groups import group_members, groups
from identity.operations.lambdas import lambdas
from identity.operations.messaging import email_templates, message_templates, messengers
from identity.operations.objects import audit_logs, event_logs
from identity.operations.providers import identity_providers
from identity.operations.user_actions import user_actions, user_comments
from identity.operations.users import families, user_consents
from identity.store.action_logs import ActionLogs
from identity.store.activity import ActivityCounts, RecentEntries
from identity.store.api_keys import ApiKeys
from identity.store.append_only_logs import AppendOnlyLog
from identity.store.authorization_codes import AuthorizationCodes, PushedRequests
from identity.store.browser_sessions import ConsoleSessions, SsoSessions
from identity.store.cache import CacheCounts, ChangeStreamStatus
from identity.store.client_registrations import ClientRegistrations, InitialAccessTokens
from identity.store.device_grants import DeviceGrants
from identity.store.documents import Documents
from identity.store.entities import Entities, EntityGrants
from identity.store.erasures import Erasures
from identity.store.event_erasure import EventErasure
from identity.store.families import Families, UserConsents
from identity.store.groups import GroupMembers, Groups
from identity.store.identity_providers import IdentityProviderLinks, IdentityProviders
from identity.store.keys import Keys
from identity.store.login_records import LoginRecords
from identity.store.login_state import FederationStates, LoginIntents, PendingLinks
from identity.store.migrations import Migration
from identity.store.mongo import Database
from identity.store.name_reservations import NameReservations
from identity.store.one_time_tokens import OneTimeIds, OneTimeTokens, OpenVerifications
from identity.store.outbox import Outbox
from identity.store.personal_keys import PersonalKeys
from identity.store.previous_secrets import PreviousSecrets
from identity.store.rate_limits import FailedApiKeys, LockOuts, RateLimits
from identity.store.redis import Redis
from identity.store.refresh_tokens import RefreshTokens
from identity.store.revocations import Revocations
from identity.store.scope_consents import ScopeConsents
from identity.store.store_circuit_breaker import time_limit
from identity.store.system_settings import SystemSettingsCache
from identity.store.two_factor_trusts import TwoFactorTrusts
from identity.store.users import UserImports, Users
from identity.store.vault import Vault
from identity.store.webauthn_credentials import WebAuthnCredentials
from identity.store.webhook_event_log import WebhookEventLog
from identity.store.work_queues import LogoutNotices, Mails, TextMessages

STORED_RESOURCES: tuple[Resource, ...] = (
    tenants.RESOURCE,
    applications.RESOURCE,
    groups.RESOURCE,
    group_members.RESOURCE,
    connectors.RESOURCE,
    identity_providers.RESOURCE,
    keys.RESOURCE,
    system_configuration.RESOURCE,
    integrations.RESOURCE,
    user_actions.RESOURCE,
    user_comments.RESOURCE,
    email_templates.RESOURCE,
    lambdas.RESOURCE,
    message_templates.RESOURCE,
    messengers.RESOURCE,
    entity_types.RESOURCE,
    entities.RESOURCE,
    entity_grants.RESOURCE,
    families.RESOURCE,
    user_consents.RESOURCE,
    *resources.RESOURCES,
)

_CLASSES: Mapping[str, type[Documents]] = {
    "families": Families,
    "user_consents": UserConsents,
    "entities": Entities,
    "entity_grants": EntityGrants,
    "group_members": GroupMembers,
    "groups": Groups,
    "identity_providers": IdentityProviders,
    "keys": Keys,
}
"""The collections with a class of their own."""

_WITHOUT_RESOURCE = (
    ActionLogs,
    ClientRegistrations,
    IdentityProviderLinks,
    InitialAccessTokens,
    ScopeConsents,
    TwoFactorTrusts,
    WebAuthnCredentials,
)
"""The collections that no declared resource describes."""


class Stores:
    """The collections of one MongoDB database; `documents` are those that are read through a cache, by name."""

    def __init__(self, database: Database, vault: Vault, schedule: RetrySchedule) -> None:
        self.database = database
        self.vault = vault
        self.stream_status = ChangeStreamStatus(database.last_answer)
        self.documents: dict[str, Documents] = {row.collection: self._declared(row) for row in STORED_RESOURCES}
        for kind in _WITHOUT_RESOURCE:
            self.documents[kind.collection_name] = kind(database, vault, self.stream_status)
        self.documents["users"] = Users(database, vault, self.stream_status)
        references = reference_table.members_of("api_keys")
        self.documents["api_keys"] = ApiKeys(database, vault, self.stream_status, references=references)
        self.system = SystemSettingsCache(self.documents[system_configuration.RESOURCE.collection])
        seconds, sent_events = schedule.total_seconds, self.system.sent_events
        self.outbox = Outbox(database, vault, schedule_seconds=seconds, sent_events=sent_events)
        self.webhook_event_log = WebhookEventLog(database, vault)
        self.refresh_tokens = RefreshTokens(database, vault)
        self.audit_logs = AppendOnlyLog(database, "audit_logs", audit_logs.RESOURCE.search_rules, tenant_scoped=True)
        self.event_logs = AppendOnlyLog(database, "event_logs", event_logs.RESOURCE.search_rules, tenant_scoped=False)
        self.login_records = LoginRecords(database)
        self.erasures = Erasures(database, vault)
        self.event_erasure = EventErasure(database, vault)
        self.mails = Mails(database, vault)
        self.text_messages = TextMessages(database, vault)
        self.logout_notices = LogoutNotices(database, vault)
        self.name_reservations = NameReservations(database)
        self.user_imports = UserImports(database)

    def _declared(self, row: Resource) -> Documents:
        """The collection of a declared resource."""
        return _CLASSES.get(row.collection, Documents)(
            self.database,
            row.collection,
            self.vault,
            self.stream_status,
            tenant_scoped=row.tenant_scoped,
            sealed=row.sealed,
            unique=row.unique,
            references=reference_table.members_of(row.collection),
            searches=row.search_rules,
        )

    def cache_counts(self) -> Mapping[str, CacheCounts]:
        """Return the counts of the caches that were read, by collection."""
        counts = {name: documents.cache_counts for name, documents in self.documents.items()}
        return {name: of for name, of in counts.items() if of.hits or of.loads}

    async def ensure_indexes(self) -> None:
        """Create missing indexes, of most collections concurrently."""
        others = (
            self.refresh_tokens, self.audit_logs, self.event_logs, self.login_records, self.mails, self.text_messages,
            self.logout_notices, self.name_reservations, self.user_imports, self.erasures,
        )  # fmt: skip
        with time_limit(0):  # creating an index over many documents takes long
            await asyncio.gather(*(documents.ensure_indexes() for documents in self.documents.values()))
            await asyncio.gather(*(store.ensure_indexes() for store in others))
            await self.outbox.ensure_indexes()
            await self.webhook_event_log.ensure_indexes()

    def migrations(self) -> Sequence[Migration]:
        """Return the migrations of stored documents, in order.

        Version 2 seals the headers of messengers; processes of 0.1.0 read the rest.
        """
        return (Migration(2, 1, self.documents[messengers.RESOURCE.collection].seal_plaintext),)

    async def reseal(self) -> int:
        """Reseal values that are sealed under an older master key; return the number of changed documents."""
        queues = (self.mails, self.text_messages, self.logout_notices, self.erasures)
        others = (self.refresh_tokens, self.outbox, *queues)
        changed = sum([await store.reseal() for store in others])
        return changed + sum([await documents.reseal() for documents in self.documents.values()])


def redis_stores(redis: Redis, vault: Vault) -> Mapping[str, object]:
    """Return the stores of Redis, which hold state that expires, by name."""
    return {
        "redis": redis,
        "pending_links": PendingLinks(redis, vault),
        "pushed_requests": PushedRequests(redis),
        "provider_logins": FederationStates(redis, vault, "provider"),
        "link_logins": FederationStates(redis, vault, "link"),
        "backend_logins": FederationStates(redis, vault, "backend"),
        "console_logins": FederationStates(redis, vault, "console"),
        "trial_logins": FederationStates(redis, vault, "trial"),
        "console_sessions": ConsoleSessions(redis),
        "authorization_codes": AuthorizationCodes(redis),
        "device_grants": DeviceGrants(redis),
        "sso_sessions": SsoSessions(redis, vault),
        "login_intents": LoginIntents(redis, vault),
        "lock_outs": LockOuts(redis),
        "rate_limits": RateLimits(redis),
        "failed_api_keys": FailedApiKeys(redis),
        "revocations": Revocations(redis),
        "one_time_ids": OneTimeIds(redis),
        "one_time_tokens": OneTimeTokens(redis),
        "open_verifications": OpenVerifications(redis, vault),
        "failed_logins": RecentEntries(redis, "failed-logins", maximum=25, ttl_seconds=30 * 86_400),
        "refused_requests": RecentEntries(redis, "refused-requests", maximum=25, ttl_seconds=86_400),
        "activity_counts": ActivityCounts(redis),
        "personal_keys": PersonalKeys(redis),
        "previous_secrets": PreviousSecrets(redis),
    }
