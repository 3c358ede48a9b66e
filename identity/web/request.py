"""Reading requests: method, path, query and body, as the endpoint declares them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import tornado.web
from tornado.httputil import HTTPServerRequest

from identity.call import ApiKeyCaller, Caller, Document
from identity.domain.objects import event_info
from identity.domain.objects import patch as patches
from identity.errors import Invalid
from identity.ids import parse_id
from identity.web import json_body
from identity.web.endpoint import Endpoint, Parameters, Query, require_declared

_METHOD_OVERRIDE: Final = "X-HTTP-Method-Override"


class RequestReader(tornado.web.RequestHandler):
    """The methods of a handler that read the request."""

    declared: Endpoint
    event_info: Document
    json_request: Any = None
    """The parsed JSON body, after it was read."""
    caller: Caller
    uuid_paths: ClassVar[bool] = True
    accepted_types: ClassVar[frozenset[str]] = frozenset({"application/json", ""})
    """The media types of a JSON body."""

    def path_ids(self, path: Mapping[str, str]) -> dict[str, Any]:
        """Return the ids in the path, in canonical form. Raises Invalid for one that is not a UUID."""
        ids: dict[str, Any] = {}
        for name, text in path.items():
            value = parse_id(text) if self.uuid_paths else text
            if value is None:
                id_name = self.path_name(name)
                raise Invalid.field("couldNotConvert", id_name, f"The [{id_name}] in the path must be a UUID.")
            ids[name] = value
        return ids

    def path_name(self, name: str) -> str:
        """Return the published name of an id in the path: `userId` for `user_id`."""
        return re.sub(r"_([a-z])", lambda match: match[1].upper(), name)

    def named(self, template: str) -> str:
        """Return a template with the published names of its ids: `/api/webhook/{webhookId}`."""
        return re.sub(r"\{(\w+)\}", lambda match: f"{{{self.path_name(match[1])}}}", template)

    def json_object(self) -> Document:
        """Return the JSON body. Raises Invalid."""
        kind = self.content_type()
        if kind not in self.accepted_types and self.request.body:
            raise self.unsupported(kind)
        body = json_body.parse_object(self.request.body)
        self.note_event_info(body)
        return body

    def content_type(self) -> str:
        """Return the media type of the body, without parameters, in lower case."""
        return self.request.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    def patch_body(self) -> tuple[str, Any]:
        """Return the media type and the JSON of a patch. Raises Invalid for another Content-Type."""
        kind = self.content_type() or patches.MERGE
        if kind not in patches.CONTENT_TYPES:
            raise self.unsupported(kind)
        body = json_body.parse(self.request.body)
        self.note_event_info(body)
        return kind, body

    def unsupported(self, kind: str) -> Invalid:
        """Return the error of a body with an unsupported media type."""
        return Invalid.whole("[UnsupportedContentType]", f"The Content-Type [{kind[:100]}] is not supported here.")

    def note_event_info(self, body: Any) -> None:
        """Store a parsed body, and merge its `eventInfo` into that of the call.

        Raises Invalid for an `eventInfo.ipAddress` that is not an IP address, from a caller with an API key.
        """
        self.json_request = body
        info = body.get("eventInfo") if isinstance(body, dict) else None
        if isinstance(info, dict):
            self.event_info.update(event_info.validated(info) if isinstance(self.caller, ApiKeyCaller) else info)

    def query_of(self, declared: Endpoint) -> Query:
        """Return the query parameters of a method, including those of the resource that the handler serves."""
        return {} if isinstance(declared.query, str) else declared.query

    def optional_body(self) -> Document:
        """Return the JSON object of a request whose body is optional."""
        return self.json_object() if self.request.body else {}

    def query(self) -> Parameters:
        """Return the query parameters, the last of a repeated name."""
        arguments = self.request.query_arguments.items()
        given = {name: values[-1].decode("utf-8", "replace") for name, values in arguments}
        return Parameters(given, self.query_of(self.declared))

    def given_parameters(self, *names: str) -> Document:
        """Return the query parameters with these names that have a value."""
        query = self.query()
        return {name: query[name] for name in names if query.get(name)}

    def texts(self, name: str) -> list[str]:
        """Return every value of a query parameter that may be repeated."""
        require_declared(name, self.query_of(self.declared))
        return self.get_query_arguments(name)

    def query_id(self, name: str) -> str | None:
        """Return an id in the query; None if it is absent. Raises Invalid for one that is not a UUID."""
        text = self.query().get(name)
        value = parse_id(text)
        if text and value is None:
            raise Invalid.field("couldNotConvert", name, f"The [{name}] parameter must be a UUID.")
        return value

    def required_query_id(self, name: str) -> str:
        """Return an id in the query. Raises Invalid if it is absent, or not a UUID."""
        value = self.query_id(name)
        if value is None:
            raise Invalid.field("missing", name, f"You must specify the [{name}] parameter.")
        return value

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return a boolean query parameter.

        Raises Invalid for a value other than true and false, so that `dryRun=yes` never deletes.
        """
        text = str(self.query().get(name, "")).strip().lower()
        if text not in {"", "true", "false"}:
            raise Invalid.field("couldNotConvert", name, f"The [{name}] parameter must be true or false.")
        return text == "true" if text else default

    def is_flag_set(self, name: str, body: Document) -> bool:
        """Return whether a flag is set in the query or in the body. Raises Invalid as `flag`."""
        return self.flag(name) or body.get(name, False) is True


def is_method_override(request: HTTPServerRequest) -> bool:
    """Return whether a POST request is to be handled as PATCH, for clients such as Java's HttpURLConnection.

    The header `X-HTTP-Method-Override` is honored on requests that carry an Authorization header, and only with the
    value PATCH. Every other use has no effect: the request keeps its method.
    """
    if request.method != "POST" or not request.headers.get("Authorization", "").strip():
        return False
    return request.headers.get_list(_METHOD_OVERRIDE) == ["PATCH"]
