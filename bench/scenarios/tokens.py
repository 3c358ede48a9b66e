"""The token endpoint: refresh tokens that stay, refresh tokens that rotate, and codes."""

from __future__ import annotations

import urllib.parse
from collections.abc import Awaitable, Callable, Sequence

from bench import figures, objects, wrk
from bench.figures import Budget, Figure
from bench.floors import BARE_POST, RSA, UPDATE
from bench.peer import PEER
from bench.scenarios import Bench, Scenario


def _refresh(name: str) -> Callable[[Bench], Awaitable[Figure]]:
    async def measure(bench: Bench) -> Figure:
        client = bench.objects.clients[name]
        headers = {**objects.FORM, "Authorization": client.authorization}
        shares = [
            await objects.refresh_tokens(url, client, bench.people(index)) for index, url in enumerate(bench.urls)
        ]

        def load(index: int) -> wrk.Load:
            forms = [f"grant_type=refresh_token&refresh_token={token}" for token in shares[index]]
            return wrk.cycle("POST", "/oauth2/token", [wrk.Request(headers, form) for form in forms])

        return await bench.rate(load)

    return measure


async def _rotation(bench: Bench) -> Figure:
    return figures.median([await _rotation_round(bench) for _ in range(bench.rounds)])


async def _rotation_round(bench: Bench) -> Figure:
    client = bench.objects.clients["one-time"]
    shares = [await objects.refresh_tokens(url, client, bench.people(index)) for index, url in enumerate(bench.urls)]

    def load(index: int) -> wrk.Load:
        return wrk.Load(
            "rotation.lua",
            lambda file: ("/oauth2/token", client.authorization, file),
            shares[index],
            # Fewer connections than tokens: none has to wait for another one's answer.
            connections=min(16, len(shares[index]) // 2),
            counts_good=True,
        )

    return await bench.round(load)


def _codes(name: str, scope: str) -> Callable[[Bench], Awaitable[Figure]]:
    async def measure(bench: Bench) -> Figure:
        client = bench.objects.clients[name]

        def arguments(file: str) -> Sequence[str]:
            return (client.request(scope), objects.CODE_FORM, client.authorization, file)

        def load(index: int) -> wrk.Load:
            cookies = [person.cookie for person in bench.people(index)]
            return wrk.Load("codes.lua", arguments, cookies, counts_good=True)

        return await bench.rate(load)

    return measure


def _entities(name: str) -> Callable[[Bench], Awaitable[Figure]]:
    async def measure(bench: Bench) -> Figure:
        entity = bench.objects.entities[name]
        headers = {**objects.FORM, "Authorization": entity.authorization}
        form = urllib.parse.urlencode({"grant_type": "client_credentials", "scope": entity.scope})
        return await bench.rate(lambda _index: wrk.cycle("POST", "/oauth2/token", [wrk.Request(headers, form)]))

    return measure


_RS256, _ES256 = (
    "token by client credentials with one target, RS256",
    "token by client credentials with one target, ES256",
)

_CLIENT_CREDENTIALS = Budget(ratio_at_least={RSA: 0.6, PEER: 1.5})
_ROTATION = Budget(at_least=900, ratio_at_least={UPDATE: 0.4})

SCENARIOS = (
    Scenario("client-credentials-rs256", _RS256, _entities("RS256"), _CLIENT_CREDENTIALS, RSA),
    Scenario(
        "client-credentials-es256", _ES256, _entities("ES256"), Budget(ratio_at_least={BARE_POST: 0.55}), BARE_POST
    ),
    Scenario("refresh-rs256", "token by refresh grant, reusable, RS256", _refresh("RS256"), Budget(at_least=1200), RSA),
    Scenario("refresh-es256", "token by refresh grant, reusable, ES256", _refresh("ES256"), against=BARE_POST),
    Scenario("lambda", "token by refresh grant with a populate lambda, ES256", _refresh("lambda"), against=BARE_POST),
    Scenario("rotation", "token by refresh grant, rotating, RS256", _rotation, _ROTATION, UPDATE),
    Scenario(
        "code-rs256", "code exchange with openid, RS256 twice", _codes("RS256", "openid"), Budget(at_least=800), RSA
    ),
    Scenario(
        "code-es256",
        "code exchange with openid, ES256 twice",
        _codes("ES256", "openid"),
        Budget(at_least=1500),
        BARE_POST,
    ),
)
