"""What happens in one federated login, for the event log of a provider with `debug` on."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping

from identity.call import Call, Document
from identity.operations.objects import event_logs
from identity.services import Services

_LONGEST_CLAIM = 500


@dataclasses.dataclass(slots=True)
class LoginTrace:
    """The steps of a login so far; claims, but never a token or a secret."""

    lines: list[str] = dataclasses.field(default_factory=list)

    def add(self, line: str) -> None:
        """One more step."""
        self.lines.append(line)

    def add_claims(self, source: str, claims: Mapping[str, object]) -> None:
        """What a provider said of the user."""
        self.add(f"{source}: " + ", ".join(f"{name}={_short(value)}" for name, value in sorted(claims.items())))

    async def record(self, services: Services, call: Call, provider: Document, outcome: str) -> None:
        """Write it down, where the provider asks for it."""
        if provider["debug"]:
            heading = f"Login through the identity provider {provider['name']} ({provider['id']}): {outcome}"
            await event_logs.record(services, call, "Debug", "\n".join([heading, *self.lines]))


def _short(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)[:_LONGEST_CLAIM]
