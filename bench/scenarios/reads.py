"""Requests that change nothing: discovery, keys, API-key checks, userinfo, and the verification of a token."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

import httpx

from bench import wrk
from bench.figures import NO_BUDGET, Budget, Figure
from bench.floors import BARE_GET, BARE_POST
from bench.instance import DATABASE
from bench.objects import API, FORM
from bench.programs import ROOT
from bench.scenarios import Bench, Scenario


def _same(path: str, headers: dict[str, str]) -> Callable[[Bench], wrk.Load]:
    return lambda _bench: wrk.cycle("GET", path, [wrk.Request(headers)])


def _application(bench: Bench) -> wrk.Load:
    client = bench.objects.clients["RS256"]
    return wrk.cycle("GET", f"/api/application/{client.client_id}", [wrk.Request(API)])


def _user(_bench: Bench) -> wrk.Load:
    return wrk.cycle("GET", "/api/user?email=user-0%40example.com", [wrk.Request(API)])


def userinfo(bench: Bench, index: int, *, connections: int = 16, pause_ms: int = 0) -> wrk.Load:
    """Userinfo with the access tokens of the people of one process."""
    bearers = [wrk.Request({"Authorization": f"Bearer {person.access_token}"}) for person in bench.people(index)]
    return wrk.cycle("GET", "/oauth2/userinfo", bearers, connections=connections, pause_ms=pause_ms)


def _reading(name: str, title: str, load: Callable[[Bench], wrk.Load], budget: Budget = NO_BUDGET) -> Scenario:
    async def measure(bench: Bench) -> Figure:
        return await bench.rate(lambda _index: load(bench))

    return Scenario(name, title, measure, budget, BARE_GET, budget_processes=1)


async def _userinfo(bench: Bench) -> Figure:
    return await bench.rate(lambda index: userinfo(bench, index))


async def _introspection(bench: Bench) -> Figure:
    client = bench.objects.clients["RS256"]
    headers = {**FORM, "Authorization": client.authorization}
    async with httpx.AsyncClient(base_url=bench.urls[0], headers=headers, trust_env=False) as http:
        answer = await http.post("/oauth2/introspect", content=f"token={bench.objects.people[0].access_token}")
    # A token that does not count gets a 200 as well, and sooner.
    if not answer.json()["active"]:
        return Figure(0, "/s", fault="the token is not active")

    def load(index: int) -> wrk.Load:
        forms = [wrk.Request(headers, f"token={person.access_token}") for person in bench.people(index)]
        return wrk.cycle("POST", "/oauth2/introspect", forms)

    return await bench.rate(load)


async def _verification(bench: Bench) -> Figure:
    """One program for each process of the instance, because this does not go through HTTP."""
    instance = bench.instance
    runs = [
        asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.verification",
            instance.mongodb_uri, DATABASE, instance.redis_url, str(instance.folder / "data"), str(bench.seconds),
            cwd=ROOT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )
        for _ in bench.urls
    ]  # fmt: skip
    programs = await asyncio.gather(*runs)
    tokens = "\n".join(person.access_token for person in bench.objects.people).encode()
    try:
        outputs = await asyncio.gather(*(program.communicate(tokens) for program in programs))
    finally:
        for program in programs:
            if program.returncode is None:
                program.kill()
    texts = [output.decode().strip() for output, _ in outputs]
    if any(program.returncode for program in programs):
        return Figure(0, "/s", fault="; ".join(texts)[-500:])
    return Figure(sum(float(text.splitlines()[-1]) for text in texts), "/s")


SCENARIOS = (
    _reading("discovery", "discovery document", _same("/.well-known/openid-configuration", {})),
    _reading("jwks", "JSON Web Key Set", _same("/.well-known/jwks.json", {})),
    _reading("api-key", "API-key check (version)", _same("/api/system/version", API)),
    _reading("application", "API key and one application", _application, Budget(at_least=1500)),
    _reading("user", "API key and a user by email", _user, Budget(at_least=1500)),
    Scenario(
        "introspection", "introspection, RS256", _introspection, Budget(ratio_at_least={BARE_POST: 0.55}), BARE_POST
    ),
    Scenario("userinfo", "userinfo, RS256", _userinfo, Budget(ratio_at_least={BARE_GET: 0.5}), BARE_GET),
    Scenario("verification", "access token verified with deny list and user, no HTTP", _verification),
)
