"""The context of a request: its trace, and the services whose webhook deliveries caused it."""

from __future__ import annotations

from tornado.httputil import HTTPHeaders, HTTPServerRequest

from identity import trace_context
from identity.domain.webhooks import delivery_loop_detection
from identity.request_facts import RequestFacts
from identity.services import Services

HTTP_METHODS = frozenset({"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"})
_OTHER_METHOD = "_OTHER"


class RequestContext:
    """The context of one request, with its span if a collector is configured."""

    __slots__ = ("_method", "_services", "_span", "_template", "facts", "trace", "via")

    def __init__(self, services: Services, request: HTTPServerRequest, template: str) -> None:
        self._services = services
        self._template = template
        self._method = request.method if request.method in HTTP_METHODS else None
        self.trace, self.via = _trace(request.headers), _via(request.headers)
        self._span = services.outbound.tracer.begin(f"{self._method or 'HTTP'} {template}", "server", self.trace)
        if self._span is not None:
            self.trace = self._span.context
        self.facts = RequestFacts(trace=self.trace)

    def is_endless(self, request_id: str) -> bool:
        """Return whether the request belongs to a loop of deliveries, and record the loop."""
        if not self.via or not delivery_loop_detection.is_loop(self.via, self._services.outbound.service_id):
            return False
        self._services.outbound.deliverer.report_loop(self._template, self.via, request_id)
        return True

    def end(self, status: int, request_id: str) -> None:
        """End the span. It has the route only: paths and queries hold personal data and codes."""
        if self._span is not None:
            attributes: dict[str, str | int | bool] = {
                "http.request.method": self._method or _OTHER_METHOD,
                "http.response.status_code": status,
                "http.route": self._template,
                "identity.request.id": request_id,
            }
            self._span.end(attributes, str(status) if status >= 500 else None)


def _trace(headers: HTTPHeaders) -> trace_context.TraceContext | None:
    """Return the trace of a request that belongs to one."""
    if trace_context.PARENT_HEADER not in headers:
        return None
    return trace_context.read(headers[trace_context.PARENT_HEADER], headers.get(trace_context.STATE_HEADER))


def _via(headers: HTTPHeaders) -> tuple[str, ...]:
    text = headers.get(delivery_loop_detection.HEADER)
    return () if text is None else delivery_loop_detection.parse(text)
