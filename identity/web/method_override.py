"""`X-HTTP-Method-Override: PATCH`, for HTTP clients that cannot send PATCH, such as Java's HttpURLConnection.

The header is honored on POST requests to the management API that carry an Authorization header, and only with the
value PATCH. Every other use has no effect: the request keeps its method.
"""

from __future__ import annotations

from typing import Final

from tornado.httputil import HTTPServerRequest

HEADER: Final = "X-HTTP-Method-Override"


def is_patch(request: HTTPServerRequest) -> bool:
    """Whether a POST request is to be handled as PATCH."""
    if request.method != "POST" or not request.headers.get("Authorization", "").strip():
        return False
    return request.headers.get_list(HEADER) == ["PATCH"]
