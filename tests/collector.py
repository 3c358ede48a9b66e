"""An OpenTelemetry collector on a local port, which decodes OTLP over HTTP."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1 import trace_pb2

from tests.receiver import Receiver, receiving, until


@dataclasses.dataclass
class Span:
    """A span as it arrived; ids in hexadecimal, `parent_id` empty at the root of a trace."""

    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: dict[str, Any]
    is_error: bool
    state: str
    service: dict[str, Any]

    def is_sent_by(self, traceparent: str) -> bool:
        """Whether the header names this span as the one above, and says that it is kept."""
        version, trace_id, span_id, flags = traceparent.split("-")
        return (version, trace_id, span_id) == ("00", self.trace_id, self.span_id) and bool(int(flags, 16) & 1)


class Collector:
    """What arrived at a receiver, as spans."""

    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver

    @property
    def url(self) -> str:
        """The endpoint for traces."""
        return f"http://127.0.0.1:{self.receiver.port}/v1/traces"

    @property
    def spans(self) -> list[Span]:
        """All spans so far."""
        requests = [ExportTraceServiceRequest.FromString(request.body) for request in self.receiver.requests]
        return [
            _span(span, _values(resource.resource.attributes))
            for request in requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    async def wait_for(self, count: int, wanted: Callable[[Span], bool] = lambda _span: True) -> list[Span]:
        """The spans that are wanted, once at least `count` of them have arrived."""
        await until(lambda: sum(map(wanted, self.spans)) >= count)
        return [span for span in self.spans if wanted(span)]


@contextlib.asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    """A running collector, stopped at the end."""
    async with receiving() as receiver:
        yield Collector(receiver)


def _span(span: trace_pb2.Span, service: dict[str, Any]) -> Span:
    return Span(
        span.name,
        trace_pb2.Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_").lower(),
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        _values(span.attributes),
        span.status.code == trace_pb2.Status.STATUS_CODE_ERROR,
        span.trace_state,
        service,
    )


def _values(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
