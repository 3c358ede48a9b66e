"""The collections of MongoDB with their settings, and the stores of Redis. Only app.py and wiring.py import it."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping

from identity import resources
from identity.domain.configuration import reference_table
from identity.domain.objects.resource_definition import Resource
from identity.domain.webhooks.retry_schedule import RetrySchedule
from identity.operations.configuration import applications, keys, system_configuration, tenants
from identity.operations.entities import entities, entity_grants, entity_types
from identity.operations.groups import group_members, groups
from identity.operations.lambdas import lambdas
from identity.operations.messaging import email_templates, message_templates, messengers
from identity.operations.objects import audit_logs, event_logs
from identity.operations.providers import identity_providers
from identity.operations.user_actions import user_actions, user_comments
from identity.operations.users import families, user_consents
from identity.store.action_logs import ActionLogs
from identity.store.api_keys import ApiKeys
from identity.store.append_only_logs import AppendOnlyLog
from identity.store.authorization_codes import AuthorizationCodes
from identity.store.cache import ChangeStreamStatus
from identity.store.console_sessions import ConsoleSessions
from identity.store.device_grants import DeviceGrants
from identity.store.documents import Documents
from identity.store.entities import Entities, EntityGrants
from identity.store.failed_api_keys import FailedApiKeys
from identity.store.families import Families, UserConsents
from identity.store.federation_state import FederationStates
from identity.store.group_members import GroupMembers
from identity.store.identity_provider_links import IdentityProviderLinks
from identity.store.identity_providers import IdentityProviders
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
from identity.store.outbox import Outbox
from identity.store.pending_links import PendingLinks
from identity.store.pushed_requests import PushedRequests
from identity.store.rate_limits import RateLimits
from identity.store.redis import Redis
from identity.store.refresh_tokens import RefreshTokens
from identity.store.revocations import Revocations
from identity.store.scope_consents import ScopeConsents
from identity.store.sso_sessions import SsoSessions
from identity.store.store_circuit_breaker import time_limit
from identity.store.system_settings import SystemSettingsCache
from identity.store.text_messages import TextMessages
from identity.store.two_factor_trusts import TwoFactorTrusts
from identity.store.user_imports import UserImports
from identity.store.users import Users
from identity.store.vault import Vault
from identity.store.webauthn_credentials import WebAuthnCredentials
from identity.store.webhook_event_log import WebhookEventLog

STORED_RESOURCES: tuple[Resource, ...] = (
    tenants.RESOURCE,
    applications.RESOURCE,
    groups.RESOURCE,
    group_members.RESOURCE,
    identity_providers.RESOURCE,
    keys.RESOURCE,
    system_configuration.RESOURCE,
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
    "identity_providers": IdentityProviders,
}
"""The collections with a class of their own."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stores:
    """The collections of MongoDB, over one database and one vault."""

    database: Database
    documents: Mapping[str, Documents]
    """The collections that are read through a cache, by name."""
    refresh_tokens: RefreshTokens
    system: SystemSettingsCache
    audit_logs: AppendOnlyLog
    event_logs: AppendOnlyLog
    login_records: LoginRecords
    name_reservations: NameReservations
    user_imports: UserImports
    webhook_event_log: WebhookEventLog
    mails: Mails
    text_messages: TextMessages
    logout_notices: LogoutNotices
    stream_status: ChangeStreamStatus
    outbox: Outbox
    vault: Vault

    @classmethod
    def over(cls, database: Database, vault: Vault, schedule: RetrySchedule) -> Stores:
        stream_status = ChangeStreamStatus(database.last_answer)
        documents: dict[str, Documents] = {
            row.collection: _CLASSES.get(row.collection, Documents)(
                database,
                row.collection,
                vault,
                stream_status,
                tenant_scoped=row.tenant_scoped,
                sealed=row.sealed,
                unique=row.unique,
                references=reference_table.members_of(row.collection),
                searches=row.search_rules,
            )
            for row in STORED_RESOURCES
        }
        documents["identity_provider_links"] = IdentityProviderLinks(database, vault, stream_status)
        documents["action_logs"] = ActionLogs(database, vault, stream_status)
        documents["scope_consents"] = ScopeConsents(database, vault, stream_status)
        documents["two_factor_trusts"] = TwoFactorTrusts(database, vault, stream_status)
        documents["webauthn_credentials"] = WebAuthnCredentials(database, vault, stream_status)
        references = reference_table.members_of("api_keys")
        documents["api_keys"] = ApiKeys(database, vault, stream_status, references=references)
        documents["users"] = Users(database, vault, stream_status)
        system = SystemSettingsCache(documents[system_configuration.RESOURCE.collection])
        outbox = Outbox(database, vault, schedule_seconds=schedule.total_seconds, sent_events=system.sent_events)
        return cls(
            database=database,
            stream_status=stream_status,
            documents=documents,
            refresh_tokens=RefreshTokens(database, vault),
            system=system,
            outbox=outbox,
            webhook_event_log=WebhookEventLog(database, vault),
            audit_logs=AppendOnlyLog(database, "audit_logs", audit_logs.RESOURCE.search_rules, tenant_scoped=True),
            event_logs=AppendOnlyLog(database, "event_logs", event_logs.RESOURCE.search_rules, tenant_scoped=False),
            login_records=LoginRecords(database),
            mails=Mails(database, vault),
            text_messages=TextMessages(database, vault),
            logout_notices=LogoutNotices(database, vault),
            name_reservations=NameReservations(database),
            user_imports=UserImports(database),
            vault=vault,
        )

    async def ensure_indexes(self) -> None:
        """Create missing indexes, of all collections concurrently."""
        with time_limit(0):  # creating an index over many documents takes long
            await asyncio.gather(*(documents.ensure_indexes() for documents in self.documents.values()))
            await self.refresh_tokens.ensure_indexes()
            await self.outbox.ensure_indexes()
            await self.webhook_event_log.ensure_indexes()
            await asyncio.gather(
                self.audit_logs.ensure_indexes(),
                self.event_logs.ensure_indexes(),
                self.login_records.ensure_indexes(),
                self.mails.ensure_indexes(),
                self.text_messages.ensure_indexes(),
                self.name_reservations.ensure_indexes(),
                self.user_imports.ensure_indexes(),
                self.logout_notices.ensure_indexes(),
            )

    async def seal_plaintext(self) -> None:
        """Seal the headers of messengers, which earlier versions stored in plaintext."""
        with time_limit(0):
            await self.documents[messengers.RESOURCE.collection].seal_plaintext()

    async def reseal(self) -> int:
        """Encrypt again what older master keys encrypted; return the number of changed documents."""
        changed = 0
        for store in (self.refresh_tokens, self.outbox, self.mails, self.text_messages, self.logout_notices):
            changed += await store.reseal()
        for documents in self.documents.values():
            changed += await documents.reseal()
        return changed


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
        "console_sessions": ConsoleSessions(redis),
        "authorization_codes": AuthorizationCodes(redis),
        "device_grants": DeviceGrants(redis),
        "sso_sessions": SsoSessions(redis),
        "login_intents": LoginIntents(redis),
        "lock_outs": LockOuts(redis),
        "rate_limits": RateLimits(redis),
        "failed_api_keys": FailedApiKeys(redis),
        "revocations": Revocations(redis),
        "one_time_ids": OneTimeIds(redis),
        "one_time_tokens": OneTimeTokens(redis),
        "open_verifications": OpenVerifications(redis, vault),
    }
