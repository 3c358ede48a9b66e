"""Random sequences of calls of a lesser caller, and the rule that they must not break.

No caller ends with more authority than it began with: after each sequence and the takeover recipes the administrators
hold what they held before, but for changes that the caller had the authority for.
"""

from __future__ import annotations

import collections
import dataclasses
import random
from collections.abc import Sequence
from typing import Any, Final

from identity import permissions
from tests.boundary import attack_calls, callers, calls, flows, snapshots, takeovers
from tests.boundary.attacks import Target
from tests.boundary.callers import Caller, Callers
from tests.boundary.forms import Forms
from tests.boundary.snapshots import Snapshot
from tests.boundary.takeovers import Attempt
from tests.boundary.victims import Held, covers
from tests.boundary.world import World
from tests.fuzz.known_values import KnownValues

_STEPS: Final = 4
_FLUSHED_AFTER: Final = 500
"""The number of sequences after which a long run reports and deletes what expires."""
_DRAWS: Final = 5
"""How often a step is drawn until the service accepts its call."""
_FLOW_SHARE: Final = 0.9
_ATTACK_SHARE: Final = 0.4
_TENANT_WEIGHT: Final = 3
"""Most recipes depend on a setting of the tenant."""
_FORM_SHARE: Final = 0.3
_FORM_SHARES: Final = {"auditor": 0.1}
"""An auditor's forms are all refused."""
_MAXIMUM_LOOT: Final = 20_000


@dataclasses.dataclass(frozen=True)
class Step:
    """A step of a sequence: its seed decides about its calls."""

    seed: str


@dataclasses.dataclass
class Report:
    """What a run did, by caller, and what it found."""

    seed: int
    sequences: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    calls: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    accepted: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    steps: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    accepted_steps: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    labels: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    accepted_labels: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    failures: list[str] = dataclasses.field(default_factory=list)

    def share(self, name: str) -> float:
        """Return the share of the calls of a caller that the service accepted."""
        return self.accepted[name] / max(1, self.calls[name])

    def share_of_steps(self, name: str) -> float:
        """Return the share of the steps of a caller that have an accepted call."""
        return self.accepted_steps[name] / max(1, self.steps[name])

    def __str__(self) -> str:
        lines = [
            f"seed {self.seed}: {self.sequences.total()} sequences, {self.calls.total()} calls",
            f"accepted: {self.accepted.total()} calls of {len(self.accepted_labels)} of {len(self.labels)} kinds",
            *(
                f"{name}: {self.sequences[name]} sequences, {self.calls[name]} calls, accepted: {self.share(name):.0%},"
                f" of the steps: {self.share_of_steps(name):.0%}"
                for name in callers.NAMES
            ),
        ]
        return "\n".join(lines + [f"FAILED {failure}" for failure in self.failures])


