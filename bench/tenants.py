"""`python -m bench.tenants [COUNT]`: processor time, memory and start-up, few tenants and very many.

The tenants are copies of one that the API made, with a signing key, an entity and a name of their own, written as the
service stores them. Times are processor times of the service per operation, so that other programs disturb them little.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import itertools
import time
from collections.abc import Awaitable, Callable

import httpx
import structlog

from bench import programs
from bench.figures import ProcessorTime
from bench.instance import API_KEY, DATABASE, Instance, opened
from identity import termination
from identity.call import Document
from identity.collections import Stores
from identity.domain.webhooks.retry_schedule import RetrySchedule
from identity.ids import TenantId, new_id
from identity.store.instance import InstanceStore
from identity.store.mongo import Database
from identity.store.vault import Vault

_CHUNK = 64
_FEW = 25
"""As many as a page of a search, so that it has the same size in both measurements."""
_FIRST_TOKENS = 200
"""Few enough that these tenants exist in both measurements."""
_GLOBAL = {"Authorization": API_KEY}
_SETTLED_SECONDS = 3.0
_IDLE_LOAD = 0.05
"""The share of a core below which a process only runs its periodic tasks."""

Operation = Callable[[httpx.AsyncClient], Awaitable[httpx.Response]]


class Tenants:
    """The tenants of the instance: the ids of each one's entity, which is a client."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._originals: dict[str, Document] = {}
        self.clients: list[tuple[str, str, str]] = []
        self._turns = itertools.count()
        self._unused = itertools.count()

    async def create_first(self, http: httpx.AsyncClient) -> None:
        """Make the tenant that the others are copies of."""
        made = (await http.post("/api/tenant", json={"tenant": {"name": "Original"}}, headers=_GLOBAL)).json()["tenant"]
        headers = {**_GLOBAL, "X-FusionAuth-TenantId": made["id"]}
        kind = (await http.post("/api/entity/type", json={"entityType": {"name": "Client"}}, headers=headers)).json()
        body = {"entity": {"name": "Original", "type": {"id": kind["entityType"]["id"]}}}
        entity = (await http.post("/api/entity", json=body, headers=headers)).json()["entity"]
        found = self._stores.documents
        tenant = await found["tenants"].get(None, made["id"])
        self._originals = {
            "tenants": tenant,
            "keys": await found["keys"].get(None, tenant["jwtConfiguration"]["accessTokenKeyId"]),
            "entities": await found["entities"].get(TenantId(made["id"]), entity["id"]),
        }
        self.clients.append((made["id"], entity["clientId"], entity["clientSecret"]))

    async def copy(self, count: int) -> None:
        """Write copies until there are `count` tenants."""
        for first in range(len(self.clients), count, _CHUNK):
            await asyncio.gather(*(self._copy_one(number) for number in range(first, min(first + _CHUNK, count))))

    async def _copy_one(self, number: int) -> None:
        tenant, key, entity = (copy.deepcopy(self._originals[name]) for name in ("tenants", "keys", "entities"))
        old_key_id = key["id"]
        tenant.update(id=new_id(), name=f"Tenant {number:05}", issuer=f"https://{number}.tenants.example.com")
        tenant["private"]["issuer"] = tenant["issuer"]
        key.update(id=new_id(), kid=new_id(), name=f"Key {number:05}")
        key["private"]["tenantId"] = tenant["id"]
        for name, value in tenant["jwtConfiguration"].items():
            if value == old_key_id:
                tenant["jwtConfiguration"][name] = key["id"]
        entity.update(id=new_id(), clientId=new_id(), tenantId=tenant["id"], name=f"Entity {number:05}")
        await self._stores.documents["keys"].insert(None, key)
        await self._stores.documents["tenants"].insert(None, tenant)
        await self._stores.documents["entities"].insert(TenantId(tenant["id"]), entity)
        self.clients.append((tenant["id"], entity["clientId"], entity["clientSecret"]))

    def next_client(self) -> tuple[str, str, str]:
        """The client of one of the first tenants, in turn: the active tenants of a process."""
        return self.clients[next(self._turns) % _FEW]

    def unused_client(self) -> tuple[str, str, str]:
        """The client of a tenant beyond them that no other call returns, until all were returned."""
        return self.clients[_FEW + next(self._unused) % (len(self.clients) - _FEW)]


