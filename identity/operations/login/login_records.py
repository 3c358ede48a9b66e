"""Login records: user, time, address and application of each login; searchable and exported as CSV.

There is one row per completed login of any kind, API ping, refresh token exchange, and registration that issues a
token. The use of an SSO session adds at most one row a minute.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import IO, Any, Final

from identity.call import Call, Document
from identity.domain.login.client_risk import ClientRisk
from identity.domain.objects import event_info
from identity.domain.objects import search as searches
from identity.domain.objects.resource_definition import SearchRules
from identity.domain.users import users as user_rules
from identity.errors import FieldError, Invalid
from identity.ids import TenantId
from identity.operations.objects import csv_exports
from identity.operations.objects.csv_exports import Export
from identity.services import Services
from identity.store.mongo import Session

SEARCH: Final = SearchRules(
    {"applicationId": "exact", "userId": "exact", "start": "from", "end": "until"},
    {"instant": "instant"},
    default="instant DESC",
    members={"start": "instant", "end": "instant"},
)
"""The search criteria of the API; sorted by instant, newest first, by default."""

_RECENT: Final = SearchRules({"userId": "exact"}, {"instant": "instant"}, default="instant DESC")
_RECENT_ROWS: Final = 10
_ADDRESS_LENGTH: Final = 64


def new_record(
    services: Services,
    call: Call,
    user: Document,
    application_id: str | None,
    identity_type: str | None = None,
    risk: ClientRisk | None = None,
) -> Document:
    """Return the record of a login at `call.now`; `identity_type` is the login id type, `risk` the assessed risk."""
    info = event_info.build(call, services.runtime.geoip.find)
    login_ids = user_rules.login_ids(user)
    kind = identity_type if identity_type in login_ids else next(iter(login_ids), None)
    record: Document = {
        "applicationId": application_id,
        "clientRisk": None if risk is None else risk.level.name,
        "instant": call.now,
        "ipAddress": info.get("ipAddress", "")[:_ADDRESS_LENGTH] or None,
        "location": info.get("location"),
        "loginId": None if kind is None else login_ids[kind],
        "loginIdType": kind,
        "riskReasons": None if risk is None else risk.reasons or None,
        "userId": user["id"],
    }
    return {name: value for name, value in record.items() if value is not None}


async def add(
    services: Services,
    call: Call,
    user: Document,
    application_id: str | None,
    session: Session | None = None,
    *,
    identity_type: str | None = None,
    risk: ClientRisk | None = None,
) -> None:
    """Store the record of a login, in the transaction if there is one."""
    record = new_record(services, call, user, application_id, identity_type, risk)
    await services.logs.login_records.add(TenantId(user["tenantId"]), record, session)


async def search(
    services: Services, call: Call, criteria: Mapping[str, Any], prefix: str, *, with_total: bool
) -> Document:
    """Return a page of `logins`, and `total` if requested. Raises Invalid."""
    query = searches.read(SEARCH, criteria, prefix)
    total, rows = await services.logs.login_records.search(call.tenant_id, query, with_total=with_total)
    total_member = {} if total is None else {"total": total}
    return {"logins": [await to_response(services, record) for record in rows], **total_member}


async def find_recent(
    services: Services, call: Call, user_id: str | None, offset: object, limit: object
) -> list[Document]:
    """Return the newest records, of one user or of all. Raises Invalid."""
    errors: list[FieldError] = []
    paging = {
        "startRow": _number("offset", offset, 0, errors),
        "numberOfResults": _number("limit", limit, _RECENT_ROWS, errors),
    }
    if errors:
        raise Invalid(errors)
    query = searches.read(_RECENT, {"userId": user_id, **paging}, "")
    _, rows = await services.logs.login_records.search(call.tenant_id, query, with_total=False)
    return [await to_response(services, record) for record in rows]


EXPORT: Final = csv_exports.Kind(
    "login-record",
    (
        "instant", "userId", "loginId", "loginIdType", "applicationId", "applicationName", "ipAddress", "location",
        "tenantId",
    ),
    frozenset({"instant"}),
    SEARCH,
)  # fmt: skip
"""The CSV export of login records."""


async def export(services: Services, call: Call, request: Export) -> IO[bytes]:
    """Return a zip of every matching record that is visible to the caller. The caller closes it."""
    return await csv_exports.export(request, _export_rows(services, call, request))


async def _export_rows(services: Services, call: Call, request: Export) -> AsyncIterator[Document]:
    async for record in services.logs.login_records.iterate(call.tenant_id, request.query):
        yield {**await to_response(services, record), "tenantId": record["tenantId"]}


async def to_response(services: Services, record: Document) -> Document:
    """Return a record as in API responses, with the current name of its application."""
    response = {name: value for name, value in record.items() if name != "tenantId"}
    if "applicationId" in record:
        application = await services.configuration.applications.find_cached(
            TenantId(record["tenantId"]), record["applicationId"]
        )
        response |= {} if application is None else {"applicationName": application["name"]}
    return response


def _number(name: str, value: object, default: int, errors: list[FieldError]) -> int:
    number = default if value in {None, ""} else searches.whole_number(value)
    if number is None or not 0 <= number <= searches.MAXIMUM_RESULTS:
        errors.append(FieldError.invalid(name, f"value must be a whole number of at most {searches.MAXIMUM_RESULTS}"))
        return default
    return number
