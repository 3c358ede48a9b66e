"""/api/user/import and /api/user/refresh-token/import: imports of many objects at once."""

from __future__ import annotations

import functools
import itertools
from typing import Any, ClassVar

from identity.call import Call, Document
from identity.domain.objects import request_members
from identity.operations.users import refresh_token_import, user_import
from identity.web import json_body
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Reply, endpoint

_ANSWER = {200: None, 500: None}


class LongBodyHandler(ApiHandler):
    """Shared by the handlers of long lists."""

    item_schema: ClassVar[str]
    """The schema of an item of the list, in its wrapper."""

    def initialize(self, **arguments: Any) -> None:
        """Return the ignored members; those of items are collected while the list is read."""
        super().initialize(**arguments)
        self._ignored: list[request_members.Path] = []

    def ignored_members(self) -> list[request_members.Path]:
        """Return the ignored members, those of items first."""
        return self._ignored + super().ignored_members()

    def reader(self, name: str) -> user_import.ReadRequest:
        """Read the body with a list of this name. Raises Invalid for another media type."""
        kind = self.content_type()
        if kind not in {"application/json", ""} and self.request.body:
            raise self.unsupported(kind)
        return functools.partial(self._read, name)

    async def _read(self, name: str, take: user_import.AddItem) -> Document:
        numbers, (wrapped,) = itertools.count(), self.services.schemas[self.item_schema].schema["properties"].values()

        def examine(item: Any) -> None:
            number = next(numbers)
            if len(self._ignored) < request_members.MAXIMUM_LISTED:
                self._ignored += [(name, number, *path) for path in request_members.ignored(wrapped, item)]
            take(item)

        rest = await json_body.read_long_list(self.request.body, name, examine)
        self.note_event_info(rest)
        return rest


class UserImportHandler(LongBodyHandler):
    """`/api/user/import`."""

    item_schema = "api/imported-user.json"

    @endpoint(access=Access.API_KEY, takes=user_import.REQUEST, answer=_ANSWER)
    async def post(self, call: Call) -> Reply:
        """Create up to ten thousand users."""
        await user_import.import_users(self.services, call, self.reader("users"))
        return Reply()


class RefreshTokenImportHandler(LongBodyHandler):
    """`/api/user/refresh-token/import`."""

    item_schema = "api/imported-refresh-token.json"

    @endpoint(access=Access.API_KEY, takes=refresh_token_import.REQUEST, answer=_ANSWER)
    async def post(self, call: Call) -> Reply:
        """Add up to ten thousand refresh tokens."""
        await refresh_token_import.import_refresh_tokens(self.services, call, self.reader("refreshTokens"))
        return Reply()


ROUTES = [
    Route("/api/user/refresh-token/import", RefreshTokenImportHandler),
    Route("/api/user/import", UserImportHandler),
]
