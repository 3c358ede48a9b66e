"""Users who come from elsewhere, up to ten thousand in one call: all of them or none.

The order is: read and judge everything, hash the passwords that came in plain text, ask the webhooks, write. They are
too many for one transaction: store/user_imports.py says how none of them stays of an import that fails. Each step goes
in short pieces, between which everybody else has their turn, and what waits for the next step waits as bytes: documents
would take several times the room.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import orjson

from identity.background_tasks import CooperativeYield
from identity.call import Call, Document
from identity.domain.groups import groups as group_rules
from identity.domain.objects import bulk_imports
from identity.domain.passwords import password_hashing
from identity.domain.users import user_import as rules
from identity.domain.users import users
from identity.errors import Conflict, Duplicate, FieldError, GeneralError, Invalid, NotImported
from identity.events.changes import Event
from identity.ids import TenantId, new_id
from identity.instants import Instant, later
from identity.operations.groups import group_members, groups
from identity.operations.objects import crud, features
from identity.operations.passwords import user_passwords
from identity.schemas import Shape
from identity.services import Services
from identity.store.mongo import BULK_SECONDS, STORE_ERRORS, Session

REQUEST: Final = "api/user-import.request.json"
_USER: Final = "api/imported-user.json"
_EVENT: Final = "user.bulk.create"
_BATCH = 500
"""How many users are written at once."""
_GIVEN_UP_SECONDS = 120
"""After this long without a further batch an import is given up."""
_LOOKED_UP = 500
"""How many login ids or ids are looked up at once."""

AddItem = Callable[[Any], None]
ReadRequest = Callable[[AddItem], Awaitable[Document]]
"""Reads a request: hands over its users one by one, and answers the rest of it."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Login:
    """What has to be unique of one user, for those who want to know what is not."""

    tenant_id: TenantId
    user_id: str
    keys: Mapping[str, str]
    member_ids: Sequence[str]


