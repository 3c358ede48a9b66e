"""The text that a start prints: addresses, and the secrets of the first start."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

from identity import __version__
from identity.cli.settings import app
from identity.config import Config


def lines(service: Any, settings: Config) -> Iterator[str]:
    """Yield the addresses of the service; at the first start also the generated secrets, if stdout is a terminal.

    A journal, a container log or a file would keep them readable for others.
    """
    yield f"\nThe identity service {__version__} is ready{'' if service.port else ', as a worker without a port'}.\n"
    named = {}
    if service.port:
        named = {
            "Address": service.base_url,
            "Administration": f"{service.base_url}/admin (sign in as the administrator)",
            "Login page": f"{service.base_url}/account?client_id={app().ADMINISTRATOR_APPLICATION_ID}",
            "Discovery": f"{service.base_url}/.well-known/openid-configuration",
            "API": f"{service.base_url}/api (with an API key as the Authorization header)",
        }
    secrets = settings.data_dir / app().SECRETS_FILE
    if service.announcement and sys.stdout.isatty():
        named |= service.announcement
    if secrets.exists():
        named["Stored in"] = f"{secrets} (administrator and keys of the first start; readable only by this user)"
    named["Data"] = str(settings.data_dir)
    named["Stop with"] = f"Ctrl-C, or kill {os.getpid()}"
    width = max(map(len, named)) + 2
    yield from (f"  {name:<{width}}{text}" for name, text in named.items())
