"""Second factors for tests: an authenticator app, and a user who has one."""

from __future__ import annotations

import base64
from typing import Any

from identity.domain import totp
from identity.instants import Instant

SECRET = base64.b64encode(b"12345678901234567890").decode()
"""The secret of RFC 6238 appendix B, as the API writes it."""


def code(now: Instant, *, steps: int = 0, secret: str = SECRET) -> str:
    """What an authenticator app shows, so many steps from now."""
    return totp.code(base64.b64decode(secret), now // 1000 // 30 + steps, "HmacSHA1", 6)


def wrong_code(now: Instant) -> str:
    """Six digits that no authenticator shows at about this time."""
    shown = {code(now, steps=steps) for steps in range(-3, 4)}
    return next(text for text in (f"{number:06}" for number in range(10)) if text not in shown)


def authenticator(**members: Any) -> dict[str, Any]:
    """A method of a user."""
    return {"method": "authenticator", "secret": SECRET, **members}
