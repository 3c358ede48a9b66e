"""Bulk import of up to ten thousand users in one call: all of them or none.

The steps are: read and validate all users, hash plain-text passwords, request the approval of webhooks, write. The
users are too many for one transaction; store/users.py describes how a failed import is undone. Each step yields
to the event loop often. Between steps users are kept as bytes, which take a fraction of the memory of documents.
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
from identity.domain.passwords import password_hashing, phc_strings
from identity.domain.users import user_import as import_rules
from identity.domain.users import users as user_rules
from identity.errors import Conflict, Duplicate, FieldError, GeneralError, Invalid, NotImported
from identity.events.changes import Change, Event
from identity.ids import TenantId, new_id
from identity.instants import Instant, later
from identity.operations.groups import administrators, group_members, groups
from identity.operations.objects import crud, features
from identity.operations.passwords import password_cost, user_passwords
from identity.schemas import Shape
from identity.services import Services
from identity.store.mongo import BULK_SECONDS, STORE_ERRORS, Session

REQUEST: Final = "api/user-import.request.json"
_USER: Final = "api/imported-user.json"
_EVENT: Final = "user.bulk.create"
_BATCH = 500
"""How many users one command inserts."""
_LEASE_SECONDS = 120
"""How long an import may take for one batch before it counts as abandoned."""
_LOOK_UP_BATCH = 500
"""How many users are looked up by one query."""

AddItem = Callable[[Any], None]
ReadRequest = Callable[[AddItem], Awaitable[Document]]
"""Reads a request: passes its items to the function one by one, and returns the other members."""


@dataclasses.dataclass(frozen=True, slots=True)
class _UniqueValues:
    """The values of one user that must be unique."""

    tenant_id: TenantId
    user_id: str
    keys: Mapping[str, str]
    member_ids: Sequence[str]


class _RequestedUsers:
    """The users of a request as they are read, with the ids they refer to by tenant."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self.users: list[bytes] = []
        self.errors: list[FieldError] = []
        self.references: dict[str | None, tuple[set[str], set[str]]] = {}

    def add(self, user: Any) -> None:
        """Validate one user against the schema and store it. Raises Invalid for too many users or too many errors."""
        index = len(self.users)
        if index >= bulk_imports.MAXIMUM_ITEMS:
            raise Invalid([bulk_imports.too_many("users")])
        tidy, errors = self._shape.examine({"user": user})
        parsed = tidy.get("user")
        self.errors += [bulk_imports.at("users", index, error) for error in errors]
        _require_few(self.errors)
        self.users.append(b"" if errors else orjson.dumps(parsed))
        if not errors:
            applications, group_ids = self.references.setdefault(parsed.get("tenantId"), (set(), set()))
            applications.update(one["applicationId"] for one in parsed["registrations"])
            group_ids.update(one["groupId"] for one in parsed["memberships"])


class _ImportDrafts:
    """The valid users of an import; `plain` are the passwords in plain text, in the order of the users."""

    def __init__(self) -> None:
        self.users: list[tuple[TenantId, bytes, bool]] = []
        self.plain: list[tuple[str, str, int, str]] = []
        self.unique_values: list[_UniqueValues] = []
        self.errors: list[FieldError] = []
        self.unlicensed: dict[GeneralError, None] = {}
        """One error for each disabled feature, in the order of first use."""


async def import_users(services: Services, call: Call, read: ReadRequest) -> None:
    """Create the users of a request. Raises Invalid, NotImported and WebhookTransactionFailed, with nothing written."""
    try:
        await _import_users(services, call, read)
    finally:
        services.runtime.passwords.tidy_later()


async def _import_users(services: Services, call: Call, read: ReadRequest) -> None:
    requested = _RequestedUsers(services.schemas[_USER])
    rest = await read(requested.add)
    request = services.schemas[REQUEST].read({"users": [], **rest} if requested.users else rest)
    if not requested.users:
        raise Invalid([bulk_imports.empty("users")])
    referenced = await _find_referenced(services, call, requested)
    drafts = await _validate(services, call, requested, request, referenced)
    crud.require_no_errors(drafts.errors, list(drafts.unlicensed))
    await _require_free(services, drafts, request)
    try:
        await _write(services, call, drafts)
    except (Duplicate, Conflict) as error:
        await _require_free(services, drafts, request)
        raise NotImported(log_detail="a concurrent request created one of the users") from error


