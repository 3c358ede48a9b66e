"""The error responses of an operation, by status."""

from __future__ import annotations

from typing import Final

from identity.call import Document
from identity.web.base_handlers import ApiHandler, BaseHandler
from identity.web.cross_origin import CrossOriginAccess
from identity.web.endpoint import Access, Endpoint
from identity.web.openapi.components import Components, Use
from identity.web.openapi.texts import EMPTY_RESPONSES, ERRORS, OAUTH_ERRORS

JSON: Final = "application/json"


def of_method(
    handler: BaseHandler, declared: Endpoint, method: str, components: Components, *, has_body: bool, has_404: bool
) -> dict[int, Document]:
    """Return the error responses of a method."""
    if declared.access is Access.ENTITY:
        responses = _scim_responses(handler, method, components, has_body=has_body)
    elif isinstance(handler, ApiHandler):
        responses = _api_responses(declared, method, components, has_body=has_body, has_404=has_404)
    else:
        responses = _protocol_responses(declared, components, has_body=has_body)
    if handler.cross_origin is CrossOriginAccess.CONFIGURED:
        responses.setdefault(403, {"description": EMPTY_RESPONSES[403]})
    return responses


def _api_responses(
    declared: Endpoint, method: str, components: Components, *, has_body: bool, has_404: bool
) -> dict[int, Document]:
    statuses = [400, 503, *_shared_statuses(has_body=has_body)]
    if method != "GET":
        statuses += [504, 512]
    empty = [404] if has_404 else []
    if declared.access not in {Access.PUBLIC, Access.RECOGNIZED_KEY}:
        empty.append(401)
    errors = _errors(components)
    responses: dict[int, Document] = {status: {"description": ERRORS[status], "content": errors} for status in statuses}
    return responses | {status: {"description": EMPTY_RESPONSES[status]} for status in empty}


def _scim_responses(
    handler: BaseHandler, method: str, components: Components, *, has_body: bool
) -> dict[int, Document]:
    """Return the errors of SCIM (RFC 7644 section 3.12)."""
    statuses = [400, 401, 403, 404, 503]
    if method != "GET":
        statuses += [409, 412, 504, 512]
    content = {handler.media_type: {"schema": components.body("api/scim-error.response.json", Use.RESPONSE)}}
    described = {**OAUTH_ERRORS, **EMPTY_RESPONSES, **ERRORS}
    responses: dict[int, Document] = {
        status: {"description": described.get(status, "The request was refused."), "content": content}
        for status in statuses
    }
    # These requests are refused before they are routed.
    for status in _shared_statuses(has_body=has_body):
        responses[status] = {"description": ERRORS[status], "content": {**content, **_errors(components)}}
    return responses


def _protocol_responses(declared: Endpoint, components: Components, *, has_body: bool) -> dict[int, Document]:
    content = {JSON: {"schema": components.body("oauth2/error.response.json", Use.RESPONSE)}}
    if declared.access is Access.BROWSER:
        content["text/html"] = {"schema": {"type": "string"}}
    responses: dict[int, Document] = {
        status: {"description": description, "content": content}
        for status, description in OAUTH_ERRORS.items()
        if status != 401 or declared.access is not Access.PUBLIC
    }
    if declared.access is Access.CLIENT_OR_KEY:
        responses[401] = {**responses[401], "x-may-be-empty": True}  # for an API key that is refused
    # These requests are refused before they are routed.
    for status in _shared_statuses(has_body=has_body):
        responses[status] = {"description": ERRORS[status], "content": _errors(components)}
    if declared.access is Access.BROWSER:
        responses[403] = {"description": "The form was not rendered for this browser.", "content": content}
    return responses


def _shared_statuses(*, has_body: bool) -> list[int]:
    return [413, 508] if has_body else [508]


def _errors(components: Components) -> Document:
    return {JSON: {"schema": components.body("api/errors.response.json", Use.RESPONSE)}}