@dataclasses.dataclass
class Run:
    """One run over the callers."""

    world: World
    callers: Callers
    snapshot: Snapshot
    report: Report
    forms: Forms = dataclasses.field(default_factory=Forms)

    async def run(self, count: int, *, maximum_failures: int = 3) -> None:
        """Run so many sequences, in turn for each caller."""
        for number in range(count):
            rng = random.Random(f"{self.report.seed} {number}")
            name = callers.NAMES[number % len(callers.NAMES)]
            steps = [Step(f"{self.report.seed} {number} {index}") for index in range(rng.randint(1, _STEPS))]
            if problems := await self._try(name, rng.random(), steps, counted=True):
                await self._report(name, number, steps, problems)
            if len(self.report.failures) >= maximum_failures:
                return
            if (number + 1) % _FLUSHED_AFTER == 0:
                await snapshots.flush(self.world)
                print(self.report, flush=True)

    async def _report(self, name: str, number: int, steps: list[Step], problems: list[str]) -> None:
        """Report a violation with the shortest sequence that shows it."""
        chance = random.Random(f"{self.report.seed} {number}")
        chance.randint(1, _STEPS)
        choice = chance.random()
        shortest = await self._shrink(name, choice, steps)
        log: list[str] = []
        again = await self._try(name, choice, shortest, log=log)
        failure = "\n    ".join([f"sequence {number} of {name}: {'; '.join(again or problems)}", *log])
        self.report.failures.append(failure)
        print(f"FAILED {failure}", flush=True)

    async def _shrink(self, name: str, choice: float, steps: list[Step]) -> list[Step]:
        """Return the steps without those that the violation does not need."""
        for step in list(steps):
            fewer = [other for other in steps if other is not step]
            if await self._try(name, choice, fewer):
                steps = fewer
        return steps

    async def _try(
        self, name: str, choice: float, steps: Sequence[Step], *, counted: bool = False, log: list[str] | None = None
    ) -> list[str]:
        """Run a sequence and the recipes from the same state as every other; return what broke the rule."""
        rng = random.Random(choice)
        caller = await self.callers.get(name, rng, sorted(permissions.ENDPOINTS))
        report = self.report if counted else Report(0)
        report.sequences[name] += 1
        known, loot, log = self.world.known.copy(), [], [] if log is None else log
        for step in steps:
            await self._step(caller, random.Random(step.seed), known, report, loot, log)
        attempt = Attempt(self.world, caller.anonymous, "\n".join(loot))
        problems = await attempt.run()
        problems += await self._violations(caller)
        problems += await self._try_stolen(attempt)
        await self.snapshot.restore(self.world)
        return list(dict.fromkeys(problems))

    async def _try_stolen(self, attempt: Attempt) -> list[str]:
        attempt.problems = []
        for recipe in takeovers.OF_STOLEN_CREDENTIALS:
            attempt.http.cookies.clear()
            await recipe(attempt)
        attempt.http.cookies.clear()
        return attempt.problems

    async def _step(
        self, caller: Caller, rng: random.Random, known: KnownValues, report: Report, loot: list[str], log: list[str]
    ) -> None:
        """Draw calls until the service accepts one."""
        report.steps[caller.name] += 1
        for _ in range(_DRAWS):
            label, shown, answer = await self._draw(caller, rng, known)
            if answer is None:
                return
            is_accepted = answer.is_success or (label.startswith(("form ", "flow ")) and answer.is_redirect)
            report.calls[caller.name] += 1
            report.labels[label] += 1
            log.append(f"{answer.status_code} {shown}")
            loot.append(answer.text[:_MAXIMUM_LOOT] + str(answer.headers.get("Location", "")))
            if is_accepted:
                report.accepted[caller.name] += 1
                report.accepted_labels[label] += 1
                report.accepted_steps[caller.name] += 1
                if answer.headers.get("Content-Type", "").startswith("application/json"):
                    known.remember(answer.json())
                return

    async def _draw(self, caller: Caller, rng: random.Random, known: KnownValues) -> tuple[str, str, Any]:
        """Make one call: of a form, of an attack, or of any operation."""
        if caller.browser is not None and rng.random() < _FORM_SHARES.get(caller.name, _FORM_SHARE):
            submitted = await self.forms.submit(caller, known, rng)
            if submitted is not None:
                label, answer = submitted
                return label, f"{label} {answer.request.content.decode()[:600]}", answer
        possible = flows.OF_CALLERS.get(caller.name, [])
        if possible and rng.random() < _FLOW_SHARE:
            flow = rng.choice(possible)
            answer = await flow(caller, self.world, known, rng)
            return f"flow {flow.__name__}", f"{flow.__name__} {answer.request.method} {answer.request.url}", answer
        request = self._request(caller, rng, known)
        if request is None:
            return "", "", None
        return request.label, str(request), await request.send(caller.http)

    def _request(self, caller: Caller, rng: random.Random, known: KnownValues) -> calls.Request | None:
        """Return an attack, or a random call of a random operation."""
        possible = [attack for attack in attack_calls.ATTACKS if caller.may_call(attack.path, attack.method)]
        if possible and caller.name not in flows.OF_CALLERS and rng.random() < _ATTACK_SHARE:
            victim = self.world.victims.users[rng.choice(sorted(self.world.victims.users))]
            weights = [_TENANT_WEIGHT if attack.path == attack_calls.TENANT else 1 for attack in possible]
            return rng.choices(possible, weights)[0].request(Target(self.world, victim, rng))
        operation = calls.choose(caller, rng)
        return None if operation is None else calls.make(operation, caller, known, rng)

    async def _violations(self, caller: Caller) -> list[str]:
        """Return what changed of the administrators without the authority of the caller."""
        before, after, found = self.snapshot.administrators, await self.world.victims.state(), []
        for user_id in sorted(before.keys() | after.keys()):
            old, new = before.get(user_id), after.get(user_id)
            if old == new:
                continue
            if not await self._may_change(caller, user_id, old, new):
                found.append(f"{self._name_of(user_id)}: {_difference(old, new)}")
        console = await snapshots.console_of(self.world)
        changed = {name for name in console.keys() | self.snapshot.console.keys()
                   if console.get(name) != self.snapshot.console.get(name)}  # fmt: skip
        found += [f"what decides about the console changed: {document_id}" for document_id in sorted(changed)]
        if await snapshots.count_keys(self.world) != self.snapshot.key_count + self.callers.key_count:
            found.append("the number of API keys changed")
        return found

    async def _may_change(self, caller: Caller, user_id: str, old: Held | None, new: Held | None) -> bool:
        """Return whether the caller had the authority of an administrator before and after; its own may only shrink."""
        authority = self.world.victims.authority
        held = None if old is None else await authority(old.account)
        gained = None if new is None else await authority(new.account)
        if user_id == caller.user_id:
            return covers(held, gained)
        return covers(caller.authority, held) and covers(caller.authority, gained)

    def _name_of(self, user_id: str) -> str:
        names = {user["id"]: name for name, user in self.world.victims.users.items()}
        return names.get(user_id, f"user {user_id}")


def _difference(old: Held | None, new: Held | None) -> str:
    """Return what differs, shortened."""
    if old is None or new is None:
        return "became an administrator" if old is None else "is no administrator any more"
    found = [f"{name} {old.account[name]!r} -> {new.account[name]!r}"[:300] for name in old.account
             if old.account[name] != new.account[name]]  # fmt: skip
    parts = ("passkeys", "links", "sessions", "refresh_tokens")
    return "; ".join(found + [f"{part} changed" for part in parts if getattr(old, part) != getattr(new, part)])
