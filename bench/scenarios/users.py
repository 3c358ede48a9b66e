"""Imports of users, and what a million of them do to those who log in, are looked for, and register.

The million come in through the API, ten thousand in a call. BENCH_USERS is how many they are, where not a million.
"""

from __future__ import annotations

import base64
import hmac
import itertools
import os
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

import httpx
import orjson

from bench.figures import NO_BUDGET, Budget, Figure, Latency
from bench.objects import API, PASSWORD
from bench.scenarios import Bench, Scenario

FEW, MANY = 1_000, int(os.environ.get("BENCH_USERS", "1000000"))
_CALL = 10_000
_LEAST = 100
_STRIDE = 7919
"""Users are called in an order that no cache knows: every so-manieth, and round again."""

_SALT = b"a salt of the benchmarks"
_HASH = {
    "encryptionScheme": "salted-hmac-sha256",
    "salt": base64.b64encode(_SALT).decode(),
    "password": base64.b64encode(hmac.digest(_SALT, PASSWORD.encode(), "sha256")).decode(),
}
_JSON = {**API, "Content-Type": "application/json"}
_GROUP = "users-1000000"

_there: dict[str, int] = {}
"""How many users an instance has, by where its stores are."""

Request = tuple[str, Mapping[str, Any]]


def _address(index: int) -> str:
    return f"user-{index}@imported.example.com"


def _body(first: int, count: int) -> bytes:
    users = [
        {
            "email": _address(index),
            "username": f"user-{index}",
            "firstName": f"First {index % 5000}",
            "lastName": f"Last {index % 9000}",
            "birthDate": "1981-06-04",
            "active": True,
            "data": {"number": index},
            **_HASH,
        }
        for index in range(first, first + count)
    ]
    return orjson.dumps({"users": users})


async def _import(url: str, first: int, count: int) -> float:
    """Import so many users; answers the seconds that the service took."""
    seconds = 0.0
    async with httpx.AsyncClient(base_url=url, headers=_JSON, timeout=600, trust_env=False) as http:
        for at in range(first, first + count, _CALL):
            body = _body(at, min(_CALL, first + count - at))
            began = time.perf_counter()
            answer = await http.post("/api/user/import", content=body)
            seconds += time.perf_counter() - began
            if answer.status_code != 200:
                raise RuntimeError(f"the import failed with {answer.status_code}: {answer.text[:500]}")
    return seconds


async def _filled(bench: Bench, count: int) -> float:
    """Have so many users at least; answers the seconds that the import of those who were missing took."""
    there = _there.get(bench.instance.mongodb_uri, 0)
    if there >= count:
        return 0.0
    seconds = await _import(bench.urls[0], there, count - there)
    _there[bench.instance.mongodb_uri] = count
    return seconds


async def _one_import(bench: Bench) -> Figure:
    """Ten thousand new users in one call."""
    first = 10**9 + int(time.time() * 1000) % 10**8 * 100
    seconds = await _import(bench.urls[-1], first, _CALL)
    return Figure(_CALL / seconds, "/s")


async def _million(bench: Bench) -> Figure:
    missing = MANY - _there.get(bench.instance.mongodb_uri, 0)
    return Figure(missing / await _filled(bench, MANY), "/s")


def _login(index: int) -> Request:
    return "/api/login", {"loginId": _address(index), "password": PASSWORD}


def _search(index: int) -> Request:
    return "/api/user/search", {"search": {"queryString": _address(index)}}


def _registration(application_id: str) -> Callable[[int], Request]:
    def request(_index: int) -> Request:
        user = {"email": f"{uuid.uuid4()}@example.com", "password": PASSWORD, "encryptionScheme": "salted-hmac-sha256"}
        return "/api/user/registration", {"user": user, "registration": {"applicationId": application_id}}

    return request


def _indexes(count: int) -> Iterator[int]:
    return (number * _STRIDE % count for number in itertools.count())


async def _times(bench: Bench, request_of: Callable[[int], Request], count: int) -> Figure:
    """The median and the p95 of one caller after another."""
    times: list[float] = []
    async with httpx.AsyncClient(base_url=bench.urls[0], headers=API, timeout=60, trust_env=False) as http:
        begin = time.perf_counter()
        for index in _indexes(count):
            path, body = request_of(index)
            start = time.perf_counter()
            answer = await http.post(path, json=body)
            times.append((time.perf_counter() - start) * 1000)
            if answer.status_code not in {200, 202}:
                raise RuntimeError(f"{path} answered {answer.status_code}: {answer.text[:500]}")
            if path.endswith("/search") and len(answer.json()["users"]) != 1:
                raise RuntimeError(f"{path} did not find one user")
            if len(times) > _LEAST and start - begin > bench.seconds:
                break
    # The first ones open connections and fill caches.
    times = sorted(times[_LEAST // 10 :])
    return Figure(times[len(times) // 2], "ms", Latency(times[len(times) // 2], times[len(times) * 95 // 100]))


def _measuring(deed: str, count: int) -> Callable[[Bench], Awaitable[Figure]]:
    async def measure(bench: Bench) -> Figure:
        await _filled(bench, count)
        application_id = bench.objects.clients["RS256"].client_id
        makers = {"login": _login, "search": _search, "registration": _registration(application_id)}
        return await _times(bench, makers[deed], count)

    return measure


_TITLES = {"login": "login by API", "search": "search by e-mail", "registration": "registration of a new user"}


def _title(deed: str, count: int) -> str:
    return f"{_TITLES[deed]}, {count:,} users"


def _scenarios() -> Iterator[Scenario]:
    def alone(
        name: str, title: str, measure: Callable[[Bench], Awaitable[Figure]], budget: Budget = NO_BUDGET
    ) -> Scenario:
        return Scenario(name, title, measure, budget, group=_GROUP, processes=1)

    yield Scenario("import", "import of 10,000 users in one call", _one_import)
    for deed in _TITLES:
        yield alone(f"{deed}-1000", _title(deed, FEW), _measuring(deed, FEW))
    yield alone("import-1000000", f"import of {MANY:,} users", _million)
    for deed in _TITLES:
        budget = Budget(ratio_at_most={_title(deed, FEW): 1.2})
        yield alone(f"{deed}-1000000", _title(deed, MANY), _measuring(deed, MANY), budget)


SCENARIOS = tuple(_scenarios())
