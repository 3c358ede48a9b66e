"""Random sequences of calls of lesser callers in a privileged tenant: none takes over an administrator.

The short run here belongs to the gate. `make boundary` runs BOUNDARY_SEQUENCES of them, 20,000 by default, in the order
of BOUNDARY_SEED, where 0 is a random one. A failure is printed with the shortest sequence that shows it; the seed
repeats the run.
"""

from __future__ import annotations

import os
import random
import time

import pytest

from tests.boundary import callers, sequences, snapshots, world
from tests.boundary.sequences import Report, Run
from tests.conftest import Build, ShiftedClock
from tests.mailbox import receiving

COUNT = int(os.environ.get("BOUNDARY_SEQUENCES", "300"))
SEED = int(os.environ.get("BOUNDARY_SEED", "1")) or random.SystemRandom().randrange(1, 2**31)

pytestmark = [pytest.mark.timeout(max(300, COUNT))]


@pytest.mark.requirement("console-25")
async def test_no_sequence_of_calls_takes_over_an_administrator(build: Build, session_clock: ShiftedClock) -> None:
    async with receiving() as console_box:
        mail = {"host": "127.0.0.1", "port": console_box.port, "security": "NONE", "from_email": "console@example.com"}
        settings = {f"console_email__{name}": value for name, value in mail.items()}
        settings |= {"client_registration__enabled": True, "audit__api_writes": True}
        async with (
            build(clock=session_clock, **settings) as service,
            world.of(service, session_clock, console_box) as privileged,
            callers.of(privileged) as lesser,
        ):
            run = Run(privileged, lesser, await snapshots.take(privileged), Report(SEED))
            await run.run(COUNT)
    print(run.report)
    print(f"processor time {time.process_time():.0f} s")
    assert not run.report.failures, str(run.report)
