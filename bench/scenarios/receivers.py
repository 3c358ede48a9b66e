"""Many webhooks, receivers that fail, and backlogs: who is held up by whom, and what a delivery costs.

Comparisons go to and fro between their two sides, and the medians of the rounds are compared, so that whatever else
the machine does falls on both.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import statistics
import time
from collections.abc import AsyncIterator, Sequence

import httpx
import orjson

from bench import objects, pace
from bench.feeder import Feeder, feeding, number_of
from bench.figures import Budget, Figure, Latency, ProcessorTime, rounded
from bench.programs import free_port
from bench.receiver import Receiver, receiving
from bench.scenarios import Bench, Scenario
from bench.scenarios.webhooks import creation_rate, webhooks
from identity.ids import new_id

_PATIENCE_SECONDS = 30
_ROUNDS = 5
_ROUND_SECONDS = 2.0

_MANY = 100
_EVENTS_PER_SECOND_TO_MANY = 2

_EVENTS_PER_SECOND = 200
_WEBHOOKS = 5
_COUNTED = 1500

_LOGINS_PER_SECOND = 25
_USERS = 8
_HANGING_READ_TIMEOUT = 30_000

_BACKLOG = 100_000
_SETTLING_SECONDS = 3.0
_HEARING_SECONDS = 0.5
"""Time for every process to update its cache of webhooks."""
_NEW_PER_SECOND = 20

_ISOLATED = Budget(at_most=110)
_RATES = (20, 40, 60, 80, 100, 125, 150, 200)


async def _cost(bench: Bench) -> Figure:
    """Processor time of the service for one delivery, of a backlog for five webhooks."""
    async with _fed(bench) as (feeder, receiver), webhooks(bench, receiver.url, _WEBHOOKS) as webhook_ids:
        costs = []
        for _ in range(3):
            receiver.forget()
            before = bench.instance.processor_seconds()
            await feeder.fill(webhook_ids, _COUNTED // _WEBHOOKS)
            if not await receiver.wait_for(_COUNTED, _PATIENCE_SECONDS):
                return Figure(0, "ms", fault=f"{len(receiver.instants)} of {_COUNTED} deliveries arrived")
            await asyncio.sleep(0.5)  # until the last of them are written down
            after = bench.instance.processor_seconds()
            costs.append(after.per_1000(before, _COUNTED))
    middle: ProcessorTime = sorted(costs, key=lambda cost: cost.service)[1]
    return Figure(middle.service, "ms", note="the stores include writing the events", processor=middle)


async def _first_attempts(bench: Bench) -> Figure:
    """From the moment at which an event is to be written to its arrival at each of five webhooks."""
    async with _fed(bench) as (feeder, receiver), webhooks(bench, receiver.url, _WEBHOOKS) as webhook_ids:
        waited = await _waited(feeder, receiver, webhook_ids, _EVENTS_PER_SECOND, bench.seconds)
    return Figure(1000 * statistics.median(waited), "ms", Latency.of(waited))


async def _sustained(bench: Bench) -> Figure:
    """The most users that can be created in a second while the p99 of the first attempts stays below a second."""
    best, note = 0, ""
    for rate in _RATES:
        figure = await creation_rate(bench, rate)
        p99_ms = figure.latency.p99_ms or 0.0
        if figure.fault or p99_ms >= 1000:
            note = f"{note}; at {rate}/s {figure.fault or f'p99 {rounded(p99_ms)} ms'}"
            break
        best, note = rate, f"p99 {rounded(p99_ms)} ms"
    return Figure(best, "/s", note=note.lstrip("; "))


async def _isolation(bench: Bench) -> Figure:
    """The p99 of 99 receivers while another hangs, as a share of their p99 while it responds."""
    rounds: dict[bool, list[float]] = {False: [], True: []}
    async with _fed(bench) as (feeder, receiver), webhooks(bench, receiver.url, _MANY) as webhook_ids:
        await _waited(feeder, receiver, webhook_ids, _EVENTS_PER_SECOND_TO_MANY, 1.0)
        for _ in range(_ROUNDS):
            rounds[False].append(await _p99_to_many(feeder, receiver, webhook_ids))
            async with (
                receiving(hangs=True) as dead,
                webhooks(bench, dead.url, 1, read_timeout=_HANGING_READ_TIMEOUT) as hanging,
            ):
                rounds[True].append(await _p99_to_many(feeder, receiver, [*webhook_ids[1:], *hanging], missing=1))
                dead.let_go()
                await feeder.drop(hanging[0])
    return _compared(rounds[True], rounds[False])


async def _p99_to_many(feeder: Feeder, receiver: Receiver, webhook_ids: Sequence[str], missing: int = 0) -> float:
    rate = _EVENTS_PER_SECOND_TO_MANY
    return _quantile(await _waited(feeder, receiver, webhook_ids, rate, _ROUND_SECONDS, missing=missing), 99)


def _logins(state: str) -> Scenario:
    async def measure(bench: Bench) -> Figure:
        """The p99 of /api/login while its five receivers are down, as a part of that while they are up."""
        rounds: dict[str, list[list[float]]] = {"up": [], state: []}
        names = await _users(bench.urls[0])
        async with receiving() as alive, receiving(hangs=True) as dead:
            urls = {"up": alive.url, "hang": dead.url, "refuse": f"http://127.0.0.1:{free_port()}/"}
            for _, kind in itertools.product(range(_ROUNDS), rounds):
                event, timeout = "user.login.success", _HANGING_READ_TIMEOUT
                async with webhooks(bench, urls[kind], _WEBHOOKS, event, timeout):
                    rounds[kind].append(await _login_times(bench, names))
                dead.let_go()
        ratios = {part: _ratio(rounds[state], rounds["up"], part) for part in (50, 95, 99)}
        summary = ", ".join(f"p{part} {rounded(ratio)} %" for part, ratio in ratios.items())
        return Figure(ratios[99], "%", note=f"{summary}; p99 {_formatted(_p99s(rounds['up']))}")

    title = f"p99 of logins while 5 receivers {state}, against receivers that answer"
    return Scenario(f"logins-{state}", title, measure, _ISOLATED, group="receivers")


async def _login_times(bench: Bench, names: Sequence[str]) -> list[float]:
    took: list[float] = []
    count = round(_LOGINS_PER_SECOND * _ROUND_SECONDS)
    faults = await pace.send(
        bench.urls, lambda number: _login(names[number % len(names)]), count, _LOGINS_PER_SECOND, took
    )
    if faults:
        raise RuntimeError(faults[0])
    return took


def _login(name: str) -> bytes:
    body = orjson.dumps({"loginId": name, "password": objects.PASSWORD})
    return pace.post("/api/login", body, objects.API)


async def _users(url: str) -> list[str]:
    names = [f"webhook-{number}@example.com" for number in range(_USERS)]
    async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as http:
        known = await http.get("/api/user", params={"email": names[-1]}, headers=objects.API)
        if known.status_code != 200:
            for name in names:
                await objects.create_user(http, name, {"encryptionScheme": "salted-hmac-sha256", "factor": 1})
    return names


async def _during_backlog(bench: Bench) -> Figure:
    """The p99 of new events to one webhook while another's backlog is drained, as a part of that while it waits."""
    waiting, drained, rates = [], [], []
    async with (
        _fed(bench) as (feeder, receiver),
        webhooks(bench, receiver.url, 1) as fresh,
        receiving() as late,
        webhooks(bench, late.url, 1) as behind,
    ):
        await _set_status(bench, behind[0], "Paused")
        await feeder.fill(behind, _BACKLOG, late_seconds=60)
        await asyncio.sleep(_SETTLING_SECONDS)
        for _ in range(_ROUNDS):
            waiting.append(await _p99_of_new(feeder, receiver, fresh))
            await _set_status(bench, behind[0], "Active")
            before, began = len(late.instants), time.perf_counter()
            drained.append(await _p99_of_new(feeder, receiver, fresh))
            rates.append((len(late.instants) - before) / (time.perf_counter() - began))
            await _set_status(bench, behind[0], "Paused")
        await _set_status(bench, behind[0], "Active")
        own = await _p99_of_new(feeder, late, behind)
        await feeder.drop(behind[0])
    figure = _compared(drained, waiting)
    rate = rounded(statistics.median(rates))
    note = f"{figure.note}; the backlog at {rate}/s, new events of its own webhook {_formatted([own])}"
    return Figure(figure.value, "%", note=note)


