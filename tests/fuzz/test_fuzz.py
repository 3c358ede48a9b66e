"""Thousands of requests made up from the OpenAPI document: no crash, no 500, no answer that breaks its promise.

The short run here belongs to the gate: a good and a bad request of every operation. `make fuzz` sends FUZZ_REQUESTS of
them, 20,000 by default, in the order of FUZZ_SEED, where 0 is a random one. A failure names the request as a curl
command; the seed repeats the run.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import os
import random
from typing import Any

import pytest
import structlog

from identity import app
from identity.operations import status
from tests import openapi
from tests.conftest import DEFAULT_TENANT, MANAGER_KEY, SUPER_KEY, checking_client
from tests.fuzz import fuzzing, objects, published

COUNT = int(os.environ.get("FUZZ_REQUESTS", "900"))
SEED = int(os.environ.get("FUZZ_SEED", "1")) or random.SystemRandom().randrange(1, 2**31)

pytestmark = [
    pytest.mark.timeout(max(180, COUNT)),
    pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:schemathesis"),
]


def headers_for(path: str) -> dict[str, str]:
    """A key that may do what the path is for, in the default tenant where one is needed."""
    if path.startswith("/api/api-key"):
        return {"Authorization": MANAGER_KEY}
    if path.startswith("/api/tenant"):
        return {"Authorization": SUPER_KEY}
    return {"Authorization": SUPER_KEY, "X-FusionAuth-TenantId": DEFAULT_TENANT}


@pytest.mark.requirement("openapi-7")
async def test_no_request_breaks_the_service_or_a_promise(build) -> None:
    async with build() as service:
        report = await fuzz(service, openapi.served(), COUNT, fuzzing.of_ours)
    if COUNT >= 900:
        paths = openapi.served()["paths"].items()
        assert report.operations.keys() == {f"{method.upper()} {path}" for path, methods in paths for method in methods}


@pytest.mark.requirement("openapi-7")
async def test_neither_does_a_request_of_the_published_document(build) -> None:
    async with build() as service:
        await fuzz(service, published.document(), COUNT // 3, fuzzing.of_everything)


async def fuzz(
    service: app.Service, document: dict[str, Any], count: int, check_event: fuzzing.Judge, *, planted: bool = True
) -> fuzzing.Report:
    """One run, with objects to begin with if they are `planted`. Raises AssertionError."""
    errors = Errors()
    headers = {"Authorization": SUPER_KEY, "X-FusionAuth-TenantId": DEFAULT_TENANT}
    async with (
        checking_client(service.base_url, headers=headers) as api,
        checking_client(service.base_url, headers={"Authorization": MANAGER_KEY}) as manager,
    ):
        own_keys = {key["id"] for key in (await manager.get("/api/api-key/search")).json()["apiKeys"]}
        fuzzer = fuzzing.Fuzzer(service.base_url, headers_for, {DEFAULT_TENANT, *own_keys}, SEED)
        if planted:
            await objects.plant(api, manager, fuzzer.known)
        with structlog.testing.capture_logs() as logs:
            logging.getLogger().addHandler(errors)
            try:
                await asyncio.to_thread(fuzzer.run, document, count, check_event)
            finally:
                logging.getLogger().removeHandler(errors)
        print(fuzzer.report)
        logged = [str(entry) for entry in logs if entry["log_level"] in {"error", "critical"}] + errors.lines
        assert not fuzzer.report.failures, str(fuzzer.report)
        assert not unexpected(logged), f"seed {SEED}: {unexpected(logged)[:10]}"
        assert fuzzer.report.count >= count
        if count >= 200:
            assert len(fuzzer.report.well) > len(fuzzer.report.operations) / 4, str(fuzzer.report)
        assert (await api.get("/api/status")).json()["version"], "the fuzzer's own key stopped working"
    return fuzzer.report


def only(path: str) -> dict[str, Any]:
    """Our document with one path alone."""
    return {**openapi.served(), "paths": {path: copy.deepcopy(openapi.served()["paths"][path])}}


async def test_failure_of_the_service_is_found(service, monkeypatch) -> None:
    """What cannot be written as JSON fails after the operation is done."""
    monkeypatch.setattr(status, "API_VERSION", {"no", "JSON"})
    with pytest.raises(AssertionError, match="the service failed"):
        await fuzz(service, only("/api/system/version"), 3, fuzzing.of_ours, planted=False)


async def test_broken_promise_is_found(service) -> None:
    document = only("/api/system/version")
    content = document["paths"]["/api/system/version"]["get"]["responses"]["200"]["content"]
    content["application/json"]["schema"] = {"type": "object", "required": ["promised"]}
    with pytest.raises(AssertionError, match="promised"):
        await fuzz(service, document, 3, fuzzing.of_ours, planted=False)


class Errors(logging.Handler):
    """What libraries log as errors."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def unexpected(lines: list[str]) -> list[str]:
    """Errors but for the access log's line of an answer that says itself what failed."""
    found = tuple(f"'status': {status}" for status in fuzzing.ALLOWED_FAILURES)
    return [line for line in lines if not any(status in line for status in found)]