def _operations(tenants: Tenants) -> dict[str, tuple[Operation, int]]:
    """Each operation, and how often it is measured."""
    last: dict[str, str] = {}

    async def token(http: httpx.AsyncClient) -> httpx.Response:
        return await token_of(http, tenants.next_client())

    async def first_token(http: httpx.AsyncClient) -> httpx.Response:
        return await token_of(http, tenants.unused_client())

    async def token_of(http: httpx.AsyncClient, client: tuple[str, str, str]) -> httpx.Response:
        _, client_id, secret = client
        answer = await http.post("/oauth2/token", data={"grant_type": "client_credentials"}, auth=(client_id, secret))
        last.update(answer.json() if answer.status_code == 200 else {}, client_id=client_id, secret=secret)
        return answer

    async def introspect(http: httpx.AsyncClient) -> httpx.Response:
        form = {"token": last.get("access_token", "none")}
        return await http.post("/oauth2/introspect", data=form, auth=(last["client_id"], last["secret"]))

    def get(path: str) -> Operation:
        return lambda http: http.get(path, headers=_GLOBAL)

    async def one_tenant(http: httpx.AsyncClient) -> httpx.Response:
        return await http.get(f"/api/tenant/{tenants.next_client()[0]}", headers=_GLOBAL)

    async def new_tenant(http: httpx.AsyncClient) -> httpx.Response:
        return await http.post("/api/tenant", json={"tenant": {"name": new_id()}}, headers=_GLOBAL)

    return {
        "token by client credentials": (token, 300),
        "token, the first of a tenant": (first_token, _FIRST_TOKENS),
        "introspection": (introspect, 300),
        "GET /api/tenant/{id}": (one_tenant, 200),
        "GET /api/tenant/search?name=*0001*": (get("/api/tenant/search?name=*0001*&numberOfResults=25"), 40),
        "GET /api/tenant/search, 25 of all": (get("/api/tenant/search?numberOfResults=25"), 40),
        "GET /api/tenant": (get("/api/tenant"), 1),
        "new tenant": (new_tenant, 8),
    }


async def _measure(instance: Instance, tenants: Tenants) -> None:
    print(f"start: {await instance.add_process():.2f} s,", end=" ")
    process = instance.processes[0]
    print(f"{programs.processor_seconds(process.pid):.2f} s of processor; {process.resident_megabytes():.0f} MB")
    spent_after = await _settled(process.pid)
    print(
        f"  work after the start: {spent_after:.2f} s of processor; {process.resident_megabytes():.0f} MB", flush=True
    )
    async with httpx.AsyncClient(base_url=process.url, timeout=120, trust_env=False) as http:
        for name, (operation, count) in _operations(tenants).items():
            for _ in range(min(_FEW, count)):
                await operation(http)
            await asyncio.sleep(0.2)
            stores = instance.processor_seconds()
            slowest = 0.0
            for _ in range(count):
                began = time.perf_counter()
                answer = await operation(http)
                slowest = max(slowest, time.perf_counter() - began)
                assert answer.status_code == 200, answer.text
            spent = instance.processor_seconds()
            milliseconds = [
                (after - before) * 1000 / count for before, after in zip(_parts(stores), _parts(spent), strict=True)
            ]
            print(
                f"  {name}: service {milliseconds[0]:.2f} ms, MongoDB {milliseconds[1]:.2f} ms,"
                f" slowest {slowest * 1000:.0f} ms; {process.resident_megabytes():.0f} MB",
                flush=True,
            )
        await asyncio.sleep(_SETTLED_SECONDS)
        print(f"at rest: {process.resident_megabytes():.0f} MB")
    await instance.stop()


async def _settled(pid: int) -> float:
    """Wait until the process has no more work of its own; return the processor seconds that it needed."""
    began = before = programs.processor_seconds(pid)
    while True:
        await asyncio.sleep(_SETTLED_SECONDS)
        now = programs.processor_seconds(pid)
        if now - before < _IDLE_LOAD * _SETTLED_SECONDS:
            return now - began
        before = now


def _parts(spent: ProcessorTime) -> tuple[float, float]:
    return spent.service, spent.mongodb


async def _main(count: int) -> None:
    async with opened() as instance:
        await instance.add_process()
        database = Database(instance.mongodb_uri, DATABASE)
        vault = Vault.of_file(instance.folder / "data" / "master.key")
        vault.with_fingerprint_key((await InstanceStore(database).ensure(vault)).fingerprint_key)
        stores = Stores(database, vault, RetrySchedule([1]))
        tenants = Tenants(stores)
        async with httpx.AsyncClient(base_url=instance.urls[0], timeout=60, trust_env=False) as http:
            await tenants.create_first(http)
        await instance.stop()
        await tenants.copy(_FEW + 2 * _FIRST_TOKENS)
        await _measure(instance, tenants)
        began = time.perf_counter()
        await tenants.copy(count)
        print(f"{count} tenants written in {time.perf_counter() - began:.0f} s")
        await _measure(instance, tenants)
        database.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="bench.tenants", description="Measure hundreds of tenants and very many.")
    parser.add_argument("count", nargs="?", type=int, default=10_000)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    termination.run(_main(parser.parse_args().count))
