"""`/admin`: one page, one script and one stylesheet, which do everything through /api with the administrator's own key.

Served to anybody, because nothing in them is secret; what the page may do is what the key may do.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Final

from identity.call import Call
from identity.errors import NotFound
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Reply, Tenancy, endpoint

_STATIC: Final = Path(__file__).resolve().parent / "static"
_TYPES: Final = {
    "admin.html": "text/html; charset=utf-8",
    "admin.css": "text/css; charset=utf-8",
    "admin.js": "text/javascript; charset=utf-8",
}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'none';"
    " frame-ancestors 'none'; base-uri 'none'"
)


@functools.cache
def _content(name: str) -> bytes:
    return (_STATIC / name).read_bytes()


class AdminHandler(ApiHandler):
    """The files of the page."""

    uuid_paths = False

    @endpoint(access=Access.PUBLIC, tenancy=Tenancy.BY_OPERATION)
    async def get(self, _call: Call, name: str = "admin.html") -> Reply:
        """Serve one of them. Raises NotFound for any other name."""
        if name not in _TYPES:
            raise NotFound
        headers = {
            "Content-Type": _TYPES[name],
            "Content-Security-Policy": _POLICY,
            "X-Frame-Options": "DENY",
            "Cache-Control": "no-cache",
        }
        return Reply(_content(name), headers=headers)


ROUTES = [Route("/admin", AdminHandler), Route("/admin/{name}", AdminHandler)]
