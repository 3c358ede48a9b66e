"""Traces from the request of a caller to each delivery attempt, as a real collector receives them (promise 13)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import prometheus_client
import pytest

from identity.config.sections import Tracing
from identity.errors import StartupError
from identity.events.changes import Event
from identity.ids import Secret, new_id
from identity.outbound import open_telemetry, tracing
from identity.trace_context import TraceContext
from tests import internals, plain_http
from tests.collector import Collector, Span, collecting
from tests.conftest import DEFAULT_TENANT, SUPER_KEY, checking_client
from tests.events.samples import PAYLOADS
from tests.receiver import Receiver, answers, hangs, in_turn, receiving, until
from tests.webhooks import enable_events

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{CALLER}-01"
CREATE = Event("user.create", PAYLOADS["user.create"])


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_telemetry, "_BATCH_DELAY_SECONDS", 0.01)
    monkeypatch.setattr(open_telemetry, "_STOP_SECONDS", 1.0)


def exporting(endpoint: str, registry: Any, **settings: Any) -> open_telemetry.OpenTelemetryTracer:
    wanted = {"headers": None, "service_name": "identity", "sample_ratio": 1.0, **settings}
    return open_telemetry.OpenTelemetryTracer(Tracing(endpoint, **wanted), registry, "1.2.3", "an instance")


def is_attempt(span: Span) -> bool:
    return span.name.startswith("webhook ")


def is_store(span: Span) -> bool:
    return "db.system.name" in span.attributes


def spans_total(registry: Any, outcome: str) -> float:
    return registry.get_sample_value("identity_trace_spans_total", {"outcome": outcome})


# The whole service.


@pytest.fixture(scope="module")
async def collector() -> AsyncIterator[Collector]:
    async with collecting() as one:
        yield one


@pytest.fixture(scope="module")
async def traced(build: Any, collector: Collector) -> AsyncIterator[Any]:
    """A service with a collector, whose default tenant has user events enabled."""
    async with build(tracing__endpoint=collector.url, tracing__headers="x-token=s3cret") as service:
        async with client_of(service) as api:
            await enable_events(api, DEFAULT_TENANT, ["user.create", "user.create.complete"], "Any")
        yield service


def client_of(service: Any) -> Any:
    return checking_client(service.base_url, headers={"Authorization": SUPER_KEY})


async def subscribe(api: Any, receiver: Receiver, *types: str, **members: Any) -> str:
    webhook = {
        "url": receiver.url, "global": True, "connectTimeout": 2000, "readTimeout": 2000,
        "eventsEnabled": dict.fromkeys(types, True), **members,
    }  # fmt: skip
    answer = await api.post("/api/webhook", json={"webhook": webhook})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["webhook"]["id"])


async def make_user(api: Any, **headers: str) -> str:
    user = {"user": {"username": new_id(), "password": "password"}}
    answer = await api.post("/api/user?secret=in-the-query", json=user, headers=headers)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["user"]["id"])


@pytest.mark.requirement("operate-5")
async def test_store_commands_are_spans_below_their_request(traced, collector):
    trace_id = new_id().replace("-", "")
    async with client_of(traced) as api:
        await make_user(api, traceparent=f"00-{trace_id}-{CALLER}-01")
    (request,) = await collector.wait_for(1, lambda span: span.trace_id == trace_id and span.kind == "server")
    (insert,) = await collector.wait_for(1, lambda span: span.trace_id == trace_id and span.name == "insert users")
    assert (insert.parent_id, insert.kind, insert.is_error) == (request.span_id, "client", False)
    assert insert.attributes == {
        "db.system.name": "mongodb", "db.operation.name": "insert", "db.collection.name": "users",
    }  # fmt: skip


@pytest.mark.requirement("webhooks-15.2-21")
async def test_each_attempt_is_a_span_below_the_request_that_raised_the_event(traced, collector):
    trace_id = new_id().replace("-", "")
    async with client_of(traced) as api, receiving() as receiver:
        url = f"{receiver.url}/t0ken?key=s3cret"
        webhook = await subscribe(api, receiver, "user.create", "user.create.complete", url=url)
        await make_user(api, traceparent=f"00-{trace_id}-{CALLER}-01", tracestate="vendor=value")
        events = await receiver.wait_for(2)
        await api.delete(f"/api/webhook/{webhook}")
    found = await collector.wait_for(3, lambda span: span.trace_id == trace_id and not is_store(span))
    (request,) = [span for span in found if span.kind == "server"]
    assert (request.name, request.parent_id, request.state) == ("POST /api/user", CALLER, "vendor=value")
    assert request.attributes.pop("identity.request.id")
    assert request.attributes == {
        "http.request.method": "POST", "http.response.status_code": 200, "http.route": "/api/user",
    }  # fmt: skip
    attempts = {span.attributes["identity.event.type"]: span for span in found if is_attempt(span)}
    assert attempts.keys() == {"user.create", "user.create.complete"}
    for received in events:
        span = attempts[received.event["type"]]
        assert span.is_sent_by(received.headers["traceparent"])
        assert received.headers["tracestate"] == "vendor=value"
        assert (span.name, span.kind) == (f"webhook {received.event['type']}", "client")
        assert (span.parent_id, span.is_error) == (request.span_id, False)
        assert span.attributes == {
            "http.request.method": "POST", "http.request.resend_count": 0, "http.response.status_code": 200,
            "identity.event.id": received.event["id"], "identity.event.type": received.event["type"],
            "identity.webhook.id": webhook, "server.address": "127.0.0.1", "server.port": receiver.port,
        }  # fmt: skip
    assert not any(secret in repr(found) for secret in ("s3cret", "t0ken", "in-the-query"))
    assert found[0].service["service.name"] == "identity"
    assert collector.receiver.requests[0].headers["x-token"] == "s3cret"


async def test_request_without_a_trace_begins_one(traced, collector):
    async with client_of(traced) as api, receiving() as receiver:
        webhook = await subscribe(api, receiver, "user.create.complete")
        await make_user(api)
        (received,) = await receiver.wait_for(1)
        await api.delete(f"/api/webhook/{webhook}")
    trace_id = received.headers["traceparent"].split("-")[1]
    found = await collector.wait_for(2, lambda span: span.trace_id == trace_id and not is_store(span))
    assert {(span.kind, span.parent_id == "") for span in found} == {("server", True), ("client", False)}
    assert "tracestate" not in received.headers


@pytest.mark.requirement("webhooks-15.2-21")
async def test_unsampled_trace_is_forwarded_but_not_exported(traced, collector):
    trace_id = new_id().replace("-", "")
    async with client_of(traced) as api, receiving() as receiver:
        webhook = await subscribe(api, receiver, "user.create.complete")
        await make_user(api, traceparent=f"00-{trace_id}-{CALLER}-00")
        (received,) = await receiver.wait_for(1)
        await api.delete(f"/api/webhook/{webhook}")
        await api.get("/api/status", headers={"traceparent": PARENT})
    assert received.headers["traceparent"].startswith(f"00-{trace_id}-")
    assert received.headers["traceparent"].endswith("-00")
    await collector.wait_for(1, lambda span: span.trace_id == TRACE)
    assert [span for span in collector.spans if span.trace_id == trace_id] == []


@pytest.mark.requirement("webhooks-15.2-21")
async def test_redelivered_event_keeps_the_trace_of_its_request(traced, collector):
    trace_id = new_id().replace("-", "")
    async with client_of(traced) as api, receiving() as receiver:
        webhook = await subscribe(api, receiver, "user.create.complete")
        await make_user(api, traceparent=f"00-{trace_id}-{CALLER}-01")
        (received,) = await receiver.wait_for(1)
        again = {"eventId": received.event["id"]}
        while (answer := await api.post(f"/api/webhook/{webhook}/resend", json=again)).status_code == 404:
            await asyncio.sleep(0.01)
        assert answer.status_code == 202
        first, second = [request.headers["traceparent"] for request in await receiver.wait_for(2)]
        await api.delete(f"/api/webhook/{webhook}")
    assert first != second
    assert first.split("-")[1] == second.split("-")[1] == trace_id


async def test_failed_request_has_a_span_with_its_status_and_an_unknown_method_none_of_its_own(traced, collector):
    trace_id = new_id().replace("-", "")
    async with client_of(traced) as api:
        headers = {"traceparent": f"00-{trace_id}-{CALLER}-01"}
        await api.get("/api/nothing/here", headers=headers)
    async with plain_http.client(traced.base_url) as plain:
        assert (await plain.request("MADE-UP", "/api/user", headers=headers)).status_code == 501
        own = {**headers, "webhook-via": internals.service_id(traced)}
        assert (await plain.post("/api/user", json={}, headers=own)).status_code == 508
    found = await collector.wait_for(3, lambda span: span.trace_id == trace_id and not is_store(span))
    by_name = {span.name: span for span in found}
    assert by_name.keys() == {"GET none", "HTTP /api/user", "POST /api/user"}
    assert by_name["GET none"].attributes["http.response.status_code"] == 404
    assert by_name["HTTP /api/user"].attributes["http.request.method"] == "_OTHER"
    assert (by_name["GET none"].is_error, by_name["POST /api/user"].is_error) == (False, True)
    assert by_name["POST /api/user"].attributes["error.type"] == "508"


# One engine.


@pytest.mark.requirement("webhooks-15.2-21")
async def test_retries_are_spans_of_their_own_in_one_trace_and_failures_have_a_reason(engine):
    engine.enable("user.create")
    async with collecting() as collector, receiving(in_turn(answers(500), answers(200))) as receiver:
        engine.tracer = exporting(collector.url, engine.registry)
        await engine.tracer.start()
        engine.add_webhook(receiver.url, "user.create")
        async with engine.working():
            await engine.bus.announce(engine.call(), [CREATE])
            await receiver.wait_for(1)
            await until(lambda: has_state(engine, ("due", 1)))
            engine.clock.advance(seconds=6)
            engine.wakeups.awake.set()
            await receiver.wait_for(2)
        await engine.tracer.stop()
        first, second = [span for span in collector.spans if is_attempt(span)]
        (raised,) = [span for span in collector.spans if not is_attempt(span)]
    assert first.is_sent_by(receiver.requests[0].headers["traceparent"])
    assert second.is_sent_by(receiver.requests[1].headers["traceparent"])
    assert first.span_id != second.span_id
    # No request caused it: the trace begins with the event.
    assert (raised.name, raised.kind, raised.parent_id) == ("raise user.create", "producer", "")
    assert first.parent_id == second.parent_id == raised.span_id
    assert first.trace_id == second.trace_id == raised.trace_id
    assert (first.is_error, first.attributes["error.type"]) == (True, "500")
    assert (second.is_error, second.attributes["http.request.resend_count"]) == (False, 1)
    assert spans_total(engine.registry, "exported") == 3


async def has_state(engine: Any, *expected: tuple[str, int]) -> bool:
    return await engine.states() == list(expected)


async def test_attempt_without_a_response_has_a_reason(engine):
    engine.enable("user.create")
    async with collecting() as collector, receiving(hangs) as receiver:
        engine.tracer = exporting(collector.url, engine.registry)
        await engine.tracer.start()
        engine.add_webhook(receiver.url, "user.create", readTimeout=20, connectTimeout=20)
        async with engine.working():
            await engine.bus.announce(engine.call(), [CREATE])
            await until(lambda: has_state(engine, ("due", 1)))
        await engine.tracer.stop()
        (span,) = [span for span in collector.spans if is_attempt(span)]
    assert (span.is_error, span.attributes["error.type"]) == (True, "timeout")
    assert "http.response.status_code" not in span.attributes


async def test_interrupted_attempt_has_a_span(engine):
    engine.enable("user.create")
    async with collecting() as collector, receiving(hangs) as receiver:
        engine.tracer = exporting(collector.url, engine.registry)
        await engine.tracer.start()
        engine.add_webhook(receiver.url, "user.create")
        async with engine.working(stop_seconds=0.0):
            await engine.bus.announce(engine.call(), [CREATE])
            await receiver.wait_for(1)
        await engine.tracer.stop()
        (span,) = [span for span in collector.spans if is_attempt(span)]
    assert span.attributes["error.type"] == "interrupted"


async def test_sample_ratio_applies_to_new_traces(engine):
    engine.enable("user.create")
    async with collecting() as collector, receiving() as receiver:
        engine.tracer = exporting(collector.url, engine.registry, sample_ratio=0.0)
        await engine.tracer.start()
        engine.add_webhook(receiver.url, "user.create")
        async with engine.working():
            await engine.bus.announce(engine.call(), [CREATE])
            (received,) = await receiver.wait_for(1)
        await engine.tracer.stop()
        assert collector.receiver.requests == []
    assert int(received.headers["traceparent"].rpartition("-")[2], 16) & 1 == 0


@pytest.mark.requirement("webhooks-15.2-22")
@pytest.mark.parametrize("behaviour", [None, hangs, answers(500)], ids=["down", "hangs", "fails"])
async def test_unavailable_collector_loses_only_spans(engine, behaviour):
    engine.enable("user.create", transaction="AbsoluteMajority")
    async with receiving(behaviour) as away, receiving() as receiver:
        if behaviour is None:
            await away.stop()
        engine.tracer = exporting(f"http://127.0.0.1:{away.port}/v1/traces", engine.registry)
        await engine.tracer.start()
        engine.add_webhook(receiver.url, "user.create")
        async with engine.working():
            for _ in range(3):
                await engine.bus.request_approval(engine.call(), [CREATE])
        assert len(receiver.requests) == 3
        await engine.tracer.stop()
    assert spans_total(engine.registry, "lost") == 6
    assert spans_total(engine.registry, "exported") == 0


@pytest.mark.requirement("webhooks-15.2-22")
async def test_spans_beyond_the_queue_size_are_counted_as_lost(monkeypatch):
    monkeypatch.setattr(open_telemetry, "_QUEUE_SIZE", 3)
    registry = prometheus_client.CollectorRegistry()
    async with collecting() as collector:
        tracer = exporting(collector.url, registry)
        for _ in range(5):
            tracer.begin("one", "server", None).end({})
        await tracer.start()
        await tracer.stop()
        assert len(collector.spans) == 3
    assert (spans_total(registry, "lost"), spans_total(registry, "exported")) == (2, 3)


async def test_recovered_collector_gets_later_spans():
    registry = prometheus_client.CollectorRegistry()
    async with receiving(in_turn(answers(400), answers(200))) as receiver:
        collector = Collector(receiver)
        tracer = exporting(collector.url, registry)
        await tracer.start()
        tracer.begin("lost", "server", None).end({})
        await until(lambda: spans_total(registry, "lost") == 1)
        tracer.begin("kept", "server", None).end({})
        await until(lambda: spans_total(registry, "exported") == 1)
        await tracer.stop()
        assert [span.name for span in collector.spans] == ["lost", "kept"]


async def test_environment_may_switch_the_sdk_off(monkeypatch):
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    tracer = exporting("http://127.0.0.1:4318/v1/traces", prometheus_client.CollectorRegistry())
    assert tracer.begin("one", "server", None) is None


async def test_span_ends_once():
    registry = prometheus_client.CollectorRegistry()
    async with collecting() as collector:
        tracer = exporting(collector.url, registry, service_name="logins", headers=Secret("a=1, b = 2=3"))
        await tracer.start()
        span = tracer.begin("one", "server", TraceContext(TRACE, CALLER, 1))
        span.end({"first": True})
        span.end({"second": True}, "late")
        await tracer.stop()
        (found,) = collector.spans
        (request,) = collector.receiver.requests
    assert (found.attributes, found.is_error, found.parent_id) == ({"first": True}, False, CALLER)
    assert found.service == {
        "service.name": "logins", "service.version": "1.2.3", "service.instance.id": "an instance",
    }  # fmt: skip
    assert (request.headers["a"], request.headers["b"]) == ("1", "2=3")


# Without a collector, or without the packages.


def test_collector_without_the_packages_is_a_fault_that_says_what_to_do(monkeypatch):
    monkeypatch.delitem(sys.modules, "identity.outbound.open_telemetry")
    monkeypatch.delattr("identity.outbound.open_telemetry", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    settings = Tracing("http://127.0.0.1:4318/v1/traces", None, "identity", 1.0)
    with pytest.raises(StartupError, match=r"tracing\.endpoint.*\[tracing\]"):
        tracing.create_tracer(settings, prometheus_client.CollectorRegistry(), "1.2.3", "an instance")


@pytest.mark.requirement("webhooks-15.2-22")
async def test_without_a_collector_the_trace_is_forwarded_unchanged(api, tenant, service):
    await enable_events(api, tenant["id"], ["user.create.complete"])
    headers = {"X-FusionAuth-TenantId": tenant["id"]}
    async with receiving() as receiver:
        await subscribe(api, receiver, "user.create.complete", **{"global": False}, tenantIds=[tenant["id"]])
        await make_user(api, **headers, traceparent=PARENT, tracestate="a=b")
        await make_user(api, **headers, traceparent="nonsense", tracestate="a=b")
        await make_user(api, **headers)
        found = await receiver.wait_for(3)
    sent = [(each.headers.get("traceparent"), each.headers.get("tracestate")) for each in found]
    assert sorted(sent, key=str) == [(PARENT, "a=b"), (None, None), (None, None)]


@pytest.mark.requirement("webhooks-15.2-22")
def test_without_a_collector_no_packages_of_occasional_use_are_loaded():
    code = (
        "import sys, identity.cli.main, identity.app, identity.outbound.tracing as t, prometheus_client as p;"
        "from identity.config.sections import Tracing;"
        "t.create_tracer(Tracing(None, None, 'x', 1.0), p.CollectorRegistry(), '1', 'i');"
        # Others that redis, structlog and the service itself load only for what a process at rest does not do.
        "packages = 'opentelemetry', 'requests', 'google', 'rich', 'sansldap', 'jsonschema';"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & set(packages)))"
    )
    root = Path(__file__).resolve().parent.parent.parent
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
