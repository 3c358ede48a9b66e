"""Password logins through the hosted form, and their effect on other requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import httpx

from bench import batch, figures, objects, wrk
from bench.figures import Budget, Figure
from bench.floors import ARGON2ID, PBKDF2
from bench.scenarios import Bench, Scenario, reads

_USERS = 24
_SCHEMES: Mapping[str, Mapping[str, Any]] = {
    "argon2id": {"encryptionScheme": "argon2id", "factor": 2},
    "pbkdf2": {"encryptionScheme": "salted-pbkdf2-hmac-sha256", "factor": 24_000},
}
_CONNECTIONS = 8
_PATH = "/oauth2/authorize"
_LOGINS_PER_SECOND = 64
"""Of BENCH_SECONDS, for each process: a round takes about two seconds where two cores do 70 logins a second."""
_PAUSE_MS = 20
"""Between two calls of a connection: with the above, at most 400 calls a second during the logins."""


def _login(scheme: str) -> Callable[[Bench], Awaitable[Figure]]:
    async def measure(bench: Bench) -> Figure:
        prepared = [[one.encode("POST", _PATH) for one in share] for share in await _requests(bench, scheme)]
        count = len(bench.urls) * max(_USERS, round(_LOGINS_PER_SECOND * bench.seconds))
        rounds = [
            await bench.figure(batch.send(bench.urls, prepared, _CONNECTIONS, count)) for _ in range(bench.rounds)
        ]
        return figures.median(rounds)

    return measure


async def _userinfo_during_logins(bench: Bench) -> Figure:
    """The p99 of userinfo, called at an even pace, while passwords are compared."""
    loads = [
        wrk.cycle("POST", _PATH, share, location_has="code=", connections=_CONNECTIONS)
        for share in await _requests(bench, "argon2id")
    ]
    logins = wrk.together(bench.urls, lambda index: loads[index], bench.seconds)
    others = wrk.together(bench.urls, lambda index: _paced(bench, index), bench.seconds)
    outcome, other = await asyncio.gather(logins, others)
    return Figure(other.latency.p99_ms or 0.0, "ms", fault=outcome.fault or other.fault)


def _paced(bench: Bench, index: int) -> wrk.Load:
    return reads.userinfo(bench, index, connections=_CONNECTIONS, pause_ms=_PAUSE_MS)


async def _requests(bench: Bench, scheme: str) -> Sequence[Sequence[wrk.Request]]:
    """Return login requests for each process, each with users of its own."""
    client = bench.objects.clients["RS256"]
    shares = [(url, await _users(url, scheme, index)) for index, url in enumerate(bench.urls)]
    return [await objects.login_requests(url, client, names) for url, names in shares]


async def _users(url: str, scheme: str, index: int) -> Sequence[str]:
    names = [f"{scheme}-{index}-{number}@example.com" for number in range(_USERS)]
    async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as http:
        known = await http.get("/api/user", params={"email": names[-1]}, headers=objects.API)
        if known.status_code != 200:
            for name in names:
                await objects.create_user(http, name, _SCHEMES[scheme])
    return names


SCENARIOS = (
    Scenario(
        "login-argon2id",
        "password login, argon2id",
        _login("argon2id"),
        Budget(ratio_at_least={ARGON2ID: 0.75}),
        ARGON2ID,
    ),
    Scenario("login-pbkdf2", "password login, PBKDF2 24,000", _login("pbkdf2"), against=PBKDF2),
    Scenario(
        "userinfo-during-logins",
        "p99 of userinfo while passwords are compared",
        _userinfo_during_logins,
        Budget(at_most=100),
    ),
)
