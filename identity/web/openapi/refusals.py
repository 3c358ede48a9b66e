"""How an operation may refuse: the statuses, and what stands in the body of each."""

from __future__ import annotations

from typing import Final

from identity.call import Document
from identity.web.base_handlers import ApiHandler, BaseHandler
from identity.web.cross_origin import CrossOriginAccess
from identity.web.endpoint import Access, Endpoint
from identity.web.openapi.components import Components, Use

JSON: Final = "application/json"
_WRITES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})

EMPTY: Final = {
    202: "The request was taken, and is being worked on.",
    302: "On to the next page.",
    304: "The document has not changed.",
    403: "The page of another site may not call this. The body is empty.",
    401: "No API key, an unknown one, or one that may not do this. The body is empty.",
    404: "There is no such object, or not for this caller. The body is empty.",
    409: "It belongs to somebody else already. The body is empty.",
    410: "The user has expired. The body is empty.",
    423: "The user is locked. The body is empty.",
    500: "The service cannot do its work.",
}

_ERRORS: Final = {
    400: "The request is not acceptable.",
    413: "The body is too large.",
    503: "The service cannot answer now.",
    504: "A webhook did not agree to the change, which was not made.",
    508: "The request was brought about by deliveries of events that would have no end.",
    512: "A lambda failed; the event log says how.",
}

_OAUTH_ERRORS: Final = {
    400: "The request is not acceptable.",
    401: "The client, or the token, is not known.",
    404: "There is no such tenant.",
    503: "The service cannot answer now.",
    512: "A lambda failed; the event log says how.",
}


def of_method(
    handler: BaseHandler, declared: Endpoint, method: str, components: Components, *, has_body: bool, may_miss: bool
) -> dict[int, Document]:
    """The refusals of a method, by status."""
    if isinstance(handler, ApiHandler):
        refusals = _of_api(declared, method, components, has_body=has_body, may_miss=may_miss)
    else:
        refusals = _of_protocol(declared, components, has_body=has_body)
    if handler.cross_origin is CrossOriginAccess.CONFIGURED:
        refusals[403] = {"description": EMPTY[403]}
    return refusals


def _of_api(
    declared: Endpoint, method: str, components: Components, *, has_body: bool, may_miss: bool
) -> dict[int, Document]:
    statuses = {400, 503, 508}
    if declared.access not in {Access.PUBLIC, Access.RECOGNIZED_KEY}:
        statuses |= {401}
    if may_miss:
        statuses |= {404}
    if has_body:
        statuses |= {413}
    if method in _WRITES:
        statuses |= {504, 512}
    errors = _errors(components)
    return {
        status: {"description": _ERRORS[status], "content": errors}
        if status in _ERRORS
        else {"description": EMPTY[status]}
        for status in statuses
    }


def _of_protocol(declared: Endpoint, components: Components, *, has_body: bool) -> dict[int, Document]:
    statuses = set(_OAUTH_ERRORS)
    if declared.access is Access.PUBLIC:
        statuses -= {401}
    content = {JSON: {"schema": components.body("oauth2/error.response.json", Use.ANSWER)}}
    if declared.access is Access.BROWSER:
        content["text/html"] = {"schema": {"type": "string"}}
    refusals: dict[int, Document] = {
        status: {"description": _OAUTH_ERRORS[status], "content": content} for status in statuses
    }
    # What is refused before anybody looks at the path.
    for status in (413, 508) if has_body else (508,):
        refusals[status] = {"description": _ERRORS[status], "content": _errors(components)}
    if declared.access is Access.BROWSER:
        refusals[403] = {"description": "The form is not one that this browser was shown.", "content": content}
    return refusals


def _errors(components: Components) -> Document:
    return {JSON: {"schema": components.body("api/errors.response.json", Use.ANSWER)}}
