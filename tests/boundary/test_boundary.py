"""Random sequences of calls of lesser callers in a privileged tenant: none takes over an administrator.

The short run here belongs to the gate. `make boundary` runs BOUNDARY_SEQUENCES of them, 20,000 by default, in the order
of BOUNDARY_SEED, where 0 is a random one. A failure is printed with the shortest sequence that shows it; the seed
repeats the run.
"""

from __future__ import annotations

import os
import random
import time
import types
from collections.abc import AsyncIterator
from typing import Any

import pytest

from identity import write_guard
from identity.operations.authorization import sso_bootstrap
from identity.operations.groups import administrator_realm, administrators
from tests.boundary import attack_calls, callers, sequences, snapshots, world
from tests.boundary.attacks import STOLEN_PASSWORD, Attack
from tests.boundary.sequences import Report, Run
from tests.conftest import Build, ShiftedClock
from tests.mailbox import receiving

COUNT = int(os.environ.get("BOUNDARY_SEQUENCES", "300"))
SEED = int(os.environ.get("BOUNDARY_SEED", "1")) or random.SystemRandom().randrange(1, 2**31)

pytestmark = [pytest.mark.timeout(max(600, 5 * COUNT))]


@pytest.fixture(scope="module")
async def run(build: Build, session_clock: ShiftedClock) -> AsyncIterator[Run]:
    """A run over a service of its own, whose console has a mail server."""
    async with receiving() as console_box:
        mail = {"host": "127.0.0.1", "port": console_box.port, "security": "NONE", "from_email": "console@example.com"}
        settings = {f"console_email__{name}": value for name, value in mail.items()}
        settings |= {"client_registration__enabled": True, "audit__api_writes": True}
        async with (
            build(clock=session_clock, **settings) as service,
            world.of(service, session_clock, console_box) as privileged,
            callers.of(privileged) as lesser,
        ):
            yield Run(privileged, lesser, await snapshots.take(privileged), Report(SEED))


@pytest.mark.requirement("console-26")
async def test_no_sequence_of_calls_takes_over_an_administrator(run: Run) -> None:
    run.report = Report(SEED)
    await run.run(COUNT)
    print(f"{run.report}\nprocessor time {time.process_time():.0f} s")
    assert not run.report.failures, str(run.report)
    if COUNT >= 300:  # otherwise refusals alone would prove nothing
        assert run.report.accepted.total() > 0.35 * run.report.calls.total(), str(run.report)
        assert all(run.report.share_of_steps(name) > 0.6 for name in callers.NAMES), str(run.report)


@pytest.fixture
def only(run: Run, monkeypatch: Any) -> Any:
    """A function that restricts the sequences to some attacks of one caller."""

    def restrict(name: str, *attacks: Attack) -> None:
        monkeypatch.setattr(attack_calls, "ATTACKS", list(attacks))
        monkeypatch.setattr(sequences, "_ATTACK_SHARE", 1.0)
        monkeypatch.setattr(sequences, "_FORM_SHARE", 0.0)
        monkeypatch.setattr(callers, "NAMES", (name,))
        run.report = Report(SEED)

    return restrict


@pytest.mark.parametrize("name", ["user-manager", "tenant key"])
async def test_takeover_is_noticed_and_shortened(run: Run, monkeypatch: Any, only: Any, name: str) -> None:
    """Without the guard, one call of several sets the password of an administrator."""

    async def accept(*_: Any) -> None:
        return None

    monkeypatch.setattr(write_guard, "check", accept)
    monkeypatch.setattr(administrators, "require_authority", accept)
    attack = Attack("PATCH", "/api/user/{victimId}", lambda _: {"user": {"password": STOLEN_PASSWORD}})
    harmless = Attack("GET", "/api/user/{personId}")
    only(name, attack, harmless, harmless)
    await run.run(20, maximum_failures=1)
    (failure,) = run.report.failures
    assert "password" in failure
    calls = failure.splitlines()[1:]
    assert len(calls) == 1 and "PATCH /api/user/" in calls[0], failure


async def test_mails_by_the_tenant_are_noticed(run: Run, monkeypatch: Any, only: Any) -> None:
    async def of_user(_services: Any, tenant: Any, _user: Any) -> Any:
        return tenant

    only("tenant key", Attack("GET", "/api/user/{personId}"))
    monkeypatch.setattr(administrator_realm, "of_user", of_user)
    await run.run(1)
    assert "mails: the tenant's server received a mail" in "".join(run.report.failures)


async def test_sessions_by_forged_tokens_are_noticed(run: Run, monkeypatch: Any, only: Any) -> None:
    async def is_administrator(*_: Any) -> bool:
        return False

    only("tenant key", Attack("GET", "/api/user/{personId}"))
    monkeypatch.setattr(sso_bootstrap, "administrators", types.SimpleNamespace(is_administrator=is_administrator))
    await run.run(1)
    assert "sessions changed" in "".join(run.report.failures)
