"""The trace of one federated login, for the event log of a provider with `debug`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping

from identity.call import Call, Document
from identity.operations.objects import event_logs
from identity.services import Services

_MAX_CLAIM_LENGTH = 500


@dataclasses.dataclass(slots=True)
class LoginTrace:
    """The steps of a login; they include claims, but no tokens or secrets."""

    lines: list[str] = dataclasses.field(default_factory=list)

    def add(self, line: str) -> None:
        """Add a step."""
        self.lines.append(line)

    def add_claims(self, source: str, claims: Mapping[str, object]) -> None:
        """Add the claims of a provider."""
        self.add(f"{source}: " + ", ".join(f"{name}={_truncate(value)}" for name, value in sorted(claims.items())))

    async def record(self, services: Services, call: Call, provider: Document, outcome: str) -> None:
        """Write the trace to the event log, if the provider has `debug`."""
        if provider["debug"]:
            heading = f"Login through the identity provider {provider['name']} ({provider['id']}): {outcome}"
            await event_logs.record(services, call, "Debug", "\n".join([heading, *self.lines]))


def _truncate(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)[:_MAX_CLAIM_LENGTH]
