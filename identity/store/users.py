"""Users with their registrations and memberships, one document each, and user imports in progress.

`domain.users.users.with_derived_members` sets members for lookups under `private`: `usernameKey` compares usernames
case-insensitively, `terms` serves the search for a term, and `login` the order by login id.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import bson
from bson.raw_bson import RawBSONDocument
from pymongo import IndexModel, UpdateOne

from identity import write_guard
from identity.call import Document
from identity.domain.objects.resource_definition import Unique
from identity.domain.two_factor import two_factor
from identity.domain.users import users as user_rules
from identity.domain.users.users import INDEX_FIELDS
from identity.ids import ApplicationId, TenantId, UserId
from identity.instants import Instant
from identity.store.cache import ChangeStreamStatus
from identity.store.index_search import IndexSearched
from identity.store.mongo import BULK_SECONDS, CHUNK, Collection, Database, Session, delete_many, duplicates
from identity.store.store_circuit_breaker import time_limit
from identity.store.vault import Vault

UNIQUE = (
    Unique("email", ("tenantId", "email"), "user.email", sparse=True),
    Unique("username", ("tenantId", "private.usernameKey"), "user.username", sparse=True),
    Unique("phoneNumber", ("tenantId", "phoneNumber"), "user.phoneNumber", sparse=True),
)

EXTERNAL_ID = "private.externalId"
"""The member with the `externalId` of a SCIM client."""

IMPORT = "private.import"
"""The member with the id of the import that created a user."""

SEALED = ("twoFactor.methods.*.secret", "twoFactor.recoveryCodes.*", "registrations.*.authenticationToken")

_KEY_OF_TYPE = {"email": "email", "phoneNumber": "phoneNumber", "username": "private.usernameKey"}


@dataclasses.dataclass(frozen=True, slots=True)
class CleanupFilter:
    """A filter of users or registrations that were not verified in time, and the name of its index."""

    where: Document
    index: str

    @classmethod
    def of_users(cls, before: Instant) -> CleanupFilter:
        """Users whose current address was set before an instant, and who never verified any address."""
        unverified = {"type": "email", "verified": False, "insertInstant": {"$lt": before}}
        return cls({**PENDING, "verifiedInstant": None, "identities": {"$elemMatch": unverified}}, "unverified")

    @classmethod
    def of_registrations(cls, application_id: ApplicationId, before: Instant) -> CleanupFilter:
        """Users with an unverified registration for an application from before an instant."""
        unverified = {"applicationId": application_id, "verified": False, "insertInstant": {"$lt": before}}
        return cls({"registrations": {"$elemMatch": unverified}, **_UNVERIFIED}, "unverifiedRegistrations")

    @classmethod
    def of_children(cls, before: Instant) -> CleanupFilter:
        """Users created before an instant whose named parent has not added them to a family."""
        return cls({"parentEmail": {"$exists": True}, "insertInstant": {"$lt": before}}, "children")


PENDING: Document = {"private.verifiedReason": "Pending", "verified": False}
"""The filter of users whose address is not verified yet."""

_UNVERIFIED: Document = {"registrations.verified": False}

_NEW_VERSION: Document = {"$inc": {"lastUpdateInstant": 1}}
"""Makes concurrent updates that have read the user before fail with Conflict instead of undoing the change."""


class Users(IndexSearched):
    """The collection of users."""

    cache_size = 10_000
    keeps_stale = False
    fields = INDEX_FIELDS
    sorted_by = frozenset({"_id", "insertInstant", "private.login"})
    indexed = frozenset(
        {
            *("_id", "email", "insertInstant", "lastLoginInstant", "phoneNumber", "private.login"),
            *("memberships.groupId", "private.usernameKey", "registrations.applicationId", "tenantId"),
        }
    )
    obsolete_indexes = (*IndexSearched.obsolete_indexes, "registrations", "memberships")

    def __init__(self, database: Database, vault: Vault, stream_status: ChangeStreamStatus) -> None:
        super().__init__(database, "users", vault, stream_status, tenant_scoped=True, sealed=SEALED, unique=UNIQUE)

    def indexes(self) -> list[IndexModel]:
        """The indexes of searches, those by members that identify users, and those for the cleanup."""
        return [
            *super().indexes(),
            # Ids of applications and groups come first, because searches of all tenants are by them, too.
            IndexModel([("registrations.applicationId", 1), ("tenantId", 1)], name="registeredApplications"),
            IndexModel([("memberships.groupId", 1), ("tenantId", 1)], name="groups"),
            _index("lastLogin", "lastLoginInstant", where={"lastLoginInstant": {"$exists": True}}),
            # Not by tenant: reports of all tenants read it too.
            IndexModel([("registrations.insertInstant", 1)], name="registrationInstants"),
            _index("externalId", EXTERNAL_ID, where={EXTERNAL_ID: {"$exists": True}}),
            _index("breaches", "breachedPasswordStatus", where={"breachedPasswordStatus": {"$exists": True}}),
            _index("children", "parentEmail", where={"parentEmail": {"$exists": True}}),
            _index("unverified", "_id", where=PENDING),
            _index("unverifiedRegistrations", "registrations.applicationId", "_id", where=_UNVERIFIED),
        ]

    async def insert(self, tenant_id: TenantId | None, document: Document, session: Session | None = None) -> None:
        """As in Documents. Raises Unauthorized if the guard of the request refuses the user."""
        await write_guard.check(tenant_id, _nobody, document)
        await super().insert(tenant_id, document, session)

    async def replace(
        self, tenant_id: TenantId | None, document: Document, expected: int, session: Session | None = None
    ) -> None:
        """As in Documents. Raises Unauthorized as `insert` does."""
        await self._check(tenant_id, document["id"], document)
        await super().replace(tenant_id, document, expected, session)

    async def delete(self, tenant_id: TenantId | None, document_id: str, session: Session | None = None) -> bool:
        """As in Documents. Raises Unauthorized as `insert` does."""
        await self._check(tenant_id, document_id, None)
        return await super().delete(tenant_id, document_id, session)

    async def _check(self, tenant_id: TenantId | None, user_id: str, after: Document | None) -> None:
        """Present a write to the guard of the request. Raises Unauthorized."""
        await write_guard.check(tenant_id, functools.partial(self.find, tenant_id, user_id), after)

    async def find_by_login_id(self, tenant_id: TenantId, login_id: str, types: Iterable[str]) -> Document | None:
        """The user who may log in with this value; an email address takes precedence over an equal username."""
        wanted = tuple(kind for kind in types if kind in _KEY_OF_TYPE)
        if not wanted:
            return None
        keys = [{_KEY_OF_TYPE[kind]: user_rules.login_key(login_id, kind)} for kind in wanted]
        cursor = self._collection.find(self._any(tenant_id, keys))
        found = [self._decode(stored) async for stored in cursor]
        kinds = {kind: user for user in found if (kind := user_rules.may_log_in_as(user, login_id, wanted)) is not None}
        return next((kinds[kind] for kind in ("email", "phoneNumber", "username") if kind in kinds), None)

    async def find_by_email(self, tenant_id: TenantId, email: str) -> Document | None:
        """The user with this email address, case-insensitively."""
        return await self._look_up(tenant_id, "email", user_rules.login_key(email))

    async def find_by_username(self, tenant_id: TenantId, username: str) -> Document | None:
        """The user with this unique username, case-insensitively."""
        return await self.find_where(tenant_id, {"private.usernameKey": user_rules.login_key(username)})

    async def find_duplicates(self, tenant_id: TenantId, user: Document) -> list[Document]:
        """The other users who have one of the login ids of this user."""
        same = [{_KEY_OF_TYPE[kind]: user_rules.login_key(value)} for kind, value in user_rules.login_ids(user).items()]
        if not same:
            return []
        found = [self._decode(stored) async for stored in self._collection.find(self._any(tenant_id, same))]
        return [other for other in found if other["id"] != user["id"]]

    def _unchanged(self, document: Document, expected: int) -> Document:
        """See Documents; a login is a change as well."""
        return {"lastUpdateInstant": expected, "lastLoginInstant": document.get("lastLoginInstant")}

    async def record_login(
        self,
        tenant_id: TenantId,
        user_id: UserId,
        application_id: ApplicationId | None,
        now: Instant,
        identity_type: str | None = None,
        session: Session | None = None,
        *,
        place: Document | None = None,
    ) -> None:
        """Record a login in the user, the registration and the identity that was used, with its place if known."""
        instants = {
            "lastLoginInstant": now,
            "registrations.$[registration].lastLoginInstant": now,
            "identities.$[identity].lastLoginInstant": now,
        }
        change = {"$max": instants, **({} if place is None else {"$set": {"private.place": place}})}
        filters: list[Document] = [{"registration.applicationId": application_id}, {"identity.type": identity_type}]
        await self._update_one(tenant_id, user_id, change, session, array_filters=filters)

    async def rehash_password(self, tenant_id: TenantId, user_id: UserId, old: Document, fresh: Document) -> bool:
        """Replace the hash of a password with a new hash of the same password, unless the password has changed."""
        where = {"private.password.hash": old["hash"]}
        return await self._update_one(tenant_id, user_id, {"$set": {"private.password": fresh}}, where=where)

    async def record_second_factor(
        self, tenant_id: TenantId, user_id: UserId, method_id: str, session: Session | None = None
    ) -> None:
        """Record which two-factor method was used last."""
        change = {"$set": {"twoFactor.methods.$[used].lastUsed": True, "twoFactor.methods.$[other].lastUsed": False}}
        filters: list[Document] = [{"used.id": method_id}, {"other.id": {"$ne": method_id}}]
        await self._update_one(tenant_id, user_id, change, session, array_filters=filters)

    async def consume_recovery_code(
        self, tenant_id: TenantId, user_id: UserId, code: str, session: Session | None = None
    ) -> bool:
        """Consume a recovery code; True for only one of several callers."""
        where = {**self._scope(tenant_id), "_id": user_id}
        stored = await self._collection.find_one(where, {"twoFactor.recoveryCodes": 1}, session=session)
        if stored is None:
            return False
        sealed = [*stored["twoFactor"]["recoveryCodes"]]
        plain = self._decode(stored)["twoFactor"]["recoveryCodes"]
        codes = zip(sealed, plain, strict=True)
        matching = next((kept for kept, text in codes if two_factor.is_recovery_code(text, code)), None)
        if matching is None:
            return False
        change = {"$pull": {"twoFactor.recoveryCodes": matching}, **_NEW_VERSION}
        return await self._update_one(tenant_id, user_id, change, session, where={"twoFactor.recoveryCodes": matching})

    async def prevent_logins(
        self, tenant_id: TenantId, user_id: UserId, prevention: Document, session: Session | None = None
    ) -> bool:
        """Store a user action that prevents logins in its user; False if the user does not exist."""
        await self._check(tenant_id, user_id, None)
        others = {
            "$filter": {
                "input": {"$ifNull": ["$private.preventions", []]},
                "cond": {"$ne": ["$$this.actionId", prevention["actionId"]]},
            }
        }
        change = {
            "private.preventions": {"$concatArrays": [others, [{"$literal": prevention}]]},
            "lastUpdateInstant": {"$add": ["$lastUpdateInstant", 1]},  # see _NEW_VERSION
        }
        return await self._update_one(tenant_id, user_id, [{"$set": change}], session)

    async def extend_prevention(self, tenant_id: TenantId, user_id: UserId, action_id: str, expiry: int) -> None:
        """Extend a stored action that prevents logins."""
        await self._check(tenant_id, user_id, None)
        change = {"$max": {"private.preventions.$[one].expiry": expiry}, **_NEW_VERSION}
        where, filters = {"private.preventions.actionId": action_id}, [{"one.actionId": action_id}]
        await self._update_one(tenant_id, user_id, change, where=where, array_filters=filters)

    async def allow_logins(
        self, tenant_id: TenantId, user_id: UserId, action_id: str, session: Session | None = None
    ) -> None:
        """Remove an ended action that prevented logins."""
        await self._check(tenant_id, user_id, None)
        change = {"$pull": {"private.preventions": {"actionId": action_id}}, **_NEW_VERSION}
        where = {"private.preventions.actionId": action_id}
        await self._update_one(tenant_id, user_id, change, session, where=where)

    async def update_unless_password_changed(
        self,
        tenant_id: TenantId,
        user_id: UserId,
        password_hash: str,
        changed: Document,
        session: Session | None = None,
    ) -> None:
        """Set members that describe a password, unless the password has changed."""
        where = {"private.password.hash": password_hash}
        await self._update_one(tenant_id, user_id, {"$set": changed}, session, where=where)

    async def count_breached_across_tenants(self) -> list[Document]:
        """The number of users per tenant and breachedPasswordStatus: `_id` {tenantId, status}, and `count`."""
        group = {"_id": {"tenantId": "$tenantId", "status": "$breachedPasswordStatus"}, "count": {"$sum": 1}}
        where = {"breachedPasswordStatus": {"$exists": True}}
        return [row async for row in self._collection.aggregate([{"$match": where}, {"$group": group}])]

    async def remove_registrations(self, tenant_id: TenantId, application_id: ApplicationId) -> int:
        """Remove the registrations of all users for an application; returns their number."""
        change = {"$pull": {"registrations": {"applicationId": application_id}}, **_NEW_VERSION}
        return await self.update_in_chunks(tenant_id, {"registrations.applicationId": application_id}, change)

    async def remove_parent_emails(self, tenant_id: TenantId, addresses: Iterable[str]) -> list[str]:
        """Remove the address of a deleted parent from the users who named it; return their ids."""
        keys = [user_rules.login_key(address) for address in addresses]
        where = {**self._scope(tenant_id), "parentEmail": {"$in": keys}}
        ids = [str(found["_id"]) async for found in self._collection.find(where, {"_id": 1})]
        await self.update_in_chunks(tenant_id, where, {"$unset": {"parentEmail": ""}, **_NEW_VERSION})
        return ids

    async def find_for_cleanup(
        self, tenant_id: TenantId, criteria: CleanupFilter, after: str, limit: int
    ) -> list[Document]:
        """At most `limit` matching users in the order of their ids, after the id `after`."""
        where = {**criteria.where, **self._scope(tenant_id), "_id": {"$gt": after}}
        cursor = self._collection.find(where).sort("_id", 1).limit(limit).hint(criteria.index)
        return [self._decode(stored) async for stored in cursor]

    async def delete_version(
        self, tenant_id: TenantId, user_id: str, version: int, session: Session | None = None
    ) -> bool:
        """As `delete`, if the `lastUpdateInstant` of the user is `version`."""
        await self._check(tenant_id, user_id, None)
        where = {**self._scope(tenant_id), "_id": user_id, "lastUpdateInstant": version}
        result = await self._collection.delete_one(where, session=session)
        self._invalidate(session, user_id)
        return result.deleted_count == 1

    async def encode(self, tenant_id: TenantId, user: Document) -> bytes:
        """Return a new user, which the caller must not use afterwards, as BSON: it needs less memory than a document.

        Raises Unauthorized if the guard of the request refuses the user.
        """
        if user["tenantId"] != tenant_id:
            raise ValueError(f"{self.name} {user['id']} does not belong to tenant {tenant_id}")
        await write_guard.check(tenant_id, _nobody, user)
        return bson.encode(self._encode_in_place(user))

    async def insert_encoded(self, users: Sequence[bytes]) -> None:
        """Insert many users of any tenants in order. Raises Duplicate; the users before the duplicate remain."""
        with time_limit(BULK_SECONDS), duplicates():
            await self._collection.insert_many([RawBSONDocument(user) for user in users])

    async def remove_imported(self, tenant_ids: Sequence[TenantId], import_id: str, user_ids: Sequence[str]) -> None:
        """Delete those of the users that an import created."""
        for start in range(0, len(user_ids), CHUNK):
            where = {"_id": {"$in": list(user_ids[start : start + CHUNK])}, IMPORT: import_id}
            await delete_many(self._collection, {"tenantId": {"$in": list(tenant_ids)}, **where})

    async def find_login_id_conflicts(self, tenant_id: TenantId, keys: Mapping[str, Sequence[str]]) -> list[Document]:
        """The login ids of users who have one of these login ids, which are given by type in the compared form."""
        where = [{_KEY_OF_TYPE[kind]: {"$in": list(values)}} for kind, values in keys.items() if values]
        members = {"active": 1, "email": 1, "phoneNumber": 1, "uniqueUsername": 1}
        if not where:
            return []
        return [dict(found) async for found in self._collection.find(self._any(tenant_id, where), members)]

    async def existing_ids_across_tenants(self, user_ids: Sequence[str]) -> set[str]:
        """Those of the ids that belong to users of any tenant."""
        return await self._existing_ids({}, user_ids)

    async def registrations_of_across_tenants(self, user_ids: Sequence[str]) -> dict[str, tuple[TenantId, set[str]]]:
        """The tenant and the applications of the registrations of each user that exists."""
        members = {"tenantId": 1, "registrations.applicationId": 1}
        return {
            found["_id"]: (found["tenantId"], {one["applicationId"] for one in found["registrations"]})
            async for found in self._collection.find({"_id": {"$in": list(user_ids)}}, members)
        }

    async def find_children(self, tenant_id: TenantId, parent_email: str, limit: int) -> list[Document]:
        """The users who name this parent, oldest first."""
        cursor = self._collection.find({**self._scope(tenant_id), "parentEmail": parent_email})
        return [self._decode(found) async for found in cursor.sort([("insertInstant", 1), ("_id", 1)]).limit(limit)]

    async def existing_ids(self, tenant_id: TenantId, user_ids: Iterable[str]) -> set[str]:
        """Those of the ids that belong to users."""
        return await self._existing_ids(self._scope(tenant_id), user_ids)

    async def add_memberships(self, tenant_id: TenantId, members: Sequence[Document], session: Session) -> int:
        """Add each membership to its user; returns the number of users found."""
        if not members:
            return 0
        scope = self._scope(tenant_id)
        writes = [
            UpdateOne({**scope, "_id": member["userId"]}, {"$push": {"memberships": member}, **_NEW_VERSION})
            for member in members
        ]
        result = await self._collection.bulk_write(writes, session=session)
        self._invalidate_many(session, [member["userId"] for member in members])
        return int(result.matched_count)

    async def remove_memberships(
        self, tenant_id: TenantId, group_id: str, user_ids: Sequence[str], session: Session
    ) -> None:
        """Remove the membership in a group from these users."""
        where = {**self._scope(tenant_id), "_id": {"$in": list(user_ids)}, "memberships.groupId": group_id}
        await self._collection.update_many(where, _without_membership(group_id), session=session)
        self._invalidate_many(session, user_ids)

    async def remove_all_memberships(self, tenant_id: TenantId, group_id: str) -> None:
        """Remove the membership in a group from all users, in short steps."""
        await self.update_in_chunks(tenant_id, {"memberships.groupId": group_id}, _without_membership(group_id))

    def _any(self, tenant_id: TenantId, conditions: Iterable[Document]) -> Document:
        """The disjunction of the conditions, with the tenant in each branch.

        With the tenant next to the `$or`, MongoDB would scan all users of the tenant instead of the partial indexes.
        """
        return {"$or": [{**self._scope(tenant_id), **condition} for condition in conditions]}

    async def _existing_ids(self, scope: Document, user_ids: Iterable[str]) -> set[str]:
        where = {**scope, "_id": {"$in": list(user_ids)}}
        return {str(found["_id"]) async for found in self._collection.find(where, {"_id": 1})}

    def _invalidate_many(self, session: Session, user_ids: Iterable[str]) -> None:
        for user_id in user_ids:
            self._invalidate(session, user_id)


async def _nobody() -> None:
    """Return the state of a user before its creation."""


def _without_membership(group_id: str) -> Document:
    return {"$pull": {"memberships": {"groupId": group_id}}, **_NEW_VERSION}


def _index(name: str, *members: str, where: Document | None = None) -> IndexModel:
    options = {} if where is None else {"partialFilterExpression": where}
    return IndexModel([(member, 1) for member in ("tenantId", *members)], name=name, **options)


class UserImports:
    """The collection `user_imports`: the users that each import writes, so that an interrupted one leaves none of them.

    An import may exceed the size of a MongoDB transaction (decision 38), and may concern several tenants. Its users are
    therefore inserted in batches and marked with the import. The import is complete when its document here is deleted,
    in the transaction of its other writes. Completing and rolling back an import exclude each other.
    """

    def __init__(self, database: Database) -> None:
        self._collection: Collection = database.collection("user_imports")

    async def ensure_indexes(self) -> None:
        """Create missing indexes."""
        await self._collection.create_indexes([IndexModel([("until", 1)], name="until")])

    async def begin(
        self, tenant_ids: Sequence[TenantId], import_id: str, user_ids: Sequence[str], until: Instant
    ) -> None:
        """Store the users that are about to be inserted; an import not extended by `until` counts as abandoned."""
        members = {"tenantIds": list(tenant_ids), "userIds": list(user_ids), "state": "writing", "until": until}
        await self._collection.insert_one({"_id": import_id, **members})

    async def extend(self, import_id: str, until: Instant) -> bool:
        """Extend an import; False if it was rolled back meanwhile."""
        where = {"_id": import_id, "state": "writing"}
        return bool((await self._collection.update_one(where, {"$set": {"until": until}})).matched_count)

    async def finish(self, import_id: str, session: Session | None) -> bool:
        """Complete an import; False if it was rolled back meanwhile."""
        result = await self._collection.delete_one({"_id": import_id, "state": "writing"}, session=session)
        return bool(result.deleted_count)

    async def begin_rollback(self, import_id: str) -> tuple[list[TenantId], list[str]] | None:
        """Prevent the completion of an import and return its tenants and users; None if it is complete."""
        found: Any = await self._collection.find_one_and_update({"_id": import_id}, {"$set": {"state": "undoing"}})
        return None if found is None else (list(found["tenantIds"]), list(found["userIds"]))

    async def delete(self, import_id: str) -> None:
        """Delete the document of an import whose users have been deleted."""
        await self._collection.delete_one({"_id": import_id})

    async def list_abandoned(self, now: Instant) -> list[str]:
        """The imports that were interrupted."""
        return [str(found["_id"]) async for found in self._collection.find({"until": {"$lt": now}}, {"_id": 1})]
