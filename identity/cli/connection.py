"""How a command reaches an instance: through its URL with an API key, or with --local straight on the stores."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Callable
from typing import Any

import click

from identity import logs, termination
from identity.cli import settings
from identity.cli.api import Api
from identity.cli.output import Output
from identity.cli.settings import Options

Work = Callable[..., int | None]


def with_api(function: Work) -> Callable[..., Any]:
    """Give a command the options of a connection; it is called with an Api and an Output before its own arguments."""

    @click.option("--url", envvar="IDENTITY_URL", default="http://localhost:9011", show_default=True, show_envvar=True,
                  help="URL of the instance. The API key is read from IDENTITY_API_KEY.")  # fmt: skip
    @click.option("--local", is_flag=True, help="Work on the stores of the configuration, without an API key.")
    @click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    @click.pass_obj
    @functools.wraps(function)
    def command(options: Options, /, *, url: str, local: bool, as_json: bool, **arguments: Any) -> int:
        work = functools.partial(function, output=Output(is_json=as_json), **arguments)
        return int((on_stores(options, work) if local else work(Api(url, api_key()))) or 0)

    return command


def api_key() -> str:
    """Return IDENTITY_API_KEY. An option would show the key to other users of the machine."""
    return os.environ.get("IDENTITY_API_KEY", "")


def on_stores(options: Options, work: Callable[[Api], int | None]) -> int | None:
    """Do the work of a command with access to the stores of the configuration. Raises ConfigError and StartupError."""
    loaded = settings.load(options)
    logs.configure("error", loaded.logging.format)
    return termination.run(_on_stores(loaded, work))


async def _on_stores(loaded: Any, work: Callable[[Api], int | None]) -> int | None:
    async with (
        settings.connected(loaded, may_share=True) as connected,
        settings.app().recovery(connected) as access,
    ):
        return await asyncio.to_thread(work, Api(access.url, access.key, access.host))
