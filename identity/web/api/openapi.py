"""`/api/openapi.json`: the OpenAPI document, which clients may cache for five minutes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from identity.call import Call
from identity.web.base_handlers import ApiHandler, Route
from identity.web.cross_origin import CrossOriginAccess
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.openapi.document import PreparedDocument


class OpenApiHandler(ApiHandler):
    """The OpenAPI document, which is public."""

    document: PreparedDocument
    cross_origin = CrossOriginAccess.OPEN

    @endpoint(
        access=Access.PUBLIC,
        tenancy=Tenancy.BY_OPERATION,
        answer={200: "api/openapi.response.json", 304: None},
    )
    async def get(self, call: Call) -> Reply:
        """The description of the API in OpenAPI 3.1."""
        return self.prepared_reply(await self.document.get(), "public, max-age=300")


def routes(every: Callable[[], Sequence[Route]]) -> list[Route]:
    """Return the route of the document of `every` route."""
    return [Route("/api/openapi.json", OpenApiHandler, {"document": PreparedDocument(every)})]