async def _set_status(bench: Bench, webhook_id: str, status: str) -> None:
    async with httpx.AsyncClient(base_url=bench.urls[0], timeout=30, trust_env=False, headers=objects.API) as http:
        answer = await http.put(f"/api/webhook/{webhook_id}/status", json={"status": status})
        answer.raise_for_status()
    await asyncio.sleep(_HEARING_SECONDS)


async def _p99_of_new(feeder: Feeder, receiver: Receiver, webhook_ids: Sequence[str]) -> float:
    return _quantile(await _waited(feeder, receiver, webhook_ids, _NEW_PER_SECOND, _ROUND_SECONDS), 99)


async def _waited(
    feeder: Feeder,
    receiver: Receiver,
    webhook_ids: Sequence[str],
    per_second: float,
    seconds: float,
    *,
    missing: int = 0,
) -> list[float]:
    """How long each delivery took to arrive; `missing` webhooks have another receiver. Raises RuntimeError."""
    receiver.forget()
    run = new_id()
    due = await feeder.at_pace(webhook_ids, per_second, seconds, run)
    wanted, seen = len(due) * (len(webhook_ids) - missing), 0
    waited: list[float] = []
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while len(waited) < wanted:
        if not await receiver.wait_for(seen + 1, deadline - time.monotonic()):
            raise RuntimeError(f"{len(waited)} of {wanted} deliveries arrived")
        for instant, body in zip(receiver.instants[seen:], receiver.bodies[seen:], strict=True):
            if run.encode() in body:
                waited.append(instant - due[number_of(body)])
            seen += 1
    return waited


