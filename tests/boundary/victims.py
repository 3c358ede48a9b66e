"""The administrators of a privileged tenant, and the parts of their state that no lesser caller may change."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import httpx

from identity import app
from identity.app import ADMINISTRATOR_APPLICATION_ID
from identity.domain.configuration import administrator_realm as realm_rules
from identity.domain.configuration.administrator_roles import Authority
from identity.ids import TenantId, UserId, new_id, new_secret
from identity.operations.groups import administrators
from identity.store.browser_sessions import SsoSession
from tests import internals, two_factor
from tests.api.test_administrators import import_passkey, import_refresh_token
from tests.conftest import DEFAULT_TENANT
from tests.console import administrator
from tests.fuzz.known_values import KnownValues

Document = dict[str, Any]

PASSWORD = "the password that only the administrator knows"
ROLES = ("admin", "user-manager", "developer", "auditor", "tenant-admin")
_PROTECTED = ("active", "email", "expiry", "identities", "memberships", "mobilePhone", "phoneNumber", "registrations",
              "tenantId", "twoFactor", "uniqueUsername", "username", "verified", "connectorId")  # fmt: skip
_SESSION_SECONDS = 86_400
_COUNTED = ("lastLoginInstant", "lastUpdateInstant", "usernameStatus")


@dataclasses.dataclass(frozen=True)
class Held:
    """What an administrator holds."""

    account: Document
    """Addresses, password, factors, roles and memberships."""
    passkeys: frozenset[str]
    links: frozenset[str]
    sessions: frozenset[str]
    refresh_tokens: frozenset[str]


State = dict[str, Held]


@dataclasses.dataclass
class Victims:
    """An administrator of each role, and one by group."""

    service: app.Service
    api: httpx.AsyncClient
    users: dict[str, Document] = dataclasses.field(default_factory=dict)
    group_id: str = ""
    session_id: str = dataclasses.field(default_factory=new_id)
    session_secret: str = dataclasses.field(default_factory=new_secret)
    token: str = dataclasses.field(default_factory=new_secret)
    stored_tokens: list[Document] = dataclasses.field(default_factory=list)

    async def appoint(self, group_id: str) -> None:
        """Create the administrators; the group grants the role `admin`."""
        self.group_id = group_id
        for role in ROLES:
            if role not in self.users:
                self.users[role] = await administrator.make(self.api, role)
        if "by group" not in self.users:
            user = await administrator.make(self.api)
            body = {"members": {group_id: [{"userId": user["id"]}]}}
            answer = await self.api.post("/api/group/member", json=body)
            assert answer.status_code == 200, answer.text
            self.users["by group"] = user
        for user in self.users.values():
            answer = await self.api.patch(f"/api/user/{user['id']}", json={"user": {"password": PASSWORD}})
            assert answer.status_code == 200, answer.text
        factor = {"user": {"twoFactor": {"methods": [two_factor.authenticator()]}}}
        protected = self.users["by group"]["id"]
        answer = await self.api.patch(f"/api/user/{protected}", json=factor)
        assert answer.status_code == 200, answer.text
        assert (await import_passkey(self.api, self.users["admin"]["id"])).status_code == 200

    async def sign_in(self) -> None:
        """Give the administrator a session of the console and a refresh token; those of the others end."""
        tenant_id, sessions = TenantId(DEFAULT_TENANT), internals.store(self.service, "sso_sessions")
        for user_id in self.ids:
            await sessions.end_of_user(tenant_id, UserId(user_id))
        now, admin = internals.now(self.service), UserId(self.admin["id"])
        session = SsoSession(self.session_id, admin, now, "PASSWORD", is_persistent=False, realm=realm_rules.NAME)
        await sessions.create(tenant_id, self.session_secret, session, _SESSION_SECONDS)
        tokens = internals.database(self.service).motor["refresh_tokens"]
        if not self.stored_tokens:
            assert (await import_refresh_token(self.api, admin, self.token)).status_code == 200
            self.stored_tokens = await tokens.find({"userId": admin}).to_list(None)
        await tokens.delete_many({"userId": {"$in": self.ids}})
        await tokens.insert_many(self.stored_tokens)

    @property
    def admin(self) -> Document:
        """The administrator with all permissions."""
        return self.users["admin"]

    @property
    def addresses(self) -> set[str]:
        """The addresses of the administrators with more permissions than any lesser caller."""
        return {self.users[name]["email"] for name in ("admin", "by group")}

    def add_to(self, known: KnownValues) -> None:
        """Register the administrators as values of calls, without crowding out the others."""
        users = [self.users["admin"], self.users["by group"], self.users["auditor"]]
        own = known.of("userId")
        for name in ("userId", "actioneeUserId", "actionerUserId", "commenterId", "giverUserId"):
            known.add(name, *own, *(user["id"] for user in users))
        for name in ("email", "loginId", "username", "parentEmail"):
            known.add(name, f"{new_id()}@thief.example.com", *(user["email"] for user in users))

    async def state(self) -> State:
        """Return what each administrator of the tenant holds now, whoever appointed it.

        Sessions and tokens are those of the victims: the callers are administrators too, and sign in again.
        """
        users = internals.store(self.service, "users")
        where = {"$or": [{"registrations.applicationId": ADMINISTRATOR_APPLICATION_ID},
                         {"memberships.groupId": self.group_id}, {"_id": {"$in": self.ids}}]}  # fmt: skip
        found = await users.find_all(DEFAULT_TENANT, where)
        ids = [user["id"] for user in found]
        passkeys, links, tokens = await asyncio.gather(
            *(
                self._ids_by_user(name, ids)
                for name in ("webauthn_credentials", "identity_provider_links", "refresh_tokens")
            )
        )
        store, nothing = internals.store(self.service, "sso_sessions"), frozenset[str]()
        sessions = await asyncio.gather(*(store.find_of_user(DEFAULT_TENANT, user_id) for user_id in self.ids))
        ids_of = dict(zip(self.ids, (frozenset(each.session_id for each in own) for own in sessions), strict=True))
        return {
            user["id"]: Held(
                _account_of(user), passkeys[user["id"]], links[user["id"]], ids_of.get(user["id"], nothing),
                tokens[user["id"]] if user["id"] in ids_of else nothing,
            )
            for user in found
        }  # fmt: skip

    async def _ids_by_user(self, collection: str, user_ids: list[str]) -> dict[str, frozenset[str]]:
        """Return the ids of the documents of each user."""
        rows = internals.database(self.service).motor[collection].find({"userId": {"$in": user_ids}}, {"userId": 1})
        found: dict[str, set[str]] = {user_id: set() for user_id in user_ids}
        async for row in rows:
            found[row["userId"]].add(str(row["_id"]))
        return {user_id: frozenset(ids) for user_id, ids in found.items()}

    @property
    def ids(self) -> list[str]:
        """The ids of the administrators that the world began with."""
        return [user["id"] for user in self.users.values()]

    async def authority(self, account: Document) -> Authority | None:
        """Return the authority of an account."""
        return await internals.run(self.service, administrators.authority_of, account)


def _account_of(user: Document) -> Document:
    """Return the members that decide who signs in as a user and what it may do."""
    account = {name: _without_counters(user.get(name)) for name in _PROTECTED}
    private = user.get("private", {})
    return {**account, "password": private.get("password"), "preventions": private.get("preventions")}


def _without_counters(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_counters(item) for item in node]
    if isinstance(node, dict):
        return {name: _without_counters(value) for name, value in node.items() if name not in _COUNTED}
    return node


def covers(held: Authority | None, wanted: Authority | None) -> bool:
    """Return whether an authority includes another one; None is that of a person without a role."""
    return wanted is None or (held is not None and held.covers(wanted))
