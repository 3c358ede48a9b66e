"""Login records: who logged in when, from where and to what; written with the login, searched and exported.

One row for each completed login of whatever kind, each ping of the API, each exchange of a refresh token, and each
registration that gives a token. The use of a session makes one row a minute at the most: more often it is not noted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import IO, Any, Final

from identity.call import Call, Document
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
"""What can be asked for; the newest come first in any case."""

_RECENT: Final = SearchRules({"userId": "exact"}, {"instant": "instant"}, default="instant DESC")
_RECENT_ROWS: Final = 10
_ADDRESS_LENGTH: Final = 64


def new_record(
    services: Services, call: Call, user: Document, application_id: str | None, identity_type: str | None = None
) -> Document:
    """The record of a login that is made now; `identity_type` is the type of login id that was used, if one was."""
    info = event_info.of(call, services.geoip.find)
    login_ids = user_rules.login_ids(user)
    kind = identity_type if identity_type in login_ids else next(iter(login_ids), None)
    found: Document = {
        "applicationId": application_id,
        "instant": call.now,
        "ipAddress": info.get("ipAddress", "")[:_ADDRESS_LENGTH] or None,
        "location": info.get("location"),
        "loginId": None if kind is None else login_ids[kind],
        "loginIdType": kind,
        "userId": user["id"],
    }
    return {name: value for name, value in found.items() if value is not None}


async def add(
    services: Services,
    call: Call,
    user: Document,
    application_id: str | None,
    session: Session | None = None,
    *,
    identity_type: str | None = None,
) -> None:
    """Write the record of a login, in the transaction if there is one. It is there for good when this returns."""
    record = new_record(services, call, user, application_id, identity_type)
    await services.login_records.add(TenantId(user["tenantId"]), record, session)


async def search(
    services: Services, call: Call, criteria: Mapping[str, Any], prefix: str, *, with_total: bool
) -> Document:
    """`logins`, and `total` where it is asked for. Raises Invalid."""
    wanted = searches.read(SEARCH, criteria, prefix)
    total, rows = await services.login_records.search(call.tenant_id, wanted, with_total=with_total)
    counted = {} if total is None else {"total": total}
    return {"logins": [await to_response(services, found) for found in rows], **counted}


async def find_recent(
    services: Services, call: Call, user_id: str | None, offset: object, limit: object
) -> list[Document]:
    """The newest records, of a user or of all. Raises Invalid."""
    errors: list[FieldError] = []
    paging = {
        "startRow": _number("offset", offset, 0, errors),
        "numberOfResults": _number("limit", limit, _RECENT_ROWS, errors),
    }
    if errors:
        raise Invalid(errors)
    wanted = searches.read(_RECENT, {"userId": user_id, **paging}, "")
    _, rows = await services.login_records.search(call.tenant_id, wanted, with_total=False)
    return [await to_response(services, found) for found in rows]


EXPORT: Final = csv_exports.Kind(
    "login-record",
    (
        "instant", "userId", "loginId", "loginIdType", "applicationId", "applicationName", "ipAddress", "location",
        "tenantId",
    ),
    frozenset({"instant"}),
    SEARCH,
)  # fmt: skip
"""Login records as a file."""


async def export(services: Services, call: Call, wanted: Export) -> IO[bytes]:
    """The zip of every record that matches and that the caller's tenant may see. Whoever takes it closes it."""

    async def rows() -> AsyncIterator[Document]:
        async for found in services.login_records.iterate(call.tenant_id, wanted.query):
            yield {**await to_response(services, found), "tenantId": found["tenantId"]}

    return await csv_exports.export(wanted, rows())


async def to_response(services: Services, record: Document) -> Document:
    """A record as the API tells it, with the name that its application has now."""
    told = {name: value for name, value in record.items() if name != "tenantId"}
    if "applicationId" in record:
        application = await services.applications.find_cached(TenantId(record["tenantId"]), record["applicationId"])
        told |= {} if application is None else {"applicationName": application["name"]}
    return told


def _number(name: str, value: object, default: int, errors: list[FieldError]) -> int:
    number = default if value in {None, ""} else searches.whole_number(value)
    if number is None or not 0 <= number <= searches.MAXIMUM_RESULTS:
        message = f"The [{name}] value must be a whole number of at most {searches.MAXIMUM_RESULTS}."
        errors.append(FieldError.of("invalid", name, message))
        return default
    return number