async def _require_free(services: Services, drafts: _ImportDrafts, request: Document) -> None:
    """Raise Invalid for ids or login ids that exist, or NotImported without `validateDbConstraints`.

    The unique indexes make the final decision; this check avoids inserting users only to remove them.
    """
    duplicates = await _duplicate_problems(services, drafts.unique_values)
    if duplicates and request["validateDbConstraints"]:
        raise Invalid(duplicates)
    if duplicates:
        raise NotImported(log_detail=f"an import contains duplicates: {duplicates[0].path}")


async def _find_referenced(
    services: Services, call: Call, requested: _RequestedUsers
) -> dict[TenantId, import_rules.ReferencedObjects]:
    """Return the objects that the users refer to, by existing tenant."""
    wanted: dict[TenantId, tuple[set[str], set[str]]] = {}
    for named, (application_ids, group_ids) in requested.references.items():
        own = call.tenant_id or named
        if own is not None:
            known = wanted.setdefault(TenantId(own), (set(), set()))
            known[0].update(application_ids)
            known[1].update(group_ids)
    found = {}
    for tenant_id, (application_ids, group_ids) in wanted.items():
        tenant = await services.configuration.tenants.find_cached(None, tenant_id)
        if tenant is not None and tenant["state"] == "Active":
            applications = {
                one: await services.configuration.applications.find_cached(tenant_id, one) for one in application_ids
            }
            existing = await groups.find_all_live(services, tenant_id, group_ids) if group_ids else {}
            there = {one: application for one, application in applications.items() if application is not None}
            found[tenant_id] = import_rules.ReferencedObjects(tenant, there, frozenset(existing))
    return found


async def _validate(
    services: Services,
    call: Call,
    requested: _RequestedUsers,
    request: Document,
    referenced: Mapping[TenantId, import_rules.ReferencedObjects],
) -> _ImportDrafts:
    drafts, cooperation = _ImportDrafts(), CooperativeYield()
    drafts.errors = [*requested.errors, *_scheme_problems(services, call, request, referenced.values())]
    for index, raw in enumerate(requested.users):
        if raw:
            parsed = orjson.loads(raw)
            _add_draft(call, index, parsed, request, referenced, drafts)
            drafts.errors += _cost_problems(services, call, index, parsed, referenced)
            drafts.unlicensed |= dict.fromkeys(features.problems(services, "user", parsed, None))
            _require_few(drafts.errors)
        await cooperation.step()
    requested.users.clear()
    return drafts


def _add_draft(
    call: Call,
    index: int,
    parsed: Document,
    request: Document,
    referenced: Mapping[TenantId, import_rules.ReferencedObjects],
    drafts: _ImportDrafts,
) -> None:
    """Validate one user against its tenant; add its draft or its errors."""
    named = parsed.get("tenantId")
    objects = referenced.get(TenantId(str(call.tenant_id or named)))
    if objects is None or named not in {None, objects.tenant["id"]}:
        drafts.errors.append(_tenant_problem(index, named))
        return
    tenant_id = TenantId(objects.tenant["id"])
    user = import_rules.build_user(parsed, tenant_id, call.now)
    drafts.errors += (errors := import_rules.problems(index, parsed, user, objects))
    if errors:
        return
    user["registrations"] = [
        import_rules.build_registration(one, objects.applications[one["applicationId"]], call.now)
        for one in parsed["registrations"]
    ]
    user["memberships"] = [
        group_rules.membership(one, one["groupId"], user["id"], call.now) | _only(one, "insertInstant")
        for one in parsed["memberships"]
    ]
    is_plain = "password" in parsed and "encryptionScheme" not in parsed
    if is_plain:
        plain = user_passwords.requested_password(objects.tenant, {**_only(parsed, "password"), **_hashing(request)})
        assert plain is not None
        drafts.plain.append((plain.password, plain.scheme, plain.factor, tenant_id))
    elif "password" in parsed:
        factor = user_passwords.default_factor(parsed["encryptionScheme"])
        user["private"]["password"] = import_rules.stored_password(parsed, factor)
    for registration in user["registrations"]:
        administrators.require_all_permissions(call, registration["applicationId"])
    user = user_rules.with_derived_members(user)
    drafts.users.append((tenant_id, orjson.dumps(user), is_plain))
    keys = {kind: user_rules.login_key(value) for kind, value in user_rules.login_ids(user).items()}
    drafts.unique_values.append(_UniqueValues(tenant_id, user["id"], keys, [one["id"] for one in user["memberships"]]))


