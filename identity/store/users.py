"""Users with their registrations: found by id, by login id, by search; one document each.

`domain.users.users.with_derived_members` sets the look-up keys under `private`: `usernameKey` compares usernames
without regard to case, `terms` serves the one-term search, `login` sorting by login id.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import bson
from bson.raw_bson import RawBSONDocument
from pymongo import IndexModel, UpdateOne

from identity.call import Document
from identity.domain.objects.resource_definition import Unique
from identity.domain.two_factor import two_factor
from identity.domain.users import users as rules
from identity.domain.users.user_search import FIELDS
from identity.errors import Conflict
from identity.ids import ApplicationId, TenantId, UserId
from identity.instants import Instant
from identity.store.cache import ChangeStreamStatus
from identity.store.documents import Tenant
from identity.store.index_search import IndexSearched
from identity.store.mongo import BULK_SECONDS, CHUNK, Database, Session, duplicates
from identity.store.store_circuit_breaker import time_limit
from identity.store.vault import Vault

UNIQUE = (
    Unique("email", ("tenantId", "email"), "user.email", sparse=True),
    Unique("username", ("tenantId", "private.usernameKey"), "user.username", sparse=True),
    Unique("phoneNumber", ("tenantId", "phoneNumber"), "user.phoneNumber", sparse=True),
)

IMPORT = "private.import"
"""The member that names the import with which a user came."""

SEALED = ("twoFactor.methods.*.secret", "twoFactor.recoveryCodes.*", "registrations.*.authenticationToken")

_KEY_OF_TYPE = {"email": "email", "phoneNumber": "phoneNumber", "username": "private.usernameKey"}


@dataclasses.dataclass(frozen=True, slots=True)
class CleanupFilter:
    """Users who wait too long for a verification of theirs or of a registration, or for a parent.

    What they match, and by which index.
    """

    where: Document
    index: str

    @classmethod
    def of_users(cls, before: Instant) -> CleanupFilter:
        """Users whose present address has waited since before an instant, and none of whose was ever verified."""
        waiting = {"type": "email", "verified": False, "insertInstant": {"$lt": before}}
        return cls({**PENDING, "verifiedInstant": None, "identities": {"$elemMatch": waiting}}, "unverified")

    @classmethod
    def of_registrations(cls, application_id: ApplicationId, before: Instant) -> CleanupFilter:
        """Users whose registration for an application has waited since before an instant."""
        waiting = {"applicationId": application_id, "verified": False, "insertInstant": {"$lt": before}}
        return cls({"registrations": {"$elemMatch": waiting}, **_UNVERIFIED}, "unverifiedRegistrations")

    @classmethod
    def of_children(cls, before: Instant) -> CleanupFilter:
        """Users made before an instant whom the parent that they name has not taken in."""
        return cls({"parentEmail": {"$exists": True}, "insertInstant": {"$lt": before}}, "children")


PENDING: Document = {"private.verifiedReason": "Pending", "verified": False}
"""Users whose address waits to be verified."""

_UNVERIFIED: Document = {"registrations.verified": False}


class Users(IndexSearched):
    """The collection of users."""

    cache_size = 10_000
    keeps_stale = False
    fields = FIELDS
    sorted_by = frozenset({"_id", "insertInstant", "private.login"})

    def __init__(self, database: Database, vault: Vault, stream_status: ChangeStreamStatus) -> None:
        super().__init__(
            database,
            "users",
            vault,
            stream_status,
            tenant_scoped=True,
            sealed=SEALED,
            unique=UNIQUE,
        )

    def indexes(self) -> list[IndexModel]:
        """The indexes in addition to those of the search: registrations by application, memberships by group."""
        return [
            *super().indexes(),
            IndexModel([("tenantId", 1), ("registrations.applicationId", 1)], name="registrations"),
            IndexModel([("tenantId", 1), ("memberships.groupId", 1)], name="memberships"),
            IndexModel(
                [("tenantId", 1), ("breachedPasswordStatus", 1)],
                name="breaches",
                partialFilterExpression={"breachedPasswordStatus": {"$exists": True}},
            ),
            IndexModel(
                [("tenantId", 1), ("parentEmail", 1)],
                name="children",
                partialFilterExpression={"parentEmail": {"$exists": True}},
            ),
            IndexModel([("tenantId", 1), ("_id", 1)], name="unverified", partialFilterExpression=PENDING),
            IndexModel(
                [("tenantId", 1), ("registrations.applicationId", 1), ("_id", 1)],
                name="unverifiedRegistrations",
                partialFilterExpression=_UNVERIFIED,
            ),
        ]

    async def find_by_login_id(self, tenant_id: TenantId, login_id: str, types: Iterable[str]) -> Document | None:
        """The user who may log in with this value; an email wins over a username that looks like one."""
        wanted = tuple(kind for kind in types if kind in _KEY_OF_TYPE)
        if not wanted:
            return None
        key = rules.login_key(login_id)
        cursor = self._collection.find(self._any(tenant_id, [{_KEY_OF_TYPE[kind]: key} for kind in wanted]))
        found = [self._decode(stored) async for stored in cursor]
        kinds = {kind: user for user in found if (kind := rules.may_log_in_as(user, login_id, wanted)) is not None}
        return next((kinds[kind] for kind in ("email", "phoneNumber", "username") if kind in kinds), None)

    async def find_by_email(self, tenant_id: TenantId, email: str) -> Document | None:
        """The user with this email, without regard to case."""
        return await self.find_where(tenant_id, {"email": rules.login_key(email)})

    async def find_by_username(self, tenant_id: TenantId, username: str) -> Document | None:
        """The user with this unique username, without regard to case."""
        return await self.find_where(tenant_id, {"private.usernameKey": rules.login_key(username)})

    async def find_duplicates(self, tenant_id: TenantId, user: Document) -> list[Document]:
        """The other users who have one of this user's login ids."""
        same = [{_KEY_OF_TYPE[kind]: rules.login_key(value)} for kind, value in rules.login_ids(user).items()]
        if not same:
            return []
        found = [self._decode(stored) async for stored in self._collection.find(self._any(tenant_id, same))]
        return [other for other in found if other["id"] != user["id"]]

    async def replace(
        self, tenant_id: Tenant, document: Document, expected: int, session: Session | None = None
    ) -> None:
        """As for every document; a login that happened in between is a conflict too. Raises Conflict and Duplicate."""
        where = {
            **self._scope(tenant_id),
            "_id": document["id"],
            "lastUpdateInstant": expected,
            "lastLoginInstant": document.get("lastLoginInstant"),
        }
        with duplicates():
            result = await self._collection.replace_one(where, self._encode(tenant_id, document), session=session)
        self._invalidate(session, document["id"])
        if result.matched_count == 0:
            raise Conflict

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
        """Note a login on the user, on the registration and on the identity that was used, and its place if known."""
        await self._collection.update_one(
            {**self._scope(tenant_id), "_id": user_id},
            {
                "$max": {
                    "lastLoginInstant": now,
                    "registrations.$[registration].lastLoginInstant": now,
                    "identities.$[identity].lastLoginInstant": now,
                },
                **({} if place is None else {"$set": {"private.place": place}}),
            },
            array_filters=[{"registration.applicationId": application_id}, {"identity.type": identity_type}],
            session=session,
        )
        self._invalidate(session, user_id)

    async def rehash_password(self, tenant_id: TenantId, user_id: UserId, old: Document, fresh: Document) -> bool:
        """Put a new hash of the same password in place of the old one, unless the password changed meanwhile."""
        where = {**self._scope(tenant_id), "_id": user_id, "private.password.hash": old["hash"]}
        result = await self._collection.update_one(where, {"$set": {"private.password": fresh}})
        self.invalidate(user_id)
        return result.modified_count == 1

    async def record_second_factor(
        self, tenant_id: TenantId, user_id: UserId, method_id: str, session: Session | None = None
    ) -> None:
        """Note which of the user's methods was the last one used."""
        await self._collection.update_one(
            {**self._scope(tenant_id), "_id": user_id},
            {"$set": {"twoFactor.methods.$[used].lastUsed": True, "twoFactor.methods.$[other].lastUsed": False}},
            array_filters=[{"used.id": method_id}, {"other.id": {"$ne": method_id}}],
            session=session,
        )
        self._invalidate(session, user_id)

    async def consume_recovery_code(
        self, tenant_id: TenantId, user_id: UserId, code: str, session: Session | None = None
    ) -> bool:
        """Consume a recovery code; of concurrent callers, one gets True."""
        where = {**self._scope(tenant_id), "_id": user_id}
        stored = await self._collection.find_one(where, {"twoFactor.recoveryCodes": 1}, session=session)
        if stored is None:
            return False
        sealed = [*stored["twoFactor"]["recoveryCodes"]]
        plain = self._decode(stored)["twoFactor"]["recoveryCodes"]
        spent = [kept for kept, text in zip(sealed, plain, strict=True) if two_factor.is_recovery_code(text, code)]
        if not spent:
            return False
        # The version moves too: an update that read the user before must not bring the code back.
        result = await self._collection.update_one(
            {**where, "twoFactor.recoveryCodes": spent[0]},
            {"$pull": {"twoFactor.recoveryCodes": spent[0]}, "$inc": {"lastUpdateInstant": 1}},
            session=session,
        )
        self._invalidate(session, user_id)
        return result.modified_count == 1

    async def prevent_logins(
        self, tenant_id: TenantId, user_id: UserId, prevention: Document, session: Session | None = None
    ) -> bool:
        """Let an action that prevents logins stand on its user, in place of what stood there of it; False: no user."""
        others = {
            "$filter": {
                "input": {"$ifNull": ["$private.preventions", []]},
                "cond": {"$ne": ["$$this.actionId", prevention["actionId"]]},
            }
        }
        change = {
            "private.preventions": {"$concatArrays": [others, [{"$literal": prevention}]]},
            # The version moves too: an update that read the user before must not let the user in.
            "lastUpdateInstant": {"$add": ["$lastUpdateInstant", 1]},
        }
        where = {**self._scope(tenant_id), "_id": user_id}
        result = await self._collection.update_one(where, [{"$set": change}], session=session)
        self._invalidate(session, user_id)
        return result.matched_count == 1

    async def extend_prevention(self, tenant_id: TenantId, user_id: UserId, action_id: str, expiry: int) -> None:
        """Let an action that stands on its user prevent logins for longer."""
        await self._collection.update_one(
            {**self._scope(tenant_id), "_id": user_id, "private.preventions.actionId": action_id},
            {"$max": {"private.preventions.$[one].expiry": expiry}, "$inc": {"lastUpdateInstant": 1}},
            array_filters=[{"one.actionId": action_id}],
        )
        self.invalidate(user_id)

    async def allow_logins(
        self, tenant_id: TenantId, user_id: UserId, action_id: str, session: Session | None = None
    ) -> None:
        """Take an action that prevented logins, and is over, from its user."""
        await self._collection.update_one(
            {**self._scope(tenant_id), "_id": user_id, "private.preventions.actionId": action_id},
            {"$pull": {"private.preventions": {"actionId": action_id}}, "$inc": {"lastUpdateInstant": 1}},
            session=session,
        )
        self._invalidate(session, user_id)

    async def update_unless_password_changed(
        self,
        tenant_id: TenantId,
        user_id: UserId,
        password_hash: str,
        changed: Document,
        session: Session | None = None,
    ) -> None:
        """Set these members, which tell of a password, unless the password changed meanwhile."""
        where = {**self._scope(tenant_id), "_id": user_id, "private.password.hash": password_hash}
        await self._collection.update_one(where, {"$set": changed}, session=session)
        self._invalidate(session, user_id)

    async def count_breached_across_tenants(self) -> list[Document]:
        """For each tenant and breachedPasswordStatus how many users have it: `_id` {tenantId, status}, and `count`."""
        group = {"_id": {"tenantId": "$tenantId", "status": "$breachedPasswordStatus"}, "count": {"$sum": 1}}
        where = {"breachedPasswordStatus": {"$exists": True}}
        return [row async for row in self._collection.aggregate([{"$match": where}, {"$group": group}])]

    async def remove_registrations(self, tenant_id: TenantId, application_id: ApplicationId) -> int:
        """Take every user's registration for an application away; answers how many there were."""
        return await self.update_in_chunks(
            tenant_id,
            {"registrations.applicationId": application_id},
            # The version moves too: an update that read the user before must not bring the registration back.
            {"$pull": {"registrations": {"applicationId": application_id}}, "$inc": {"lastUpdateInstant": 1}},
        )

    async def find_for_cleanup(
        self, tenant_id: TenantId, wanted: CleanupFilter, after: str, limit: int
    ) -> list[Document]:
        """So many of them at most, by their ids, which come after `after`."""
        where = {**wanted.where, **self._scope(tenant_id), "_id": {"$gt": after}}
        cursor = self._collection.find(where).sort("_id", 1).limit(limit).hint(wanted.index)
        return [self._decode(stored) async for stored in cursor]

    async def delete_version(
        self, tenant_id: TenantId, user_id: str, version: int, session: Session | None = None
    ) -> bool:
        """As `delete`, unless the user was changed since this `lastUpdateInstant`."""
        where = {**self._scope(tenant_id), "_id": user_id, "lastUpdateInstant": version}
        result = await self._collection.delete_one(where, session=session)
        self._invalidate(session, user_id)
        return result.deleted_count == 1

    def encode(self, tenant_id: TenantId, user: Document) -> bytes:
        """A new user, which belongs to the store from now on, as bytes: they take far less room than documents do."""
        if user["tenantId"] != tenant_id:
            raise ValueError(f"{self.name} {user['id']} does not belong to tenant {tenant_id}")
        return bson.encode(self._encode_in_place(user))

    async def insert_encoded(self, users: Sequence[bytes]) -> None:
        """Add many users, of whatever tenants. Raises Duplicate, with those before the one in question written."""
        with time_limit(BULK_SECONDS), duplicates():
            await self._collection.insert_many([RawBSONDocument(user) for user in users])

    async def remove_imported(self, tenant_ids: Sequence[TenantId], import_id: str, user_ids: Sequence[str]) -> None:
        """Remove those of the users who came with an import."""
        for at in range(0, len(user_ids), CHUNK):
            own = {"_id": {"$in": list(user_ids[at : at + CHUNK])}, IMPORT: import_id}
            with time_limit(BULK_SECONDS):
                await self._collection.delete_many({"tenantId": {"$in": list(tenant_ids)}, **own})

    async def find_login_id_conflicts(self, tenant_id: TenantId, keys: Mapping[str, Sequence[str]]) -> list[Document]:
        """The login ids (by the type, as they are compared), and whose they are, of users who have one of these."""
        where = [{_KEY_OF_TYPE[kind]: {"$in": list(values)}} for kind, values in keys.items() if values]
        members = {"active": 1, "email": 1, "phoneNumber": 1, "uniqueUsername": 1}
        if not where:
            return []
        return [dict(found) async for found in self._collection.find(self._any(tenant_id, where), members)]

    async def existing_ids_across_tenants(self, user_ids: Sequence[str]) -> set[str]:
        """Those of the ids that users of any tenant have."""
        return {
            str(found["_id"]) async for found in self._collection.find({"_id": {"$in": list(user_ids)}}, {"_id": 1})
        }

    async def registrations_of_across_tenants(self, user_ids: Sequence[str]) -> dict[str, tuple[TenantId, set[str]]]:
        """The tenant of each of the users that are there, and the applications that they are registered for."""
        members = {"tenantId": 1, "registrations.applicationId": 1}
        return {
            found["_id"]: (found["tenantId"], {one["applicationId"] for one in found["registrations"]})
            async for found in self._collection.find({"_id": {"$in": list(user_ids)}}, members)
        }

    async def find_children(self, tenant_id: TenantId, parent_email: str, limit: int) -> list[Document]:
        """The users who name this parent, the oldest first."""
        cursor = self._collection.find({**self._scope(tenant_id), "parentEmail": parent_email})
        return [self._decode(found) async for found in cursor.sort([("insertInstant", 1), ("_id", 1)]).limit(limit)]

    async def existing_ids(self, tenant_id: TenantId, user_ids: Iterable[str]) -> set[str]:
        """Those of the ids that are users'."""
        where = {**self._scope(tenant_id), "_id": {"$in": list(user_ids)}}
        return {str(found["_id"]) async for found in self._collection.find(where, {"_id": 1})}

    async def add_memberships(self, tenant_id: TenantId, members: Sequence[Document], session: Session) -> int:
        """Let each of these memberships stand on its user too; answers how many users there were."""
        if not members:
            return 0
        # The version moves too: an update that read the user before must not take the membership away.
        writes = [
            UpdateOne(
                {**self._scope(tenant_id), "_id": member["userId"]},
                {"$push": {"memberships": member}, "$inc": {"lastUpdateInstant": 1}},
            )
            for member in members
        ]
        result = await self._collection.bulk_write(writes, session=session)
        self._invalidate_many(session, [member["userId"] for member in members])
        return int(result.matched_count)

    async def remove_memberships(
        self, tenant_id: TenantId, group_id: str, user_ids: Sequence[str], session: Session
    ) -> None:
        """Take the membership in a group from these users."""
        where = {**self._scope(tenant_id), "_id": {"$in": list(user_ids)}, "memberships.groupId": group_id}
        await self._collection.update_many(where, _without_membership(group_id), session=session)
        self._invalidate_many(session, user_ids)

    async def remove_all_memberships(self, tenant_id: TenantId, group_id: str) -> None:
        """Take the membership in a group from everybody, however many they are."""
        await self.update_in_chunks(tenant_id, {"memberships.groupId": group_id}, _without_membership(group_id))

    def _any(self, tenant_id: TenantId, conditions: Iterable[Document]) -> Document:
        """One of the conditions, each within the tenant: a partial index serves a branch only where all of it is one.

        With the tenant beside the `$or`, MongoDB looks at every user that the tenant has.
        """
        return {"$or": [{**self._scope(tenant_id), **condition} for condition in conditions]}

    def _invalidate_many(self, session: Session, user_ids: Iterable[str]) -> None:
        """Drop these users from the cache: all the others are still what they were."""
        for user_id in user_ids:
            self._invalidate(session, user_id)


def _without_membership(group_id: str) -> Document:
    # The version moves too: an update that read the user before must not bring the membership back.
    return {"$pull": {"memberships": {"groupId": group_id}}, "$inc": {"lastUpdateInstant": 1}}
