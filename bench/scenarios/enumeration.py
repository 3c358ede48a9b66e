"""Whether response times reveal accounts: the same failing request for users of all sorts, and their medians.

The figure is the largest difference between two medians, as a part of the median for a wrong password. Chance says
which sort comes next, so that whatever else the machine does falls on all of them alike. With the cheap scheme a
password costs next to nothing, so that differences are not covered by the time of a hash; argon2id is what
a tenant has.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import httpx

from bench import objects
from bench.figures import Budget, Figure
from bench.scenarios import Bench, Scenario

_CHEAP = ("salted-hmac-sha256", 1, 1000)
_USUAL = ("argon2id", 2, 1000)
_WARM_UP = 20
_WRONG = "not the password"
_CHANCE = random.SystemRandom()


def _logins(scheme: str, factor: int, trials: int) -> Callable[[Bench], Awaitable[Figure]]:
    async def measure(bench: Bench) -> Figure:
        async with httpx.AsyncClient(base_url=bench.urls[0], timeout=60, trust_env=False) as http:
            tenant_id, names = await _prepared(http, scheme, factor)
            requests = {sort: {"loginId": name, "password": _WRONG} for sort, name in names.items()}
            return await _compared(http, "/api/login", requests, tenant_id, trials, 404, objects.API)

    return measure


async def _resets(bench: Bench) -> Figure:
    """Only the user with the right password's mail is made, when the answer is out."""
    async with httpx.AsyncClient(base_url=bench.urls[0], timeout=60, trust_env=False) as http:
        tenant_id, names = await _prepared(http, *_CHEAP[:2])
        requests = {sort: {"loginId": name} for sort, name in names.items()}
        return await _compared(http, "/api/user/forgot-password", requests, tenant_id, _CHEAP[2], 200, {})


async def _compared(
    http: httpx.AsyncClient,
    path: str,
    requests: Mapping[str, Mapping[str, Any]],
    tenant_id: str,
    trials: int,
    status: int,
    caller: Mapping[str, str],
) -> Figure:
    taken: dict[str, list[float]] = {sort: [] for sort in requests}
    sorts = list(requests)
    for trial in range((trials + _WARM_UP) * len(sorts)):
        # Whatever came before: what goes on after an answer falls on the next request, of each sort as often.
        sort = _CHANCE.choice(sorts)
        # An address of its own for each: what one address may try is not what is measured.
        address = f"198.18.{trial // 250}.{trial % 250}"
        headers = {**caller, "X-FusionAuth-TenantId": tenant_id, "X-Forwarded-For": address}
        began = time.perf_counter()
        answer = await http.post(path, json=requests[sort], headers=headers)
        seconds = time.perf_counter() - began
        if answer.status_code != status:
            return Figure(0, "%", fault=f"{sort}: status {answer.status_code}")
        if trial >= _WARM_UP * len(sorts):
            taken[sort].append(seconds)
    medians = {sort: statistics.median(times) for sort, times in taken.items()}
    spread = max(medians.values()) - min(medians.values())
    summary = ", ".join(f"{sort} {1000 * median:.2f} ms" for sort, median in medians.items())
    print(f"  {path}, about {trials} trials each: {summary}", flush=True)
    return Figure(100 * spread / medians["wrong password"], "%")


async def _prepared(http: httpx.AsyncClient, scheme: str, factor: int) -> tuple[str, Mapping[str, str]]:
    """A tenant whose failed logins lock no user, and a user of each sort; failures trigger no notification."""
    template_id = await _template(http)
    number = time.time_ns()
    wanted = {
        "name": f"Enumeration {scheme} {number}",
        "issuer": f"https://{number}.example.com",
        "passwordEncryptionConfiguration": {"encryptionScheme": scheme, "encryptionSchemeFactor": factor},
        "rateLimitConfiguration": {
            kind: {"enabled": True, "limit": 1_000_000, "timePeriodInSeconds": 3600}
            for kind in ("failedLogin", "forgotPassword")
        },
        "emailConfiguration": {
            "forgotPasswordEmailTemplateId": template_id,
            "verifyEmail": True,
            "verificationEmailTemplateId": template_id,
            "unverified": {"behavior": "Gated"},
        },
    }
    tenant_id = str((await _post(http, "/api/tenant", {"tenant": wanted}, None))["tenant"]["id"])
    for name in ("wrong", "locked", "unverified"):
        user = {"user": {"email": f"{name}@example.com", "password": objects.PASSWORD}}
        made = await _post(http, "/api/user", {**user, "skipVerification": name != "unverified"}, tenant_id)
        if name == "locked":
            headers = {**objects.API, "X-FusionAuth-TenantId": tenant_id}
            await http.delete(f"/api/user/{made['user']['id']}", headers=headers)
    sorts = {"wrong password": "wrong", "unknown user": "nobody", "locked": "locked", "unverified": "unverified"}
    return tenant_id, {sort: f"{name}@example.com" for sort, name in sorts.items()}


async def _template(http: httpx.AsyncClient) -> str:
    text = "${changePasswordId!''}"
    template = {"name": f"Mail {time.time_ns()}", "defaultSubject": "Mail", "defaultTextTemplate": text}
    body = {"emailTemplate": {**template, "defaultHtmlTemplate": text}}
    return str((await _post(http, "/api/email/template", body, None))["emailTemplate"]["id"])


async def _post(http: httpx.AsyncClient, path: str, body: Mapping[str, Any], tenant_id: str | None) -> dict[str, Any]:
    headers = dict(objects.API) if tenant_id is None else {**objects.API, "X-FusionAuth-TenantId": tenant_id}
    answer = await http.post(path, json=body, headers=headers)
    if answer.status_code != 200:
        raise RuntimeError(f"{path}: {answer.status_code} {answer.text[:500]}")
    found: dict[str, Any] = answer.json()
    return found


def _scenario(what: str, measure: Callable[[Bench], Awaitable[Figure]], at_most_percent: float) -> Scenario:
    return Scenario(
        "enumeration",
        f"who has an account: {what} (medians apart)",
        measure,
        Budget(at_most=at_most_percent),
        processes=1,
        group="enumeration",
    )


SCENARIOS = (
    _scenario("logins, a cheap hash", _logins(*_CHEAP), 5),
    _scenario("logins, argon2id", _logins(*_USUAL), 2),
    _scenario("forgotten passwords", _resets, 5),
)
