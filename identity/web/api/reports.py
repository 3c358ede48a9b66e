"""/api/report: counts of logins, active users, registrations, failed logins and issued tokens."""

from __future__ import annotations

from typing import Final

from identity.call import Call
from identity.operations.configuration import reports
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Query, Reply, Tenancy, endpoint

_REPORT: Final = "api/report.response.json"
_RANGE: Final[Query] = {"applicationId": "uuid", "end": "instant", "start": "instant"}
_LOGINS: Final[Query] = {**_RANGE, "loginId": "text", "loginIdTypes": "texts", "userId": "uuid"}


class LoginsHandler(ApiHandler):
    """Logins."""

    @endpoint(access=Access.API_KEY, tenancy=Tenancy.BY_KEY_AND_HEADER, query=_LOGINS, answer=_REPORT)
    async def get(self, call: Call) -> Reply:
        """Retrieve the counts by hour."""
        application_id, user_id = self.query_id("applicationId"), self.query_id("userId")
        found = await reports.logins(
            self.services,
            call,
            self.query(),
            application_id=application_id,
            user_id=user_id,
            login_id_types=self.texts("loginIdTypes"),
        )
        return Reply(found)


class DailyUsersHandler(ApiHandler):
    """Active users of days."""

    @endpoint(access=Access.API_KEY, tenancy=Tenancy.AS_NAMED, query=_RANGE, answer=_REPORT)
    async def get(self, call: Call) -> Reply:
        """Retrieve the counts by day."""
        application_id = self.query_id("applicationId")
        return Reply(await reports.active_users(self.services, call, self.query(), application_id, "day"))


class MonthlyUsersHandler(ApiHandler):
    """Active users of months."""

    @endpoint(access=Access.API_KEY, tenancy=Tenancy.AS_NAMED, query=_RANGE, answer=_REPORT)
    async def get(self, call: Call) -> Reply:
        """Retrieve the counts by month."""
        application_id = self.query_id("applicationId")
        return Reply(await reports.active_users(self.services, call, self.query(), application_id, "month"))


class RegistrationsHandler(ApiHandler):
    """Registrations."""

    @endpoint(access=Access.API_KEY, tenancy=Tenancy.AS_NAMED, query=_RANGE, answer=_REPORT)
    async def get(self, call: Call) -> Reply:
        """Retrieve the counts by hour."""
        application_id = self.query_id("applicationId")
        return Reply(await reports.registrations(self.services, call, self.query(), application_id))


class ActivitiesHandler(ApiHandler):
    """Failed logins and issued tokens."""

    @endpoint(
        access=Access.API_KEY,
        tenancy=Tenancy.AS_NAMED,
        query={"end": "instant", "start": "instant"},
        answer="api/report-activity.response.json",
    )
    async def get(self, call: Call) -> Reply:
        """Retrieve the counts by day in UTC."""
        return Reply(await reports.activities(self.services, call, self.query()))


class TotalsHandler(ApiHandler):
    """Totals."""

    @endpoint(
        access=Access.API_KEY,
        tenancy=Tenancy.AS_NAMED,
        query={"excludes": "texts"},
        answer="api/report-totals.response.json",
    )
    async def get(self, call: Call) -> Reply:
        """Retrieve the totals; `excludes=applicationTotals` leaves the applications out."""
        excluded = {name for text in self.texts("excludes") for name in text.split(",")}
        with_applications = "applicationTotals" not in excluded
        return Reply(await reports.totals(self.services, call, with_applications=with_applications))


ROUTES = [
    Route("/api/report/login", LoginsHandler),
    Route("/api/report/daily-active-user", DailyUsersHandler),
    Route("/api/report/monthly-active-user", MonthlyUsersHandler),
    Route("/api/report/registration", RegistrationsHandler),
    Route("/api/report/activity", ActivitiesHandler),
    Route("/api/report/totals", TotalsHandler),
]
