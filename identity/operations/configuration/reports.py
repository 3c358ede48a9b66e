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
from identity.instants import Instant, as_datetime
from identity.operations.objects import crud
from identity.services import Services
from identity.store.activity import ReportRange, Unit

_EPOCH = datetime.date(1970, 1, 1)
_MOST_DAYS = 400


async def logins(
    services: Services,
    call: Call,
    query: Mapping[str, Any],
    *,
    application_id: str | None,
    user_id: str | None,
    login_id_types: list[str],
) -> Document:
    """Return logins per hour since 1970 in UTC, optionally of one application or user. Raises Invalid."""
    days = _range(services, query, "hour")
    where = _application_filter(application_id)
    if user_id is None and (login_id := query.get("loginId")):
        types = login_id_types or user_rules.LOGIN_ID_TYPES
        user = await services.directory.users.find_by_login_id(crud.require_tenant(call), login_id, types)
        if user is None:
            return _report("hourlyCounts", [])
        user_id = user["id"]
    if user_id is not None:
        where["userId"] = user_id
    return _report("hourlyCounts", await services.logs.report_counts.logins(call.tenant_id, days, where))


async def active_users(
    services: Services, call: Call, query: Mapping[str, Any], application_id: str | None, unit: Unit
) -> Document:
    """Return users who logged in per day or month since 1970 in the report time zone. Raises Invalid."""
    days, where = _range(services, query, unit), _application_filter(application_id)
    found = await services.logs.report_counts.logins(call.tenant_id, days, where, users=True)
    return _report("dailyActiveUsers" if unit == "day" else "monthlyActiveUsers", found)


async def registrations(
    services: Services, call: Call, query: Mapping[str, Any], application_id: str | None
) -> Document:
    """Return new registrations per hour since 1970 in UTC. Raises Invalid."""
    days = _range(services, query, "hour")
    found = await services.logs.report_counts.registrations(call.tenant_id, days, application_id)
    return _report("hourlyCounts", found)


async def activities(services: Services, call: Call, query: Mapping[str, Any]) -> Document:
    """Return failed logins and token responses by grant, per day since 1970 in UTC. Raises Invalid."""
    found = _range(services, query, "hour")
    first, end = as_datetime(found.start).date(), as_datetime(found.end).date()
    days = [first + datetime.timedelta(days=number) for number in range(min((end - first).days + 1, _MOST_DAYS))]
    counts = await services.logs.activity_counts.by_day(call.tenant_id, [day.isoformat() for day in days])
    return {
        "dailyActivities": [
            {"interval": (day - _EPOCH).days, "counts": of_day}
            for day, of_day in zip(days, counts, strict=True)
            if of_day
        ]
    }


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


def _application_filter(application_id: str | None) -> Document:
    return {} if application_id is None else {"applicationId": application_id}
