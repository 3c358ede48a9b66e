"""`/admin/users/import`: users from a CSV or JSON file, in batches, with the progress and the errors by line."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final

from tornado import httputil

from identity.call import Call
from identity.domain.users import user_files
from identity.domain.users.user_files import Row, UnreadableFileError
from identity.ids import new_id
from identity.web.base_handlers import Route
from identity.web.console import layouts, render
from identity.web.console.resources import TENANT_FIELD, TENANT_HEADER, NewHandler
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.internal_requests import InternalResponse

_API: Final = "/api/user/import"
_SCHEMA: Final = "api/imported-user.json"
_BATCH: Final = 250
"""How many users one call of the API imports, all or none."""
_MAXIMUM_SHOWN: Final = 200
_PARTS: Final = httputil.ParseMultipartConfig(max_parts=10)
_INDEX: Final = re.compile(r"users\[(\d+)\]")


class UserImportHandler(NewHandler):
    """The form, and the streamed page that reports the progress."""

    slug = "users"
    section = "users"

    def initialize(self, **arguments: Any) -> None:
        """Read the multipart form, which the server does not parse. A malformed one is refused as any other."""
        super().initialize(**arguments)
        self.received: dict[str, list[bytes]] = {}
        kind, _, boundary = self.request.headers.get("Content-Type", "").partition("boundary=")
        if not kind.startswith("multipart/form-data"):
            return
        files: dict[str, list[httputil.HTTPFile]] = {}
        try:
            httputil.parse_multipart_form_data(
                boundary.encode(), self.request.body, self.received, files, config=_PARTS
            )
        except httputil.HTTPInputError:
            return
        self.received |= {name: [file.body for file in found] for name, found in files.items()}
        del self.request.headers["Content-Type"]

    def form_values(self) -> dict[str, list[str]]:
        """Return the fields of the form; the file is one of them."""
        return {
            name: [value.decode("utf-8-sig", "replace") for value in found] for name, found in self.received.items()
        }

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer="text/html")
    async def get(self, call: Call) -> Reply:
        """Show the form."""
        return await self.import_page() if self.may("POST", _API) else self.forbidden()

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer="text/html")
    async def post(self, call: Call) -> Reply:
        """Import the users of the file."""
        if not self.may("POST", _API):
            return self.forbidden()
        members = self.services.schemas[_SCHEMA].schema["properties"]["user"]["properties"]
        try:
            rows = [self.with_defaults(row) for row in user_files.read(self.field("file"), members)]
        except UnreadableFileError as error:
            return await self.import_page(str(error))
        if not rows:
            return await self.import_page("The file has no user.")
        mark = new_id()
        page = self.resource_page("import_progress.html", title="Import users", mark=mark)
        assert isinstance(page.body, bytes)
        before, _, after = page.body.partition(mark.encode())
        return Reply(pieces=self.imported(rows, before, after), headers=page.headers)

    async def import_page(self, message: str = "") -> Reply:
        """Return the form."""
        return self.resource_page(
            "import.html",
            400 if message else 200,
            title="Import users",
            message=message,
            tenants=await self.tenants(),
            tenant_id=self.field(TENANT_FIELD),
            applications=await self.choices(layouts.load("applications")) or [],
            application_id=self.field("applicationId"),
            maximum_bytes=self.services.config.server.max_body_bytes,
            columns=user_files.COLUMNS,
        )

    def with_defaults(self, row: Row) -> Row:
        """Return a user who is active unless the file says otherwise, registered for the chosen application."""
        user = {"active": True, **row.user}
        application_id = self.field("applicationId")
        if application_id and "registrations" not in user:
            user["registrations"] = [{"applicationId": application_id}]
        return Row(row.place, user)

    async def imported(self, rows: Sequence[Row], before: bytes, after: bytes) -> AsyncGenerator[bytes, None]:
        """Yield the page while the users are imported."""
        yield before
        problems: list[tuple[str, str]] = []
        for start in range(0, len(rows), _BATCH):
            problems += await self.import_batch(rows[start : start + _BATCH])
            done = min(start + _BATCH, len(rows))
            yield render.fragment("import_step.html", done=done, total=len(rows))
        places = {place for place, _ in problems}
        yield render.fragment(
            "import_result.html",
            imported=len(rows) - len(places),
            refused=len(places),
            problems=problems[:_MAXIMUM_SHOWN],
            hidden=max(0, len(problems) - _MAXIMUM_SHOWN),
        )
        yield after

    async def import_batch(self, rows: Sequence[Row]) -> list[tuple[str, str]]:
        """Import all valid users of a batch; return the errors of the others by place.

        The API imports all users of a call or none, so that those with errors are removed and the rest is sent again.
        """
        problems: list[tuple[str, str]] = []
        tenant_id = self.field(TENANT_FIELD)
        while rows:
            body = {"users": [row.user for row in rows], "validateDbConstraints": True}
            headers = {TENANT_HEADER: tenant_id} if tenant_id else {}
            response = await self.call_api("POST", _API, body=body, headers=headers)
            if response.is_success:
                break
            found = _problems(response)
            invalid = {index for index, _ in found if index is not None}
            if not invalid:
                message = found[0][1] if found else f"The API answered with the status {response.status}."
                return [*problems, *((row.place, message) for row in rows)]
            problems += [(rows[index].place, message) for index, message in found if index is not None]
            rows = [row for index, row in enumerate(rows) if index not in invalid]
        return problems


def _problems(response: InternalResponse) -> list[tuple[int | None, str]]:
    """Return the errors of a response with the index of the user, or None."""
    if not response.body:
        return []
    body = response.json()
    found: list[tuple[int | None, str]] = []
    for path, errors in body.get("fieldErrors", {}).items():
        match = _INDEX.match(path)
        index = None if match is None else int(match[1])
        found += [(index, _INDEX.sub("user", error["message"])) for error in errors]
    return [*found, *((None, error["message"]) for error in body.get("generalErrors", []))]


ROUTES = [Route("/admin/users/import", UserImportHandler)]
