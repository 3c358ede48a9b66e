"""What a request says: its path, its query and its body, read as far as the endpoint declares them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

import tornado.web

from identity.call import ApiKeyCaller, Caller, Document
from identity.domain.objects import event_info
from identity.domain.objects import patch as patches
from identity.errors import Invalid
from identity.ids import parse_id
from identity.web import json_body
from identity.web.endpoint import Endpoint, Parameters, Query, require_declared


class RequestReader(tornado.web.RequestHandler):
    """The part of every handler that reads."""

    declared: Endpoint
    event_info: Document
    json_request: Any = None
    """The parsed JSON body, once a method has read it."""
    caller: Caller
    uuid_paths: ClassVar[bool] = True

    def path_ids(self, path: Mapping[str, str]) -> dict[str, Any]:
        """The ids in the path, in canonical form. Raises Invalid for one that is no UUID."""
        ids: dict[str, Any] = {}
        for name, text in path.items():
            value = parse_id(text) if self.uuid_paths else text
            if value is None:
                called = self.path_name(name)
                raise Invalid.field("couldNotConvert", called, f"The [{called}] in the path must be a UUID.")
            ids[name] = value
        return ids

    def path_name(self, name: str) -> str:
        """How an id in the path is called in errors and in the OpenAPI document: `user_id` is `userId`."""
        return re.sub(r"_([a-z])", lambda match: match[1].upper(), name)

    def named(self, template: str) -> str:
        """A template with its ids under the names that the API gives them: `/api/webhook/{webhookId}`."""
        return re.sub(r"\{(\w+)\}", lambda match: f"{{{self.path_name(match[1])}}}", template)

    def json_object(self) -> Document:
        """The JSON body. Raises Invalid."""
        kind = self.content_type()
        if kind not in {"application/json", ""} and self.request.body:
            raise self.unsupported(kind)
        body = json_body.parse_object(self.request.body)
        self.note_event_info(body)
        return body

    def content_type(self) -> str:
        """The media type of the body, without parameters, lower-cased."""
        return self.request.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    def patch_body(self) -> tuple[str, Any]:
        """The kind of patch and its JSON. Raises Invalid for a Content-Type that is no kind of patch."""
        kind = self.content_type() or patches.MERGE
        if kind not in patches.CONTENT_TYPES:
            raise self.unsupported(kind)
        body = json_body.parse(self.request.body)
        self.note_event_info(body)
        return kind, body

    def unsupported(self, kind: str) -> Invalid:
        """The error of a body of a media type that is not read here."""
        return Invalid.whole("[UnsupportedContentType]", f"The Content-Type [{kind[:100]}] is not supported here.")

    def note_event_info(self, body: Any) -> None:
        """Keep a body that was read, and merge its `eventInfo` into that of the call.

        Raises Invalid for an `eventInfo.ipAddress` that is no IP address, from a caller with an API key.
        """
        self.json_request = body
        info = body.get("eventInfo") if isinstance(body, dict) else None
        if isinstance(info, dict):
            self.event_info.update(event_info.validated(info) if isinstance(self.caller, ApiKeyCaller) else info)

    def query_of(self, declared: Endpoint) -> Query:
        """The query parameters of a method; some follow from what the handler serves."""
        return {} if isinstance(declared.query, str) else declared.query

    def optional_body(self) -> Document:
        """The JSON object of a request that may also have no body."""
        return self.json_object() if self.request.body else {}

    def query(self) -> Parameters:
        """The query parameters, the last of a repeated name."""
        arguments = self.request.query_arguments.items()
        given = {name: values[-1].decode("utf-8", "replace") for name, values in arguments}
        return Parameters(given, self.query_of(self.declared))

    def texts(self, name: str) -> list[str]:
        """Every value of a query parameter that may be repeated."""
        require_declared(name, self.query_of(self.declared))
        return self.get_query_arguments(name)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """A boolean query parameter.

        Raises Invalid for what is neither true nor false: `dryRun=yes` must not be taken for a deletion in earnest.
        """
        text = str(self.query().get(name, "")).strip().lower()
        if text not in {"", "true", "false"}:
            raise Invalid.field("couldNotConvert", name, f"The [{name}] parameter must be true or false.")
        return text == "true" if text else default

    def is_asked(self, name: str, body: Document) -> bool:
        """A flag that may stand in the query or in a body that was read. Raises Invalid as `flag` does."""
        return self.flag(name) or body.get(name, False) is True