class _Given:
    """The users of a request, as they come in."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self.users: list[bytes] = []
        self.errors: list[FieldError] = []
        self.referred: dict[str | None, tuple[set[str], set[str]]] = {}

    def take(self, user: Any) -> None:
        """Judge the shape of one user and keep it. Raises Invalid when there are too many, of users or of errors."""
        index = len(self.users)
        if index >= bulk_imports.MAXIMUM_ITEMS:
            raise Invalid([bulk_imports.too_many("users")])
        tidy, errors = self._shape.examine({"user": user})
        wanted = tidy.get("user")
        self.errors += [bulk_imports.at("users", index, error) for error in errors]
        _require_few(self.errors)
        self.users.append(b"" if errors else orjson.dumps(wanted))
        if not errors:
            applications, group_ids = self.referred.setdefault(wanted.get("tenantId"), (set(), set()))
            applications.update(one["applicationId"] for one in wanted["registrations"])
            group_ids.update(one["groupId"] for one in wanted["memberships"])


class _Drafts:
    """The users to be made, judged; `plain` are the passwords that came in plain text, in the order of the users."""

    def __init__(self) -> None:
        self.users: list[tuple[TenantId, bytes, bool]] = []
        self.plain: list[tuple[str, str, int]] = []
        self.logins: list[_Login] = []
        self.errors: list[FieldError] = []
        self.unlicensed: dict[GeneralError, None] = {}
        """One for each switched-off feature, in the order in which users use them."""


async def import_users(services: Services, call: Call, read: ReadRequest) -> None:
    """Make the users of a request. Raises Invalid, NotImported and WebhookTransactionFailed, with nothing written."""
    try:
        await _run(services, call, read)
    finally:
        services.passwords.tidy_later()


async def _run(services: Services, call: Call, read: ReadRequest) -> None:
    given = _Given(services.schemas[_USER])
    rest = await read(given.take)
    request = services.schemas[REQUEST].read({"users": [], **rest} if given.users else rest)
    if not given.users:
        raise Invalid([bulk_imports.empty("users")])
    materials = await _materials(services, call, given)
    drafts = await _drafts(services, call, given, request, materials)
    crud.require_no_errors(drafts.errors, list(drafts.unlicensed))
    await _require_free(services, drafts, request)
    try:
        await _write(services, call, drafts)
    except (Duplicate, Conflict) as error:
        await _require_free(services, drafts, request)
        raise NotImported(log_detail="somebody else came in between") from error


async def _require_free(services: Services, drafts: _Drafts, request: Document) -> None:
    """Raise Invalid, or NotImported for a call that did not ask to be told, when ids or login ids are taken.

    The unique indexes have the last word; asking before spares everybody users who come and go again.
    """
    taken = await _taken(services, drafts.logins)
    if taken and request["validateDbConstraints"]:
        raise Invalid(taken)
    if taken:
        raise NotImported(log_detail=f"an import brought duplicates: {taken[0].path}")


async def _materials(services: Services, call: Call, given: _Given) -> dict[TenantId, rules.Material]:
    """What the users refer to, by tenant. A tenant that is not there is not in it."""
    wanted: dict[TenantId, tuple[set[str], set[str]]] = {}
    for named, (application_ids, group_ids) in given.referred.items():
        own = call.tenant_id or named
        if own is not None:
            known = wanted.setdefault(TenantId(own), (set(), set()))
            known[0].update(application_ids)
            known[1].update(group_ids)
    found = {}
    for tenant_id, (application_ids, group_ids) in wanted.items():
        tenant = await services.tenants.find_cached(None, tenant_id)
        if tenant is not None and tenant["state"] == "Active":
            applications = {one: await services.applications.find_cached(tenant_id, one) for one in application_ids}
            existing = await groups.find_all_live(services, tenant_id, group_ids) if group_ids else {}
            there = {one: application for one, application in applications.items() if application is not None}
            found[tenant_id] = rules.Material(tenant, there, frozenset(existing))
    return found


async def _drafts(
    services: Services, call: Call, given: _Given, request: Document, materials: Mapping[TenantId, rules.Material]
) -> _Drafts:
    drafts, pace = _Drafts(), CooperativeYield()
    drafts.errors = [*given.errors, *_scheme_problems(request, materials.values())]
    for index, raw in enumerate(given.users):
        if raw:
            wanted = orjson.loads(raw)
            _draft(call, index, wanted, request, materials, drafts)
            drafts.unlicensed |= dict.fromkeys(features.problems(services, "user", wanted, None))
            _require_few(drafts.errors)
        await pace.step()
    given.users.clear()
    return drafts


def _draft(
    call: Call,
    index: int,
    wanted: Document,
    request: Document,
    materials: Mapping[TenantId, rules.Material],
    drafts: _Drafts,
) -> None:
    """Judge one user, and keep what is to be made of it."""
    named = wanted.get("tenantId")
    material = materials.get(TenantId(str(call.tenant_id or named)))
    if material is None or named not in {None, material.tenant["id"]}:
        drafts.errors.append(_tenant_problem(index, named))
        return
    tenant_id = TenantId(material.tenant["id"])
    user = rules.user(wanted, tenant_id, call.now)
    drafts.errors += (errors := rules.problems(index, wanted, user, material))
    if errors:
        return
    user["registrations"] = [
        rules.registration(one, material.applications[one["applicationId"]], call.now)
        for one in wanted["registrations"]
    ]
    user["memberships"] = [
        group_rules.membership(one, one["groupId"], user["id"], call.now) | _only(one, "insertInstant")
        for one in wanted["memberships"]
    ]
    is_plain = "password" in wanted and "encryptionScheme" not in wanted
    if is_plain:
        plain = user_passwords.requested_password(material.tenant, {**_only(wanted, "password"), **_hashing(request)})
        assert plain is not None
        drafts.plain.append((plain.password, plain.scheme, plain.factor))
    elif "password" in wanted:
        factor = user_passwords.default_factor(wanted["encryptionScheme"])
        user["private"]["password"] = rules.hashed(wanted, factor)
    user = users.with_derived_members(user)
    drafts.users.append((tenant_id, orjson.dumps(user), is_plain))
    keys = {kind: users.login_key(value) for kind, value in users.login_ids(user).items()}
    drafts.logins.append(_Login(tenant_id, user["id"], keys, [one["id"] for one in user["memberships"]]))


async def _write(services: Services, call: Call, drafts: _Drafts) -> None:
    heard = {
        one: await services.bus.has_subscribers(one, _EVENT) for one in {tenant_id for tenant_id, _, _ in drafts.users}
    }
    told: dict[TenantId, list[orjson.Fragment]] = {}
    members: dict[TenantId, list[Document]] = {}
    packed: list[bytes] = []
    user_ids: list[str] = []
    import_id, pace = new_id(), CooperativeYield()
    async for tenant_id, user in _finished(services, drafts):
        members.setdefault(tenant_id, []).extend(user["memberships"])
        user_ids.append(user["id"])
        if heard[tenant_id]:
            secured = orjson.dumps(users.without_secrets(user), option=orjson.OPT_SORT_KEYS)
            told.setdefault(tenant_id, []).append(orjson.Fragment(secured))
        user["private"]["import"] = import_id
        packed.append(services.users.encode(tenant_id, user))
        await pace.step()

    staged = _Staged(services, import_id, tuple(heard), user_ids, packed)

    async def finish(session: Session) -> None:
        for tenant_id, joining in members.items():
            await group_members.insert_memberships(services, tenant_id, joining, session)
        await staged.finish(session)

    async def write(session: Session | None) -> None:
        await staged.insert()
        await (services.database.in_transaction(finish, BULK_SECONDS) if session is None else finish(session))

    events = [Event(_EVENT, {"users": fragments}, tenant_id) for tenant_id, fragments in told.items()]
    try:
        await services.bus.perform(call, write, events, patience_seconds=BULK_SECONDS)
    except BaseException:
        await staged.take_back()
        raise
    for tenant_id, joining in members.items():
        await group_members.remove_orphans(services, tenant_id, joining)


class _Staged:
    """Users who are being written, and who stay if the import comes to its end."""

    def __init__(
        self,
        services: Services,
        import_id: str,
        tenant_ids: Sequence[TenantId],
        user_ids: Sequence[str],
        packed: Sequence[bytes],
    ) -> None:
        self._services = services
        self._import_id = import_id
        self._tenant_ids = tenant_ids
        self._user_ids = user_ids
        self._packed = packed
        self._is_begun = self._is_written = False

    async def insert(self) -> None:
        """Write all of them, once. Raises Duplicate, and Conflict when the import was taken back as given up."""
        if self._is_written:
            return
        imports = self._services.user_imports
        self._is_begun = True
        await imports.begin(self._tenant_ids, self._import_id, self._user_ids, self._until())
        for at in range(0, len(self._packed), _BATCH):
            if not await imports.extend(self._import_id, self._until()):
                raise Conflict
            await self._services.users.insert_encoded(self._packed[at : at + _BATCH])
        self._is_written = True

    async def finish(self, session: Session) -> None:
        """From the end of the transaction on they stay. Raises Conflict when the import was taken back."""
        if not await self._services.user_imports.finish(self._import_id, session):
            raise Conflict
        self._services.database.run_now_and_after_commit(session, self._services.users.invalidate_all)

    async def take_back(self) -> None:
        """Remove what was written, unless the import came to its end; what fails now is done by the sweeper."""
        if self._is_begun:
            with contextlib.suppress(*STORE_ERRORS):
                await undo(self._services, self._import_id)

    def _until(self) -> Instant:
        return later(self._services.clock.now(), seconds=_GIVEN_UP_SECONDS)


async def undo(services: Services, import_id: str) -> None:
    """Remove the users of an import that did not come to its end."""
    found = await services.user_imports.begin_rollback(import_id)
    if found is not None:
        tenant_ids, user_ids = found
        await services.users.remove_imported(tenant_ids, import_id, user_ids)
        await services.user_imports.delete(import_id)
        services.users.invalidate_all()


async def undo_abandoned(services: Services) -> None:
    """Remove the users of imports that nobody goes on with: their process was killed, or lost MongoDB."""
    for import_id in await services.user_imports.list_abandoned(services.clock.now()):
        await undo(services, import_id)


async def _finished(services: Services, drafts: _Drafts) -> AsyncIterator[tuple[TenantId, Document]]:
    """The users with their passwords; each draft is let go of."""
    hashes = services.passwords.hash_many(drafts.plain)
    drafts.users.reverse()
    while drafts.users:
        tenant_id, raw, is_plain = drafts.users.pop()
        user: Document = orjson.loads(raw)
        if is_plain:
            user["private"]["password"] = dataclasses.asdict(await anext(hashes))
        yield tenant_id, user


async def _taken(services: Services, logins: Sequence[_Login]) -> list[FieldError]:
    """What of the users is taken already: by one before them in the request, or by what is stored."""
    errors: list[FieldError] = []
    pace = CooperativeYield()
    seen: set[tuple[str, ...]] = set()
    for index, login in enumerate(logins):
        for where, key, name in _unique(login):
            if key in seen:
                errors.append(_error(index, "duplicate", name, f"The {{}} names {where} for the second time."))
            seen.add(key)
        await pace.step()
    for at in range(0, len(logins), _LOOKED_UP):
        if len(errors) >= bulk_imports.MAXIMUM_ERRORS:
            break
        errors += await _stored(services, at, logins[at : at + _LOOKED_UP])
    return errors[: bulk_imports.MAXIMUM_ERRORS]


def _unique(login: _Login) -> Iterable[tuple[str, tuple[str, ...], str]]:
    """(what it is, the key that nobody else may have, the member that it stands in)."""
    yield "a user", ("id", login.user_id), "id"
    for kind, value in login.keys.items():
        yield "a login id", (kind, login.tenant_id, value), kind
    for number, member_id in enumerate(login.member_ids):
        yield "a membership", ("member", member_id), f"memberships[{number}].id"


async def _stored(services: Services, first: int, logins: Sequence[_Login]) -> list[FieldError]:
    """What of these users, of whom one is the `first` of the request, is stored already."""
    ids = await services.users.existing_ids_across_tenants([login.user_id for login in logins])
    by_key: dict[tuple[str, ...], bool] = {("id", one): True for one in ids}
    member_ids = [one for login in logins for one in login.member_ids]
    for member in await services.group_members.find_all_across_tenants({"_id": {"$in": member_ids}}):
        by_key["member", member["id"]] = True
    for tenant_id in {login.tenant_id for login in logins}:
        keys: dict[str, list[str]] = {}
        for login in logins:
            for kind, value in login.keys.items() if login.tenant_id == tenant_id else ():
                keys.setdefault(kind, []).append(value)
        for found in await services.users.find_login_id_conflicts(tenant_id, keys):
            for kind, value in users.login_ids(found).items():
                by_key[kind, tenant_id, users.login_key(value)] = found["active"]
    return [
        _error(first + index, "duplicate" if by_key[key] else "inactive", name, "The {} is taken already.")
        for index, login in enumerate(logins)
        for _, key, name in _unique(login)
        if key in by_key
    ]


def _scheme_problems(request: Document, materials: Iterable[rules.Material]) -> list[FieldError]:
    """What is wrong with how passwords in plain text are to be hashed."""
    if "encryptionScheme" in request and not password_hashing.is_known(request["encryptionScheme"]):
        return [FieldError.of("invalid", "encryptionScheme", "The [encryptionScheme] is not known.")]
    for material in materials:
        how = user_passwords.requested_password(material.tenant, {"password": "", **_hashing(request)})
        assert how is not None
        if not password_hashing.is_acceptable_factor(how.scheme, how.factor):
            return [FieldError.of("invalid", "factor", f"The [factor] is out of range for {how.scheme}.")]
    return []


def _hashing(request: Document) -> Document:
    return _only(request, "encryptionScheme", "factor")


def _only(document: Document, *names: str) -> Document:
    return {name: document[name] for name in names if name in document}


def _tenant_problem(index: int, named: str | None) -> FieldError:
    if named is None:
        message = "You must specify the {}, because no tenant is named by the API key or a header."
        return _error(index, "missing", "tenantId", message)
    return _error(index, "invalid", "tenantId", "The {} must name the tenant of the call, or an existing one.")


def _error(index: int, kind: str, name: str, message: str) -> FieldError:
    return bulk_imports.error("users", index, kind, name, message)


def _require_few(errors: Sequence[FieldError]) -> None:
    """Give up when there are so many errors that nobody reads more."""
    if len(errors) >= bulk_imports.MAXIMUM_ERRORS:
        raise Invalid(errors[: bulk_imports.MAXIMUM_ERRORS])