async def _write(services: Services, call: Call, drafts: _ImportDrafts) -> None:
    """Commit the users with one event per tenant; undo the import if that fails."""
    tenant_ids = {tenant_id for tenant_id, _, _ in drafts.users}
    subscribed = {one: await services.bus.has_subscribers(one, _EVENT) for one in tenant_ids}
    payloads: dict[TenantId, list[orjson.Fragment]] = {}
    pending, cooperation = _PendingImport(services, new_id(), tuple(subscribed)), CooperativeYield()
    async for tenant_id, user in _with_passwords(services, drafts):
        if subscribed[tenant_id]:
            serialized = orjson.dumps(user_rules.without_secrets(user), option=orjson.OPT_SORT_KEYS)
            payloads.setdefault(tenant_id, []).append(orjson.Fragment(serialized))
        await pending.add(tenant_id, user)
        await cooperation.step()
    change = Change(
        writes=[pending.write],
        before_commit=[Event(_EVENT, {"users": fragments}, tenant_id) for tenant_id, fragments in payloads.items()],
    )
    try:
        await services.bus.commit(call, change, limit_seconds=BULK_SECONDS)
    except BaseException:
        await pending.undo()
        raise
    for tenant_id, memberships in pending.memberships.items():
        await group_members.remove_orphans(services, tenant_id, memberships)


class _PendingImport:
    """The users of an import in progress; they stay only if it finishes."""

    def __init__(self, services: Services, import_id: str, tenant_ids: Sequence[TenantId]) -> None:
        self.memberships: dict[TenantId, list[Document]] = {}
        self._services = services
        self._import_id = import_id
        self._tenant_ids = tenant_ids
        self._user_ids: list[str] = []
        self._encoded: list[bytes] = []
        self._is_started = self._is_inserted = False

    async def add(self, tenant_id: TenantId, user: Document) -> None:
        """Add a user to be inserted, and mark it as part of the import. Raises Unauthorized for an administrator."""
        self.memberships.setdefault(tenant_id, []).extend(user["memberships"])
        self._user_ids.append(user["id"])
        user["private"]["import"] = self._import_id
        self._encoded.append(await self._services.directory.users.encode(tenant_id, user))

    async def write(self, session: Session | None) -> None:
        """Insert the users in batches without a transaction, then finish the import in one."""
        await self._insert()
        if session is None:
            await self._services.runtime.database.in_transaction(self._finish, BULK_SECONDS)
        else:
            await self._finish(session)

    async def _insert(self) -> None:
        """Insert all users, once. Raises Duplicate, and Conflict when the import was undone as abandoned."""
        if self._is_inserted:
            return
        imports = self._services.logs.user_imports
        self._is_started = True
        await imports.begin(self._tenant_ids, self._import_id, self._user_ids, self._lease_expiry())
        for start in range(0, len(self._encoded), _BATCH):
            if not await imports.extend(self._import_id, self._lease_expiry()):
                raise Conflict
            await self._services.directory.users.insert_encoded(self._encoded[start : start + _BATCH])
        self._is_inserted = True

    async def _finish(self, session: Session) -> None:
        """Keep the users from the commit on, with their memberships. Raises Conflict when the import was undone."""
        for tenant_id, memberships in self.memberships.items():
            await group_members.insert_memberships(self._services, tenant_id, memberships, session)
        if not await self._services.logs.user_imports.finish(self._import_id, session):
            raise Conflict
        self._services.runtime.database.run_now_and_after_commit(session, self._services.directory.users.invalidate_all)

    async def undo(self) -> None:
        """Remove the inserted users unless the import has finished; a worker repeats what fails."""
        if self._is_started:
            with contextlib.suppress(*STORE_ERRORS):
                await undo(self._services, self._import_id)

    def _lease_expiry(self) -> Instant:
        return later(self._services.clock.now(), seconds=_LEASE_SECONDS)


async def undo(services: Services, import_id: str) -> None:
    """Remove the users of an unfinished import."""
    found = await services.logs.user_imports.begin_rollback(import_id)
    if found is not None:
        tenant_ids, user_ids = found
        await services.directory.users.remove_imported(tenant_ids, import_id, user_ids)
        await services.logs.user_imports.delete(import_id)
        services.directory.users.invalidate_all()


async def undo_abandoned(services: Services) -> None:
    """Remove the users of abandoned imports, whose process was killed or lost MongoDB."""
    for import_id in await services.logs.user_imports.list_abandoned(services.clock.now()):
        await undo(services, import_id)


async def _with_passwords(services: Services, drafts: _ImportDrafts) -> AsyncIterator[tuple[TenantId, Document]]:
    """Yield the users with their passwords, releasing each draft."""
    hashes = services.runtime.passwords.hash_many(drafts.plain)
    drafts.users.reverse()
    while drafts.users:
        tenant_id, raw, is_plain = drafts.users.pop()
        user: Document = orjson.loads(raw)
        if is_plain:
            user["private"]["password"] = dataclasses.asdict(await anext(hashes))
        yield tenant_id, user


