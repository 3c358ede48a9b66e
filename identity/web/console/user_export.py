"""`/admin/users/export.csv` and `/admin/users/export.json`: every user that the list finds, streamed."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any, Final

import orjson

from identity.call import Call, Document
from identity.domain.users import user_files
from identity.operations.objects import csv_exports
from identity.web.base_handlers import Route
from identity.web.console.listing import ListRequest
from identity.web.console.resource_handlers import TENANT_HEADER, ResourceHandler
from identity.web.endpoint import Access, Reply, Tenancy, endpoint

_PAGE: Final = 500


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
        query = {**request.query(self.layout), "numberOfResults": _PAGE}
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
            if len(found) < _PAGE or "nextResults" not in answer:
                break
            following = {**query, "nextResults": answer["nextResults"]}
            answer = await self.get_json(self.layout.search_path, following, headers=dict(headers))


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


ROUTES = [Route(f"/admin/users/export.{kind}", UserExportHandler, {"file_type": kind}) for kind in ("csv", "json")]
