"""Refresh tokens that come from elsewhere: of users who are here and registered, all of them or none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson

from identity.background_tasks import CooperativeYield
from identity.call import Call, Document
from identity.domain.clients import security_profiles
from identity.domain.objects import bulk_imports
from identity.errors import Duplicate, FieldError, Invalid, NotImported
from identity.ids import TenantId, new_id
from identity.instants import Instant
from identity.operations.users.user_import import ReadRequest
from identity.schemas import Shape
from identity.services import Services
from identity.store.mongo import BULK_SECONDS, Session

REQUEST: Final = "api/refresh-token-import.request.json"
_TOKEN: Final = "api/imported-refresh-token.json"  # noqa: S105 (the name of a schema)
_MANY: Final = "refreshTokens"
_LOOKED_UP = 500
"""How many users or values are looked up at once."""


class _Given:
    """The refresh tokens of a request, as they come in, and what is wrong with them."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self.tokens: list[bytes] = []
        self.errors: list[FieldError] = []

    def take(self, token: Any) -> None:
        """Judge the shape of one and keep it. Raises Invalid when there are too many, of tokens or of errors."""
        index = len(self.tokens)
        if index >= bulk_imports.MAXIMUM_ITEMS:
            raise Invalid([bulk_imports.too_many(_MANY)])
        tidy, errors = self._shape.examine({"refreshToken": token})
        self.tokens.append(b"" if errors else orjson.dumps(tidy["refreshToken"]))
        self.add(*(bulk_imports.at(_MANY, index, error) for error in errors))

    def add(self, *errors: FieldError) -> None:
        """Keep errors. Raises Invalid when nobody would read more of them."""
        self.errors += errors
        if len(self.errors) >= bulk_imports.MAXIMUM_ERRORS:
            raise Invalid(self.errors[: bulk_imports.MAXIMUM_ERRORS])


async def import_refresh_tokens(services: Services, call: Call, read: ReadRequest) -> None:
    """Add the refresh tokens of a request. Raises Invalid and NotImported, with nothing written."""
    given = _Given(services.schemas[_TOKEN])
    rest = await read(given.take)
    request = services.schemas[REQUEST].read({_MANY: [], **rest} if given.tokens else rest)
    if not given.tokens:
        raise Invalid([bulk_imports.empty(_MANY)])
    packed, values = await _judged(services, call, given)
    if given.errors:
        raise Invalid(given.errors)
    await _require_free(services, values, request)

    async def insert(session: Session) -> None:
        await services.refresh_tokens.insert_encoded(packed, session)

    try:
        await services.database.in_transaction(insert, BULK_SECONDS)
    except Duplicate as duplicate:
        await _require_free(services, values, request)
        raise NotImported(log_detail="somebody else came in between") from duplicate


async def _judged(services: Services, call: Call, given: _Given) -> tuple[list[bytes], list[tuple[TenantId, str]]]:
    """The records to be written, and the value of each with its tenant."""
    packed: list[bytes] = []
    values: list[tuple[TenantId, str]] = []
    pace = CooperativeYield()
    for at in range(0, len(given.tokens), _LOOKED_UP):
        tokens = [orjson.loads(raw) if raw else None for raw in given.tokens[at : at + _LOOKED_UP]]
        user_ids = {token["userId"] for token in tokens if token is not None}
        users = await services.users.registrations_of_across_tenants(list(user_ids))
        for index, token in enumerate(tokens, start=at):
            if token is not None:
                tenant_id, application_ids = users.get(token["userId"], (None, set()))
                if tenant_id is None or call.tenant_id not in {None, tenant_id}:
                    message = "The {} must name an existing user."
                    given.add(bulk_imports.error(_MANY, index, "invalid", "userId", message))
                elif token["applicationId"] not in application_ids:
                    message = "The {} must name an application that the user is registered for."
                    given.add(bulk_imports.error(_MANY, index, "invalid", "applicationId", message))
                elif (record := await _packed(services, call, tenant_id, token)) is not None:
                    packed.append(record)
                    values.append((tenant_id, token["token"]))
            await pace.step()
    return packed, values


async def _packed(services: Services, call: Call, tenant_id: TenantId, token: Document) -> bytes | None:
    """The record; None where the application, or all of the tenant, is being deleted at this moment."""
    inserted = Instant(token.get("insertInstant", call.now))
    started = Instant(token.get("startInstant", inserted))
    record = {"id": new_id(), "data": {}, "private": {}, **token, "insertInstant": inserted, "startInstant": started}
    tenant = await services.tenants.find_cached(None, tenant_id)
    application = await services.applications.find_cached(tenant_id, token["applicationId"])
    if tenant is None or application is None:
        return None
    own = application["jwtConfiguration"]
    policy = security_profiles.refresh_policy(application, own if own["enabled"] else tenant["jwtConfiguration"])
    return services.refresh_tokens.encode(tenant_id, record, policy.expires(inserted, started))


async def _require_free(services: Services, values: Sequence[tuple[TenantId, str]], request: Document) -> None:
    """Raise Invalid, or NotImported for a call that did not ask to be told, when values are taken."""
    errors: list[FieldError] = []
    seen: set[tuple[TenantId, str]] = set()
    for at in range(0, len(values), _LOOKED_UP):
        some = values[at : at + _LOOKED_UP]
        taken = {
            (tenant_id, value)
            for tenant_id in {one for one, _ in some}
            for value in await services.refresh_tokens.find_existing_values(
                tenant_id, [v for one, v in some if one == tenant_id]
            )
        }
        for index, value in enumerate(some, start=at):
            if value in taken or value in seen:
                errors.append(bulk_imports.error(_MANY, index, "duplicate", "token", "The {} exists already."))
            seen.add(value)
    if errors and request["validateDbConstraints"]:
        raise Invalid(errors[: bulk_imports.MAXIMUM_ERRORS])
    if errors:
        raise NotImported(log_detail=f"an import brought duplicates: {errors[0].path}")
