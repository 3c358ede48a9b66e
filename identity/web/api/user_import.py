"""/api/user/import and /api/user/refresh-token/import: what was somewhere else before, very much of it at once."""

from __future__ import annotations

import functools

from identity.call import Call, Document
from identity.operations import refresh_token_import, user_import
from identity.web import long_bodies
from identity.web.endpoint import Access, Reply, endpoint
from identity.web.family import ApiHandler, Route

_ANSWER = {200: None, 500: None}


class LongBodyHandler(ApiHandler):
    """What the handlers of long lists share."""

    def reader(self, name: str) -> user_import.Read:
        """What reads the body, with a list under this name. Raises Invalid for a body of another media type."""
        kind = self.content_type()
        if kind not in {"application/json", ""} and self.request.body:
            raise self.unsupported(kind)
        return functools.partial(self._read, name)

    async def _read(self, name: str, take: user_import.Take) -> Document:
        rest = await long_bodies.read(self.request.body, name, take)
        self.note_event_info(rest)
        return rest


class UserImportHandler(LongBodyHandler):
    """`/api/user/import`."""

    @endpoint(access=Access.API_KEY, takes=user_import.REQUEST, answer=_ANSWER)
    async def post(self, call: Call) -> Reply:
        """Make up to ten thousand users."""
        await user_import.run(self.services, call, self.reader("users"))
        return Reply()


class RefreshTokenImportHandler(LongBodyHandler):
    """`/api/user/refresh-token/import`."""

    @endpoint(access=Access.API_KEY, takes=refresh_token_import.REQUEST, answer=_ANSWER)
    async def post(self, call: Call) -> Reply:
        """Add up to ten thousand refresh tokens."""
        await refresh_token_import.run(self.services, call, self.reader("refreshTokens"))
        return Reply()


ROUTES = [
    Route("/api/user/refresh-token/import", RefreshTokenImportHandler),
    Route("/api/user/import", UserImportHandler),
]
