"""Bulk import of refresh tokens of existing, registered users: all of them or none."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import orjson

from identity.background_tasks import CooperativeYield
from identity.call import Call, Document
from identity.domain.clients import security_profiles
from identity.domain.configuration.applications import ADMINISTRATOR_APPLICATION_ID
from identity.domain.objects import bulk_imports
from identity.errors import Duplicate, FieldError, Invalid, NotImported
from identity.ids import TenantId, new_id
from identity.instants import Instant
from identity.operations.groups import administrators
from identity.operations.users.user_import import ReadRequest
from identity.schemas import Shape
from identity.services import Services
from identity.store.mongo import BULK_SECONDS

REQUEST: Final = "api/refresh-token-import.request.json"
_TOKEN: Final = "api/imported-refresh-token.json"  # noqa: S105 (the name of a schema)
_MANY: Final = "refreshTokens"
_LOOK_UP_BATCH = 500
"""How many users or values are looked up by one query."""


class _RequestedTokens:
    """The refresh tokens of a request as they are read, with their errors."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self.tokens: list[bytes] = []
        self.errors: list[FieldError] = []

    def add(self, token: Any) -> None:
        """Validate one token against the schema and store it. Raises Invalid for too many tokens or too many errors."""
        index = len(self.tokens)
        if index >= bulk_imports.MAXIMUM_ITEMS:
            raise Invalid([bulk_imports.too_many(_MANY)])
        tidy, errors = self._shape.examine({"refreshToken": token})
        self.tokens.append(b"" if errors else orjson.dumps(tidy["refreshToken"]))
        self.add_errors(*(bulk_imports.at(_MANY, index, error) for error in errors))

    def add_errors(self, *errors: FieldError) -> None:
        """Add errors. Raises Invalid when their maximum number is reached."""
        self.errors += errors
        if len(self.errors) >= bulk_imports.MAXIMUM_ERRORS:
            raise Invalid(self.errors[: bulk_imports.MAXIMUM_ERRORS])


async def import_refresh_tokens(services: Services, call: Call, read: ReadRequest) -> None:
    """Create the refresh tokens of a request. Raises Invalid and NotImported, with nothing written."""
    requested = _RequestedTokens(services.schemas[_TOKEN])
    rest = await read(requested.add)
    request = services.schemas[REQUEST].read({_MANY: [], **rest} if requested.tokens else rest)
    if not requested.tokens:
        raise Invalid([bulk_imports.empty(_MANY)])
    encoded, values = await _validate(services, call, requested)
    if requested.errors:
        raise Invalid(requested.errors)
    await _require_free(services, values, request)
    insert = functools.partial(services.tokens.refresh_tokens.insert_encoded, encoded)
    try:
        await services.runtime.database.in_transaction(insert, BULK_SECONDS)
    except Duplicate as duplicate:
        await _require_free(services, values, request)
        raise NotImported(log_detail="a concurrent request created one of the tokens") from duplicate


async def _validate(
    services: Services, call: Call, requested: _RequestedTokens
) -> tuple[list[bytes], list[tuple[TenantId, str]]]:
    """Return the encoded records, and the value of each with its tenant."""
    encoded: list[bytes] = []
    values: list[tuple[TenantId, str]] = []
    cooperation = CooperativeYield()
    for start in range(0, len(requested.tokens), _LOOK_UP_BATCH):
        tokens = [orjson.loads(raw) if raw else None for raw in requested.tokens[start : start + _LOOK_UP_BATCH]]
        user_ids = {token["userId"] for token in tokens if token is not None}
        users = await services.directory.users.registrations_of_across_tenants(list(user_ids))
        await _require_authority(services, call, users)
        for index, token in enumerate(tokens, start=start):
            if token is not None:
                tenant_id, application_ids = users.get(token["userId"], (None, set()))
                if tenant_id is None or call.tenant_id not in {None, tenant_id}:
                    message = "The {} must name an existing user."
                    requested.add_errors(bulk_imports.error(_MANY, index, "invalid", "userId", message))
                elif token["applicationId"] not in application_ids:
                    message = "The {} must name an application that the user is registered for."
                    requested.add_errors(bulk_imports.error(_MANY, index, "invalid", "applicationId", message))
                elif (record := await _encode(services, call, tenant_id, token)) is not None:
                    encoded.append(record)
                    values.append((tenant_id, token["token"]))
            await cooperation.step()
    return encoded, values


async def _require_authority(
    services: Services, call: Call, users: Mapping[str, tuple[TenantId, Collection[str]]]
) -> None:
    """Raise Unauthorized for users of the caller's tenant who are administrators with more permissions."""
    for user_id, (tenant_id, application_ids) in users.items():
        if ADMINISTRATOR_APPLICATION_ID in application_ids and call.tenant_id in {None, tenant_id}:
            user = await services.directory.users.get(tenant_id, user_id)
            await administrators.require_authority(services, call, user)


async def _encode(services: Services, call: Call, tenant_id: TenantId, token: Document) -> bytes | None:
    """Return the encoded record, or None if the application or tenant is being deleted."""
    inserted = Instant(token.get("insertInstant", call.now))
    started = Instant(token.get("startInstant", inserted))
    record = {"id": new_id(), "data": {}, "private": {}, **token, "insertInstant": inserted, "startInstant": started}
    tenant = await services.configuration.tenants.find_cached(None, tenant_id)
    application = await services.configuration.applications.find_cached(tenant_id, token["applicationId"])
    if tenant is None or application is None:
        return None
    policy = security_profiles.refresh_policy(tenant, application)
    return services.tokens.refresh_tokens.encode(tenant_id, record, policy.expires(inserted, started))


async def _require_free(services: Services, values: Sequence[tuple[TenantId, str]], request: Document) -> None:
    """Raise Invalid for token values that exist, or NotImported without `validateDbConstraints`."""
    errors: list[FieldError] = []
    seen: set[tuple[TenantId, str]] = set()
    for start in range(0, len(values), _LOOK_UP_BATCH):
        some = values[start : start + _LOOK_UP_BATCH]
        existing = {
            (tenant_id, value)
            for tenant_id in {one for one, _ in some}
            for value in await services.tokens.refresh_tokens.find_existing_values(
                tenant_id, [v for one, v in some if one == tenant_id]
            )
        }
        for index, value in enumerate(some, start=start):
            if value in existing or value in seen:
                errors.append(bulk_imports.error(_MANY, index, "duplicate", "token", "The {} exists already."))
            seen.add(value)
    if errors and request["validateDbConstraints"]:
        raise Invalid(errors[: bulk_imports.MAXIMUM_ERRORS])
    if errors:
        raise NotImported(log_detail=f"an import contains duplicates: {errors[0].path}")
