"""The export of what is stored about a user, without credentials: one document for administrators and for the user.

The user's own copy leaves out what concerns others: comments of administrators, and who applied an action or changed
the account, why and from where.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from identity.call import Call, Document
from identity.domain.clients import refresh_tokens
from identity.domain.objects.search import Criterion, SearchQuery
from identity.domain.users import personal_data
from identity.domain.users.personal_data import Person, Traces
from identity.ids import TenantId, UserId
from identity.operations.login import login_failures
from identity.operations.messaging import user_views
from identity.operations.objects import audit_logs, user_lookup
from identity.operations.sessions import sso_session_records
from identity.operations.user_actions import applied_actions, user_comments
from identity.operations.users import user_consents
from identity.services import Services
from identity.store.store_circuit_breaker import time_limit

MAXIMUM_ROWS: Final = 10_000
"""The maximum number of login records and of rows of the audit log, the newest ones."""
_AUDIT_SECONDS: Final = 30.0
_NOT_EXPORTED: Final = frozenset({"token", "tenantId", "userId", "publicKey", "private", "expiresAt"})
_OF_OTHERS: Final = frozenset({"actionerUserId", "comment", "history"})
"""The members of actions that name other people or contain their words."""
_OWN_ROW: Final = ("id", "insertInstant", "message")
"""The members of audit log rows in the user's own copy."""


async def export(services: Services, call: Call, user_id: str) -> Document:
    """Return everything that is stored about a user. Raises NotFound."""
    user = await user_lookup.retrieve(services, call, user_id)
    inside = call.within(TenantId(user["tenantId"]))
    exported = await _own_data(services, inside, user)
    comments = await user_comments.retrieve_of_user(services, inside, user_id)
    # A caller without a tenant also receives the rows of the instance.
    person = Person(user["tenantId"], user["id"], personal_data.addresses_of(user))
    rows = await _audit_rows(services, call.tenant_id, person)
    return {"userData": {**exported, "auditLogs": rows, "comments": comments}}


async def export_own(services: Services, call: Call, user: Document) -> Document:
    """Return what is stored about a user, for the user."""
    tenant_id = TenantId(user["tenantId"])
    exported = await _own_data(services, call.within(tenant_id), user)
    # Not by address, which may have belonged to someone else before.
    rows = await _audit_rows(services, tenant_id, Person(tenant_id, user["id"]))
    return {
        **exported,
        "actions": [_without(_OF_OTHERS, action) for action in exported["actions"]],
        "auditLogs": [{name: row[name] for name in _OWN_ROW} for row in rows],
    }


async def _own_data(services: Services, call: Call, user: Document) -> Document:
    tenant_id, user_id = TenantId(user["tenantId"]), UserId(user["id"])
    directory = services.directory
    tokens = await services.tokens.refresh_tokens.find_of_user(tenant_id, user_id, call.now)
    actions = await applied_actions.retrieve_of_user(services, call, user_id, active=None, preventing_login=False)
    return {
        "exportInstant": call.now,
        "user": await user_views.to_response(services, user),
        "actions": actions,
        "consents": await user_consents.retrieve_of_user(services, call, user_id),
        "devices": [_shown(refresh_tokens.to_event(record)) for record in tokens],
        "entityGrants": [_shown(row) for row in await directory.entity_grants.find_all(tenant_id, {"userId": user_id})],
        "failedLogins": (await login_failures.find(services, call, user_id))["failedLogins"],
        "families": await _memberships(services, tenant_id, user_id),
        "groups": await _groups(services, tenant_id, user),
        "identityProviderLinks": [
            _shown(link) for link in await directory.identity_provider_links.find_of_user(tenant_id, user_id)
        ],
        "logins": await _logins(services, tenant_id, user_id),
        "passkeys": [
            _shown(passkey) for passkey in await directory.webauthn_credentials.find_of_user(tenant_id, user_id)
        ],
        "scopeConsents": [
            _shown(consent)
            for consent in await services.tokens.scope_consents.find_of_user(tenant_id, user_id, call.now)
        ],
        "sessions": [
            _shown(record) for record in await sso_session_records.find_of_user(services, call, tenant_id, user_id)
        ],
        "trustedDevices": [
            _shown(row) for row in await services.sessions.two_factor_trusts.find_all(tenant_id, {"userId": user_id})
        ],
    }


async def _logins(services: Services, tenant_id: TenantId, user_id: UserId) -> list[Document]:
    query = SearchQuery((Criterion("userId", "exact", user_id),), (("_id", -1),), 0, MAXIMUM_ROWS)
    return [_without({"tenantId"}, row) for row in await services.logs.login_records.find_page(tenant_id, query)]


async def _groups(services: Services, tenant_id: TenantId, user: Document) -> list[Document]:
    """Return the groups of a user, with the data of the membership."""
    found = []
    for membership in user["memberships"]:
        group = await services.directory.groups.find_cached(tenant_id, membership["groupId"])
        found.append({**_shown(membership), "name": "" if group is None else group["name"]})
    return found


async def _memberships(services: Services, tenant_id: TenantId, user_id: UserId) -> list[Document]:
    """Return the memberships of a user in families, without the other members."""
    families = await services.directory.families.find_of_user(tenant_id, user_id)
    own = ((family["id"], member) for family in families for member in family["members"] if member["userId"] == user_id)
    return [{"familyId": family_id, **_shown(member)} for family_id, member in own]


async def _audit_rows(services: Services, tenant_id: TenantId | None, person: Person) -> list[Document]:
    """Return the newest rows of the audit log that name the id or an address of a user."""
    traces = Traces([person])
    with time_limit(_AUDIT_SECONDS):
        rows = await services.logs.audit_logs.find_matching(
            tenant_id, personal_data.AUDIT_TEXTS, traces.pattern(), MAXIMUM_ROWS
        )
    # The pattern also finds addresses that end with the user's.
    found = (audit_logs.with_json_values(row) for row in rows if traces.are_in(orjson.dumps(row).decode()))
    return [{"data": {}, **row} for row in found]


def _shown(document: Mapping[str, Any]) -> Document:
    return _without(_NOT_EXPORTED, document)


def _without(names: frozenset[str] | set[str], document: Mapping[str, Any]) -> Document:
    return {name: value for name, value in document.items() if name not in names}