@contextlib.asynccontextmanager
async def _fed(bench: Bench) -> AsyncIterator[tuple[Feeder, Receiver]]:
    async with receiving() as receiver, feeding(bench.instance) as feeder:
        yield feeder, receiver


def _compared(with_it: Sequence[float], without: Sequence[float]) -> Figure:
    """The median of one side as a part of the other's."""
    ratio = 100 * statistics.median(with_it) / statistics.median(without)
    return Figure(ratio, "%", note=f"p99 {_formatted(with_it)} instead of {_formatted(without)}")


def _ratio(with_it: Sequence[Sequence[float]], without: Sequence[Sequence[float]], part: int) -> float:
    sides = [statistics.median(_quantile(times, part) for times in side) for side in (with_it, without)]
    return 100 * sides[0] / sides[1]


def _p99s(rounds: Sequence[Sequence[float]]) -> list[float]:
    return [_quantile(times, 99) for times in rounds]


def _formatted(seconds: Sequence[float]) -> str:
    return f"{rounded(1000 * statistics.median(seconds))} ms"


def _quantile(values: Sequence[float], part: int) -> float:
    return statistics.quantiles(values, n=100)[part - 1]


SCENARIOS = (
    Scenario("delivery-cost", "processor time of the service for one delivery", _cost, group="receivers"),
    Scenario(
        "first-attempts", "event written to first attempt, 200 events/s, 5 webhooks", _first_attempts,
        Budget(p99_at_most_ms=1000),
        group="receivers",
    ),
    Scenario("sustained", "users created with 5 webhooks, first attempts within 1 s", _sustained, group="receivers"),
    Scenario("isolation", "p99 of 99 receivers while another hangs", _isolation, _ISOLATED, group="receivers"),
    _logins("refuse"),
    _logins("hang"),
    Scenario(
        "backlog", "p99 of new events during a backlog of 100,000", _during_backlog, _ISOLATED, group="receivers"
    ),
)  # fmt: skip
