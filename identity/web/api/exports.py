"""Exports of logs as zipped CSV files, by query parameters or by a JSON body."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import IO

from identity.call import Call, Document
from identity.domain.objects import search as searches
from identity.operations.objects import csv_exports
from identity.services import Services
from identity.web.base_handlers import ApiHandler, Route
from identity.web.crud import criteria_of
from identity.web.endpoint import Access, Endpoint, Query, Reply, Tenancy, endpoint

Make = Callable[[Services, Call, csv_exports.Export], Awaitable[IO[bytes]]]
_PIECE_BYTES = 65_536


class ExportHandler(ApiHandler):
    """The export of one log."""

    kind: csv_exports.Kind
    make: Make
    schema: str
    criteria_names: Sequence[str]
    """The accepted names of the criteria in a body, the published one last."""

    def query_of(self, declared: Endpoint) -> Query:
        """Return the search parameters of the log and the query parameters of the method."""
        return {**searches.parameters(self.kind.search), **super().query_of(declared)}

    @endpoint(
        access=Access.API_KEY,
        query={"dateTimeSecondsFormat": "text", "zoneId": "text"},
        tenancy=Tenancy.AS_NAMED,
        answer="application/zip",
    )
    async def get(self, call: Call) -> Reply:
        """Export by query parameters."""
        return await self.exported(call, self.query(), self.query(), "")

    @endpoint(
        access=Access.API_KEY,
        raw_body=True,
        tenancy=Tenancy.AS_NAMED,
        takes="{schema}",
        answer="application/zip",
    )
    async def post(self, call: Call, body: Document) -> Reply:
        """Export by a JSON body."""
        name = next((name for name in self.criteria_names if name in body), self.criteria_names[-1])
        return await self.exported(call, body, criteria_of(body, name), f"{name}.")

    async def exported(
        self, call: Call, request: Mapping[str, object], criteria: Mapping[str, object], prefix: str
    ) -> Reply:
        """Stream the zip file."""
        wanted = csv_exports.read(self.services, self.kind, request, criteria, prefix)
        file = await self.make(self.services, call, wanted)
        disposition = f'attachment; filename="{self.kind.file_name}.zip"'
        headers = {"Content-Type": "application/zip", "Content-Disposition": disposition}
        return Reply(pieces=_pieces(file), headers=headers)


def route(
    path: str, kind: csv_exports.Kind, make: Make, schema: str, criteria_names: Sequence[str] = ("criteria",)
) -> Route:
    """Return the route of the export of one log; `schema` is that of its JSON bodies."""
    given = {"kind": kind, "make": make, "schema": schema, "criteria_names": criteria_names}
    return Route(path, ExportHandler, given)


async def _pieces(file: IO[bytes]) -> AsyncGenerator[bytes, None]:
    with file:
        while piece := file.read(_PIECE_BYTES):
            yield piece
