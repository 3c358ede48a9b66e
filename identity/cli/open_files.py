"""The limit of open files of this process: raised as far as permitted, and sufficient for a start."""

from __future__ import annotations

import contextlib
import resource
from typing import Final

from identity.errors import StartupError

WANTED: Final = 65_536
MINIMUM: Final = 256
"""A process without clients needs about a hundred: libraries, stores, and outgoing connections."""


def raise_limit() -> None:
    """Raise the soft limit up to the hard one. Raises StartupError if that is not sufficient."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # a sandbox may forbid it
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    require_sufficient()


def require_sufficient() -> None:
    """Raise StartupError if the limit is too low for a start."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and max(soft, hard) < MINIMUM:
        raise StartupError(
            f"This process may open {max(soft, hard)} files, and the service needs at least {MINIMUM}, and one for each"
            f" connection. Raise the limit: LimitNOFILE={WANTED} in the systemd unit, --ulimit nofile={WANTED} of a"
            f" container, or ulimit -n {WANTED} in the shell"
        )
