"""Pages and searches of a hundred and of ten thousand objects: the times should not differ."""

from __future__ import annotations

import asyncio
import copy
import itertools
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

import httpx

from bench.figures import NO_BUDGET, Budget, Figure, Latency
from bench.instance import DATABASE
from bench.objects import API
from bench.scenarios import Bench, Scenario
from identity.domain.objects import name_suffixes
from identity.store.mongo import Database
from identity.store.store_circuit_breaker import time_limit

FEW, MANY = 100, 10_000
_PAGE = 25
_SETTLED_SECONDS = 1.5
_LEAST = 20
_MARK = "Listed"

Fill = Callable[[httpx.AsyncClient], Awaitable[str]]
"""Makes one object through the API and answers its id: the others are copied from what is stored of it."""


async def _application(http: httpx.AsyncClient) -> str:
    made = await http.post("/api/application", json={"application": {"name": f"{_MARK} {uuid.uuid4()}"}})
    return str(made.json()["application"]["id"])


async def _entity(http: httpx.AsyncClient) -> str:
    wanted = {"name": f"{_MARK} {uuid.uuid4()}", "permissions": [{"name": "read"}, {"name": "write"}]}
    kind = (await http.post("/api/entity/type", json={"entityType": wanted})).json()["entityType"]
    made = await http.post("/api/entity", json={"entity": {"name": _MARK, "type": {"id": kind["id"]}}})
    return str(made.json()["entity"]["id"])


async def _key(http: httpx.AsyncClient) -> str:
    wanted = {"key": {"name": f"{_MARK} {uuid.uuid4()}", "algorithm": "ES256"}}
    return str((await http.post("/api/key/generate", json=wanted)).json()["key"]["id"])


_KINDS: Mapping[str, tuple[str, Fill]] = {
    "applications": ("/api/application", _application),
    "entities": ("/api/entity", _entity),
    "keys": ("/api/key", _key),
}


def _copies(kind: str, stored: dict[str, Any], count: int) -> Iterator[dict[str, Any]]:
    """As many documents as are wanted, each with a name and an id of its own; nothing in them is sealed."""
    for index in range(count):
        own = str(uuid.uuid4())
        document = {**copy.deepcopy(stored), "_id": own, "name": f"{_MARK} {index:05}", "insertInstant": index}
        if kind == "applications":
            document["oauthConfiguration"] |= {"clientId": own, "clientSecret": own}
        elif kind == "entities":
            document |= {"clientId": own, "clientSecret": own}
            document["private"]["terms"] = [own, document["name"].lower()]
        else:
            document |= {"kid": own, "privateKey": own}
        if kind != "entities":
            document["private"] = {"endings": name_suffixes.of(document["name"])}
        yield document


async def _filled(bench: Bench, kind: str, count: int) -> None:
    """Have so many objects of a kind, made by earlier scenarios or now."""
    database = Database(bench.instance.mongodb_uri, DATABASE)
    try:
        with time_limit(0):
            await _fill(database, bench.urls[0], kind, count)
    finally:
        database.close()


async def _fill(database: Database, url: str, kind: str, count: int) -> None:
    _, make = _KINDS[kind]
    collection = database.motor[kind]
    if await collection.count_documents({"name": {"$regex": f"^{_MARK} [0-9]"}}) == count:
        return
    await collection.delete_many({"name": {"$regex": f"^{_MARK}"}})
    async with httpx.AsyncClient(base_url=url, headers=API, timeout=60, trust_env=False) as http:
        stored = await collection.find_one_and_delete({"_id": await make(http)})
    for documents in _batches(_copies(kind, stored or {}, count)):
        await collection.insert_many(documents)
    await asyncio.sleep(_SETTLED_SECONDS)


def _batches(documents: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    while batch := list(itertools.islice(documents, 1000)):
        yield batch


def _requests(kind: str, deed: str, count: int) -> Iterator[Mapping[str, Any]]:
    """Pages near the front, where lists are read, and names from everywhere, of which no two are alike."""
    for index in itertools.count():
        at = index * 7919 % count
        if deed == "page":
            yield {"startRow": index % (FEW // _PAGE) * _PAGE, "numberOfResults": _PAGE}
        elif kind == "entities":
            yield {"queryString": f"{_MARK} {at:05}"}
        else:
            yield {"name": f"{_MARK} {at:05}"}


async def _times(url: str, kind: str, deed: str, count: int, seconds: float) -> list[float]:
    times: list[float] = []
    path = f"{_KINDS[kind][0]}/search"
    async with httpx.AsyncClient(base_url=url, headers=API, timeout=60, trust_env=False) as http:
        begin = time.perf_counter()
        for request in _requests(kind, deed, count):
            start = time.perf_counter()
            answer = await http.post(path, json={"search": request})
            times.append((time.perf_counter() - start) * 1000)
            found = len(answer.json()[kind])
            if found != (_PAGE if deed == "page" else 1):
                raise RuntimeError(f"{path} answered {found} {kind}")
            if len(times) >= _LEAST and start - begin > seconds:
                return times
    raise AssertionError


def _listing(kind: str, deed: str, count: int) -> Scenario:
    async def measure(bench: Bench) -> Figure:
        await _filled(bench, kind, count)
        taken = await asyncio.gather(*(_times(url, kind, deed, count, bench.seconds) for url in bench.urls))
        # The first request of each process counts everything, and the others remember it.
        times = sorted(itertools.chain.from_iterable(one[1:] for one in taken))
        return Figure(times[len(times) // 2], "ms", Latency(times[len(times) // 2], times[len(times) * 95 // 100]))

    def title(of: int) -> str:
        return f"{'page of 25' if deed == 'page' else 'search for one name'}, {of:,} {kind}"

    budget = Budget(ratio_at_most={title(FEW): 1.2}) if count == MANY else NO_BUDGET
    return Scenario(f"{deed}-{kind}-{count}", title(count), measure, budget, group="lists")


SCENARIOS = tuple(
    _listing(kind, deed, count) for kind in _KINDS for count in (FEW, MANY) for deed in ("page", "search")
)
