"""`/admin` and `/admin/reports`: the state of the instance at a glance, and its counts over time."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from identity import config
from identity.call import Call, Document
from identity.domain.configuration import tenants as tenant_rules
from identity.instants import as_datetime, later
from identity.tokens import certificates
from identity.web.base_handlers import Route
from identity.web.console.handlers import ConsoleHandler
from identity.web.endpoint import Access, Reply, Tenancy, endpoint

_DAYS: Final = 14
_CHOICES: Final = (7, 14, 30, 90, 365)
_EXPIRY_DAYS: Final = 30
_REPORTS: Final = (
    ("Logins", "/api/report/login", "hourlyCounts", 1),
    ("Registrations", "/api/report/registration", "hourlyCounts", 1),
    ("Active users", "/api/report/daily-active-user", "dailyActiveUsers", 24),
)
"""Title, path, list and hours per interval of each report."""
_WITH_CERTIFICATES: Final = (
    ("/api/webhook/search", "webhooks", "webhooks"),
    ("/api/identity-provider/search", "identityProviders", "identity-providers"),
)
_ACTIVITY: Final = "/api/report/activity"
_TOKEN: Final = "token."  # noqa: S105 (a prefix)
_LAG: Final = re.compile(r"^identity_webhook_(deliveries_due|oldest_due_seconds) ([0-9.e+]+)$", re.MULTILINE)


_HEIGHT: Final = 100
_WIDTH: Final = 400
_GAP: Final = 0.25


@dataclasses.dataclass(frozen=True, slots=True)
class Bar:
    """One bar, in the units of the view box; `label` is its tooltip."""

    x: float
    y: float
    width: float
    height: float
    label: str


@dataclasses.dataclass(frozen=True, slots=True)
class Chart:
    """A chart: its title, the sum of its values, its bars, and the text for screen readers."""

    title: str
    total: int
    bars: Sequence[Bar]
    summary: str
    view_box: str = f"0 0 {_WIDTH} {_HEIGHT}"


def by_day(counts: Iterable[Mapping[str, Any]], unit_hours: int, days: Sequence[datetime.date]) -> list[int]:
    """Return the count of each day, of counts by hour or by day since 1970."""
    found: dict[datetime.date, int] = {}
    epoch = datetime.date(1970, 1, 1)
    for entry in counts:
        day = epoch + datetime.timedelta(days=entry["interval"] * unit_hours // 24)
        found[day] = found.get(day, 0) + entry["count"]
    return [found.get(day, 0) for day in days]


def chart(title: str, values: Sequence[int], days: Sequence[datetime.date]) -> Chart:
    """Return the chart of one value per day."""
    highest = max(values, default=0)
    step = _WIDTH / max(len(values), 1)
    bars = []
    for index, (value, day) in enumerate(zip(values, days, strict=True)):
        height = round(value / highest * (_HEIGHT - 4), 1) if highest else 0
        label = f"{day.isoformat()}: {value}"
        bars.append(Bar(round(index * step, 1), _HEIGHT - height, round(step * (1 - _GAP), 1), height, label))
    summed = sum(values)
    span = f"{days[0].isoformat()} to {days[-1].isoformat()}" if days else ""
    return Chart(title, summed, bars, f"{title}: {summed} from {span}, at most {highest} a day")


class OverviewHandler(ConsoleHandler):
    """Reads the reports."""

    async def reports(self, call: Call, days: int, application_id: str = "") -> list[Chart]:
        """Return the charts of the reports that this administrator may read."""
        today = as_datetime(call.now).date()
        dates = [today - datetime.timedelta(days=days - 1 - number) for number in range(days)]
        query: dict[str, Any] = {"start": later(call.now, seconds=-86_400 * (days - 1)), "end": call.now}
        if application_id:
            query["applicationId"] = application_id
        found = []
        for title, path, name, hours in _REPORTS:
            if self.may("GET", path):
                answer = await self.find_json(path, query)
                values = by_day(answer.get(name, []), hours, dates)
                found.append(chart(title, values, dates))
        return found

    async def activities(self, call: Call, days: int) -> tuple[list[Chart], list[tuple[str, int]]]:
        """Return the charts of failed logins and tokens, and the number of token responses by grant."""
        if not self.may("GET", _ACTIVITY):
            return [], []
        today = as_datetime(call.now).date()
        dates = [today - datetime.timedelta(days=days - 1 - number) for number in range(days)]
        query = {"start": later(call.now, seconds=-86_400 * (days - 1)), "end": call.now}
        failed, tokens, grants = [], [], collections.Counter[str]()
        for row in (await self.find_json(_ACTIVITY, query)).get("dailyActivities", []):
            issued = {name.removeprefix(_TOKEN): count for name, count in row["counts"].items() if _TOKEN in name}
            grants.update(issued)
            failed.append({"interval": row["interval"], "count": row["counts"].get("login.failed", 0)})
            tokens.append({"interval": row["interval"], "count": sum(issued.values())})
        shown = (("Failed logins", failed), ("Tokens", tokens))
        found = [chart(title, by_day(counts, 24, dates), dates) for title, counts in shown]
        return found, grants.most_common()

    async def count(self, path: str, name: str, query: Mapping[str, Any] | None = None) -> int | None:
        """Return how many objects a search finds; None if it is not permitted."""
        if not self.may("GET", path):
            return None
        answer = await self.find_json(path, {"numberOfResults": "1", **(query or {})})
        total = answer.get("total")
        return total if isinstance(total, int) else len(answer.get(name, []))


class HomeHandler(OverviewHandler):
    """The first page after the sign-in."""

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer="text/html")
    async def get(self, call: Call) -> Reply:
        """Show the page."""
        counted = (
            ("Users", "/admin/users", await self.count("/api/user/search", "users", {"queryString": "*"})),
            ("Applications", "/admin/applications", await self.count("/api/application/search", "applications")),
            ("Tenants", "/admin/tenants", await self.count("/api/tenant/search", "tenants")),
        )
        activity, grants = await self.activities(call, _DAYS)
        return self.page(
            "home.html",
            title="Home",
            charts=[*await self.reports(call, _DAYS), *activity],
            grants=grants,
            days=_DAYS,
            totals=[row for row in counted if row[2] is not None],
            warnings=await self.warnings(),
            webhooks=await self.webhooks(),
            expiring=await self.expiring(call),
        )

    async def warnings(self) -> list[tuple[str, str]]:
        """Return what should be changed before the service is used in production, with the page to change it on."""
        found = [(text, "") for text in config.warnings(self.services.config)]
        if self.services.config.server.base_url is None:
            found.append(("server.base_url is not set: issuers and links follow the Host header of requests.", ""))
        tenants = (await self.find_json("/api/tenant/search", {"numberOfResults": "50"})).get("tenants", [])
        for tenant in tenants if self.may("PATCH", "/api/tenant") else []:
            found += [(text, f"/admin/tenants/{tenant['id']}/edit") for text in _tenant_warnings(tenant)]
        return found

    async def webhooks(self) -> Document | None:
        """Return the webhooks that do not deliver, and the delay of deliveries; None if that is not permitted."""
        if not self.may("GET", "/api/webhook/search"):
            return None
        answer = await self.find_json("/api/webhook/search", {"numberOfResults": "200"})
        listed = answer.get("webhooks", [])
        metrics: dict[str, float] = {}
        if self.may("GET", "/api/prometheus/metrics"):
            response = await self.call_api("GET", "/api/prometheus/metrics")
            text = response.body.decode("utf-8", "replace") if response.is_success else ""
            metrics = {name: float(value) for name, value in _LAG.findall(text)}
        return {
            "total": answer.get("total", 0),
            "stopped": [webhook for webhook in listed if webhook.get("status")],
            "due": int(metrics.get("deliveries_due", 0)),
            "lag_seconds": round(metrics.get("oldest_due_seconds", 0)),
        }

    async def expiring(self, call: Call) -> list[tuple[str, str, int]]:
        """Return the keys, API keys and certificates that expire soon: name, path and instant."""
        found = []
        limit = later(call.now, seconds=86_400 * _EXPIRY_DAYS)
        for path, name, screen in (("/api/key/search", "keys", "keys"), ("/api/api-key/search", "apiKeys", "api-keys")):
            if not self.may("GET", path):
                continue
            for key in (await self.find_json(path, {"numberOfResults": "500"})).get(name, []):
                if key.get("expirationInstant") is not None and key["expirationInstant"] < limit:
                    label = key.get("name") or key["id"]
                    found.append((label, f"/admin/{screen}/{key['id']}", key["expirationInstant"]))
        found += [row for row in await self.certificates() if row[2] < limit]
        return sorted(found, key=lambda row: row[2])

    async def certificates(self) -> list[tuple[str, str, int]]:
        """Return the certificates that webhooks and identity providers contain: name, path and instant of expiry.

        Most refer to keys instead, which expire with their certificates.
        """
        found: list[tuple[str, str, int]] = []
        for path, name, screen in _WITH_CERTIFICATES:
            if not self.may("GET", path):
                continue
            for row in (await self.find_json(path, {"numberOfResults": "200"})).get(name, []):
                label = row.get("name") or row.get("description") or row.get("url")
                expiries = map(certificates.first_expiry, await self.certificates_of(row))
                found += [(label, f"/admin/{screen}/{row['id']}", expiry) for expiry in expiries if expiry is not None]
        return found

    async def certificates_of(self, row: Document) -> list[str]:
        """Return the certificates of a webhook or an identity provider. The API does not return those of providers."""
        if row.get("type") != "ExternalJWT":
            return list(filter(None, [row.get("sslCertificate")]))
        provider = await self.services.configuration.identity_providers.find_cached(None, row["id"])
        return list((provider or {}).get("keys", {}).values())


class ReportsHandler(OverviewHandler):
    """Logins, registrations and active users over time."""

    section = "reports"

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer="text/html")
    async def get(self, call: Call) -> Reply:
        """Show the charts of a period, of all applications or one."""
        chosen = self.parameter("days")
        days = int(chosen) if chosen in map(str, _CHOICES) else 30
        answer = await self.find_json("/api/application/search", {"numberOfResults": "200"})
        applications = [(each["id"], each["name"]) for each in answer.get("applications", [])]
        application_id = self.parameter("applicationId")
        application_id = application_id if application_id in dict(applications) else ""
        activity = [] if application_id else (await self.activities(call, days))[0]
        return self.page(
            "reports.html",
            title="Reports",
            charts=[*await self.reports(call, days, application_id), *activity],
            days=days,
            choices=_CHOICES,
            applications=applications,
            application_id=application_id,
            months=await self.months(call, application_id),
        )

    async def months(self, call: Call, application_id: str) -> Sequence[tuple[str, int]]:
        """Return the active users of the last months."""
        if not self.may("GET", "/api/report/monthly-active-user"):
            return []
        query: dict[str, Any] = {"start": later(call.now, seconds=-86_400 * 365), "end": call.now}
        if application_id:
            query["applicationId"] = application_id
        answer = await self.find_json("/api/report/monthly-active-user", query)
        return [
            (f"{1970 + entry['interval'] // 12}-{entry['interval'] % 12 + 1:02}", entry["count"])
            for entry in answer.get("monthlyActiveUsers", [])
        ]


def _tenant_warnings(tenant: Document) -> list[str]:
    """Return what a tenant still has of its defaults."""
    found = []
    if tenant["issuer"] == tenant_rules.DEFAULT_ISSUER:
        found.append(f"The tenant {tenant['name']} has the default issuer {tenant['issuer']}.")
    if not tenant["emailConfiguration"].get("username") and tenant["emailConfiguration"].get("host") == "localhost":
        found.append(f"The tenant {tenant['name']} has no mail server, so that it sends no email.")
    return found


ROUTES = [Route("/admin", HomeHandler), Route("/admin/reports", ReportsHandler)]