async def _duplicate_problems(services: Services, unique_values: Sequence[_UniqueValues]) -> list[FieldError]:
    """Return an error for each unique value that an earlier user of the request or a stored user has."""
    errors: list[FieldError] = []
    cooperation = CooperativeYield()
    seen: set[tuple[str, ...]] = set()
    for index, values in enumerate(unique_values):
        for description, key, name in _keys_of(values):
            if key in seen:
                errors.append(_error(index, "duplicate", name, f"The {{}} names {description} a second time."))
            seen.add(key)
        await cooperation.step()
    for start in range(0, len(unique_values), _LOOK_UP_BATCH):
        if len(errors) >= bulk_imports.MAXIMUM_ERRORS:
            break
        errors += await _stored_problems(services, start, unique_values[start : start + _LOOK_UP_BATCH])
    return errors[: bulk_imports.MAXIMUM_ERRORS]


def _keys_of(values: _UniqueValues) -> Iterable[tuple[str, tuple[str, ...], str]]:
    """Yield (description, unique key, member) for each unique value of a user."""
    yield "a user", ("id", values.user_id), "id"
    for kind, value in values.keys.items():
        yield "a login id", (kind, values.tenant_id, value), kind
    for number, member_id in enumerate(values.member_ids):
        yield "a membership", ("member", member_id), f"memberships[{number}].id"


async def _stored_problems(services: Services, first: int, unique_values: Sequence[_UniqueValues]) -> list[FieldError]:
    """Return an error for each unique value that is stored; `first` is the index of the first of these users."""
    ids = await services.directory.users.existing_ids_across_tenants([values.user_id for values in unique_values])
    by_key: dict[tuple[str, ...], bool] = {("id", one): True for one in ids}
    member_ids = [one for values in unique_values for one in values.member_ids]
    for member in await services.directory.group_members.find_all_across_tenants({"_id": {"$in": member_ids}}):
        by_key["member", member["id"]] = True
    for tenant_id in {values.tenant_id for values in unique_values}:
        keys: dict[str, list[str]] = {}
        for values in unique_values:
            for kind, value in values.keys.items() if values.tenant_id == tenant_id else ():
                keys.setdefault(kind, []).append(value)
        for found in await services.directory.users.find_login_id_conflicts(tenant_id, keys):
            for kind, value in user_rules.login_ids(found).items():
                by_key[kind, tenant_id, user_rules.login_key(value)] = found["active"]
    return [
        _error(first + index, "duplicate" if by_key[key] else "inactive", name, "The {} exists already.")
        for index, values in enumerate(unique_values)
        for _, key, name in _keys_of(values)
        if key in by_key
    ]


def _cost_problems(
    services: Services,
    call: Call,
    index: int,
    parsed: Document,
    referenced: Mapping[TenantId, import_rules.ReferencedObjects],
) -> list[FieldError]:
    """Return the error of a hash that costs more than the caller may choose: every login of the user repeats it."""
    objects = referenced.get(TenantId(str(call.tenant_id or parsed.get("tenantId"))))
    cost = import_rules.hash_cost(parsed)
    if objects is None or cost is None:
        return []
    member = "password" if parsed["encryptionScheme"] == phc_strings.SCHEME else "factor"
    errors = password_cost.factor_problems(services, call, objects.tenant, *cost, f"user.{member}")
    return [bulk_imports.at("users", index, error) for error in errors]


def _scheme_problems(
    services: Services, call: Call, request: Document, referenced: Iterable[import_rules.ReferencedObjects]
) -> list[FieldError]:
    """Return the errors of the hash scheme for plain-text passwords."""
    if "encryptionScheme" in request and not password_hashing.is_known(request["encryptionScheme"]):
        return [FieldError.invalid("encryptionScheme", "is not known")]
    for objects in referenced:
        password = user_passwords.requested_password(objects.tenant, {"password": "", **_hashing(request)})
        assert password is not None
        if not password_hashing.is_acceptable_factor(password.scheme, password.factor):
            return [FieldError.of("invalid", "factor", f"The [factor] is out of range for {password.scheme}.")]
        tenant, scheme, factor = objects.tenant, password.scheme, password.factor
        if errors := password_cost.factor_problems(services, call, tenant, scheme, factor, "factor"):
            return errors
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
    """Raise Invalid when the maximum number of errors is reached."""
    if len(errors) >= bulk_imports.MAXIMUM_ERRORS:
        raise Invalid(errors[: bulk_imports.MAXIMUM_ERRORS])
