"""Users in CSV and JSON files.

`/admin/users/import` imports them in batches, with the progress and the errors by line; `/admin/users/export.csv` and
`export.json` stream every user that the list finds. `/admin/users/<id>/data.json` is what is stored about one user.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import Any, Final

import orjson
import tornado.web
from tornado.httputil import HTTPHeaders

from identity.background_tasks import CooperativeYield
from identity.call import Call, Document
from identity.domain.users import user_files
from identity.domain.users.user_files import Row, UnreadableFileError
from identity.errors import Invalid
from identity.ids import new_id
from identity.operations.objects import csv_exports
from identity.services import Services
from identity.web import json_body
from identity.web.base_handlers import Route
from identity.web.console import layouts, navigation, render, uploads
from identity.web.console.handlers import administrator_of
from identity.web.console.listing import ListRequest
from identity.web.console.resource_forms import NewHandler
from identity.web.console.resource_handlers import TENANT_FIELD, TENANT_HEADER, ResourceHandler
from identity.web.console.uploads import MultipartForm
from identity.web.endpoint import Access, Endpoint, Method, Reply, Tenancy, endpoint
from identity.web.internal_requests import InternalResponse

_IMPORT_PATH: Final = "/admin/users/import"
_API: Final = "/api/user/import"
_SCHEMA: Final = "api/imported-user.json"
_BATCH: Final = 250
"""How many users one call of the API imports, all or none."""
_MAXIMUM_SHOWN: Final = 200
_EXPORT_PAGE: Final = 500
_INDEX: Final = re.compile(r"users\[(\d+)\]")


async def may_upload(services: Services, headers: HTTPHeaders) -> bool:
    """Return whether the session of a request belongs to an administrator who may import users."""
    found = await administrator_of(services, headers)
    return found is not None and navigation.may_call(found.authority, "POST", _API)


@tornado.web.stream_request_body
class UserImportHandler(NewHandler):
    """The form, and the streamed page that reports the progress. The file is kept on the disk meanwhile."""

    slug = "users"
    section = "users"

    def initialize(self, **arguments: Any) -> None:
        """Parse the multipart form, which the server does not. A malformed one has no CSRF token and is refused."""
        super().initialize(**arguments)
        self.upload = MultipartForm(self.request.headers.get("Content-Type", ""))
        if uploads.is_multipart(self.request):
            del self.request.headers["Content-Type"]

    def data_received(self, chunk: bytes) -> None:
        """Parse a part of the body."""
        self.upload.write(chunk)

    def on_finish(self) -> None:
        """Delete the file."""
        super().on_finish()
        self.upload.close()

    def on_connection_close(self) -> None:
        """Delete the part of a file that was not received to its end."""
        super().on_connection_close()
        if not self.upload.is_complete:
            self.upload.close()

    async def answer(self, declared: Endpoint, method: Method, path: Mapping[str, str]) -> Reply:
        """See the base class."""
        self.upload.finish()
        return await super().answer(declared, method, path)

    def form_values(self) -> dict[str, list[str]]:
        """Return the fields of the form."""
        return self.upload.fields

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer="text/html")
    async def get(self, call: Call) -> Reply:
        """Show the form."""
        return await self.import_page() if self.may("POST", _API) else self.forbidden()

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer="text/html")
    async def post(self, call: Call) -> Reply:
        """Import the users of the file, after it was read once to its end."""
        if not self.may("POST", _API):
            return self.forbidden()
        if "file" not in self.upload.files:
            return await self.import_page("Choose a file.")
        try:
            total = len([True async for _ in self.rows()])
        except UnreadableFileError as error:
            return await self.import_page(str(error))
        if not total:
            return await self.import_page("The file has no user.")
        mark = new_id()
        page = self.resource_page("import_progress.html", title="Import users", mark=mark)
        assert isinstance(page.body, bytes)
        before, _, after = page.body.partition(mark.encode())
        # nginx passes the pieces on at once.
        return Reply(pieces=self.imported(total, before, after), headers={**page.headers, "X-Accel-Buffering": "no"})

    async def rows(self) -> AsyncIterator[Row]:
        """Yield the users of the file. Raises UnreadableFileError."""
        members = self.services.schemas[_SCHEMA].schema["properties"]["user"]["properties"]
        cooperative = CooperativeYield()
        for row in user_files.read(self.upload.files["file"].content, members):
            await cooperative.step()
            _require_shallow(row)
            yield self.with_defaults(row)

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
            maximum_bytes=self.services.config.server.max_import_bytes,
            columns=user_files.COLUMNS,
        )

    def with_defaults(self, row: Row) -> Row:
        """Return a user who is active unless the file says otherwise, registered for the chosen application."""
        user = {"active": True, **row.user}
        application_id = self.field("applicationId")
        if application_id and "registrations" not in user:
            user["registrations"] = [{"applicationId": application_id}]
        return Row(row.place, user)

    async def imported(self, total: int, before: bytes, after: bytes) -> AsyncGenerator[bytes, None]:
        """Yield the page while the users are imported."""
        try:
            yield before
            done = refused = hidden = 0
            shown: list[tuple[str, str]] = []
            async for rows in _batches(self.rows()):
                problems = await self.import_batch(rows)
                done += len(rows)
                refused += len({place for place, _ in problems})
                added = problems[: _MAXIMUM_SHOWN - len(shown)]
                shown += added
                hidden += len(problems) - len(added)
                yield render.fragment("import_step.html", done=done, total=total)
            yield render.fragment(
                "import_result.html", imported=done - refused, refused=refused, problems=shown, hidden=hidden
            )
            yield after
        finally:
            self.upload.close()

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


def _require_shallow(row: Row) -> None:
    """Raise UnreadableFileError for a user that the API could not read."""
    try:
        json_body.require_shallow(orjson.dumps(row.user))
    except (Invalid, TypeError) as error:
        message = f"{row.place} is nested too deeply, or has a number that is too large."
        raise UnreadableFileError(message) from error


async def _batches(rows: AsyncIterator[Row]) -> AsyncIterator[list[Row]]:
    batch: list[Row] = []
    async for row in rows:
        batch.append(row)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


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


class UserExportHandler(ResourceHandler):
    """The file; a failure after its first part closes the connection, so that no incomplete file looks complete."""

    slug = "users"
    section = "users"
    file_type: str = ""

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer={200: "application/octet-stream"})
    async def get(self, call: Call) -> Reply:
        """Export."""
        given = {name: self.parameter(name) for name in self.request.query_arguments}
        request = ListRequest.of(self.layout, given)
        query = {**request.query(self.layout), "numberOfResults": _EXPORT_PAGE}
        tenant_id = request.tenant_id(self.layout)
        headers = {TENANT_HEADER: tenant_id} if tenant_id else {}
        first = await self.get_json(self.layout.search_path, query, headers=headers)
        rows = self.users(first, query, headers)
        is_csv = self.file_type == "csv"
        return Reply(
            pieces=_csv(rows) if is_csv else _json(rows),
            headers={
                "Content-Type": "text/csv; charset=utf-8" if is_csv else "application/json",
                "Content-Disposition": f'attachment; filename="users.{self.file_type}"',
            },
        )

    async def users(
        self, answer: Mapping[str, Any], query: Mapping[str, Any], headers: Mapping[str, str]
    ) -> AsyncIterator[list[Document]]:
        """Yield the pages of the search. Raises ApiError."""
        while found := answer["users"]:
            yield found
            if len(found) < _EXPORT_PAGE or "nextResults" not in answer:
                break
            following = {**query, "nextResults": answer["nextResults"]}
            answer = await self.get_json(self.layout.search_path, following, headers=dict(headers))


class UserDataHandler(ResourceHandler):
    """`/admin/users/<id>/data.json`: what is stored about a user, as a file."""

    slug = "users"
    section = "users"

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer={200: "application/octet-stream"})
    async def get(self, call: Call, object_id: str) -> Reply:
        """Export."""
        user = await self.load(object_id)
        headers = {TENANT_HEADER: user["tenantId"]}
        exported = await self.get_json(f"/api/user/data-export/{object_id}", headers=headers)
        return Reply(
            orjson.dumps(exported["userData"], option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS),
            headers={
                "Content-Type": "application/json",
                "Content-Disposition": f'attachment; filename="user-{object_id}.json"',
            },
        )


async def _csv(pages: AsyncIterator[list[Document]]) -> AsyncGenerator[bytes, None]:
    yield _lines([user_files.COLUMNS])
    async for users in pages:
        yield _lines([csv_exports.harmless_row(user_files.cells(user)) for user in users])


def _lines(rows: Any) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


async def _json(pages: AsyncIterator[list[Document]]) -> AsyncGenerator[bytes, None]:
    separator = b'{"users": [\n'
    async for users in pages:
        yield separator + b",\n".join(map(orjson.dumps, users))
        separator = b",\n"
    yield b"\n]}\n" if separator == b",\n" else separator + b"]}\n"


UPLOADS: Final = {_IMPORT_PATH: may_upload}
ROUTES = [
    *(Route(f"/admin/users/export.{kind}", UserExportHandler, {"file_type": kind}) for kind in ("csv", "json")),
    Route(_IMPORT_PATH, UserImportHandler),
    Route("/admin/users/{object_id}/data.json", UserDataHandler),
]
