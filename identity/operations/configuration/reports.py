"""Reports of logins, active users and registrations, counted from stored records.

A report covers whole days, from that of its start to that of its end, in the report time zone of the system
configuration. Deleted records, such as those of deleted users, are not counted.
"""

from __future__ import annotations

import datetime
import zoneinfo
from collections.abc import Mapping
from typing import Any

from identity.call import Call, Document
from identity.domain.objects import search as searches
from identity.domain.users import users as user_rules
from identity.errors import FieldError, Invalid
from identity.ids import parse_id
from identity.instants import Instant, as_datetime
from identity.operations.objects import crud
from identity.services import Services
from identity.store.report_counts import ReportRange, Unit

_EPOCH = datetime.date(1970, 1, 1)


async def logins(services: Services, call: Call, query: Mapping[str, Any], types: list[str]) -> Document:
    """Return logins per hour since 1970 in UTC, optionally of one application or user. Raises Invalid."""
    days = _range(services, query, "hour")
    where = {**_application(query), **await _user(services, call, query, types)}
    if where.get("userId", "") is None:
        return _report("hourlyCounts", [])
    return _report("hourlyCounts", await services.logs.report_counts.logins(call.tenant_id, days, where))


async def daily_users(services: Services, call: Call, query: Mapping[str, Any]) -> Document:
    """Return users who logged in per day since 1970 in the report time zone. Raises Invalid."""
    days = _range(services, query, "day")
    found = await services.logs.report_counts.logins(call.tenant_id, days, _application(query), users=True)
    return _report("dailyActiveUsers", found)


async def monthly_users(services: Services, call: Call, query: Mapping[str, Any]) -> Document:
    """Return users who logged in per month since 1970 in the report time zone. Raises Invalid."""
    days = _range(services, query, "month")
    found = await services.logs.report_counts.logins(call.tenant_id, days, _application(query), users=True)
    return _report("monthlyActiveUsers", found)


async def registrations(services: Services, call: Call, query: Mapping[str, Any]) -> Document:
    """Return new registrations per hour since 1970 in UTC. Raises Invalid."""
    days = _range(services, query, "hour")
    application_id = _application(query).get("applicationId")
    return _report(
        "hourlyCounts", await services.logs.report_counts.registrations(call.tenant_id, days, application_id)
    )


async def totals(services: Services, call: Call, *, with_applications: bool) -> Document:
    """Return the number of users, and of logins and registrations per application."""
    users = await services.logs.report_counts.users(call.tenant_id)
    response: Document = {"globalRegistrations": users, "totalGlobalRegistrations": users}
    if not with_applications:
        return response
    logins_of = await services.logs.report_counts.logins_by_application(call.tenant_id)
    registered = await services.logs.report_counts.registrations_by_application(call.tenant_id)
    response["applicationTotals"] = {
        application_id: {
            "logins": logins_of.get(application_id, 0),
            "registrations": registered.get(application_id, 0),
            "totalRegistrations": registered.get(application_id, 0),
        }
        for application_id in sorted({*logins_of, *registered})
    }
    return response


def _report(name: str, counts: list[Document]) -> Document:
    return {name: counts, "total": sum(one["count"] for one in counts)}


def _range(services: Services, query: Mapping[str, Any], unit: Unit) -> ReportRange:
    """Return the days that a report covers. Raises Invalid."""
    errors: list[FieldError] = []
    start, end = (_day(services, query, name, errors) for name in ("start", "end"))
    if start is None or end is None or errors:
        raise Invalid(errors)
    zone = _zone(services)
    counted_in = zoneinfo.ZoneInfo("UTC") if unit == "hour" else zone
    after = end + datetime.timedelta(days=1)
    return ReportRange(
        _midnight(start, zone), _midnight(after, zone), unit, _midnight(_EPOCH, counted_in), counted_in.key
    )


def _day(services: Services, query: Mapping[str, Any], name: str, errors: list[FieldError]) -> datetime.date | None:
    value = query.get(name)
    if not value:
        errors.append(FieldError.of("missing", name, f"You must specify the [{name}] parameter."))
        return None
    number = searches.whole_number(value)
    try:
        if number is not None:
            return as_datetime(Instant(number)).astimezone(_zone(services)).date()
    except (OverflowError, ValueError, OSError):
        pass
    errors.append(FieldError.of("couldNotConvert", name, f"The [{name}] parameter must be an instant."))
    return None


def _midnight(day: datetime.date, zone: zoneinfo.ZoneInfo) -> Instant:
    moment = datetime.datetime.combine(day, datetime.time(), zone)
    return Instant(round(moment.timestamp() * 1000))


def _zone(services: Services) -> zoneinfo.ZoneInfo:
    return zoneinfo.ZoneInfo(services.configuration.system.settings.report_timezone)


def _application(query: Mapping[str, Any]) -> Document:
    value = query.get("applicationId")
    return {"applicationId": _uuid("applicationId", value)} if value else {}


async def _user(services: Services, call: Call, query: Mapping[str, Any], types: list[str]) -> Document:
    """Return the filter by user: None as the id for an unknown login id, empty for all users."""
    if user_id := query.get("userId"):
        return {"userId": _uuid("userId", user_id)}
    login_id = query.get("loginId")
    if not login_id:
        return {}
    tenant_id = crud.require_tenant(call)
    user = await services.directory.users.find_by_login_id(tenant_id, login_id, types or user_rules.LOGIN_ID_TYPES)
    return {"userId": None if user is None else user["id"]}


def _uuid(name: str, value: object) -> str:
    found = parse_id(value)
    if found is None:
        raise Invalid.field("couldNotConvert", name, f"The [{name}] parameter must be a UUID.")
    return found
