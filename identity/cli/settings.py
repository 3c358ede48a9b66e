"""The configuration and the stores of a command that runs on this machine."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from identity import config, logs, shipped_files
from identity.cli import memory, open_files
from identity.config import EMBEDDED, Config
from identity.errors import StartupError
from identity.store import data_dir
from identity.store.embedded.stores import ADDRESSES_FILE, AlreadyRunningError, EmbeddedStores, addresses


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """The options that precede a command: the name of the program, and the folder or file of the configuration."""

    program: str
    config: Path


def default_config() -> Path:
    """Return the folder `config` of the current folder, or else the one of the distribution."""
    here = Path("config")
    return here if (here / config.FILE_NAME).exists() else shipped_files.folder("config")


def load(options: Options) -> Config:
    """Load the configuration, configure the logs, and make the data folder. Raises ConfigError and StartupError."""
    settings = config.load(options.config, os.environ)
    logs.configure(settings.logging.level, settings.logging.format)
    open_files.raise_limit()
    data_dir.prepare(settings.data_dir)
    data_dir.mend_modes(secret_files(settings))
    return settings


def secret_files(settings: Config) -> tuple[Path, ...]:
    """Return the files that hold secrets: the master key, those of the first start, and those of embedded stores."""
    folder = settings.data_dir
    names = (data_dir.SECRETS_FILE, ADDRESSES_FILE, "mongodb/keyfile", "mongodb/password")
    return settings.master_key_file, *(folder / name for name in names)


def app() -> Any:
    """Import identity.app, late: the embedded servers start while it loads."""
    with memory.collection_suspended():
        return importlib.import_module("identity.app")


@contextlib.asynccontextmanager
async def connected(settings: Config, *, may_share: bool = False) -> AsyncIterator[Config]:
    """Provide the configuration with real store addresses; embedded stores run for the duration of the block."""
    wanted = (settings.mongodb.uri == EMBEDDED, settings.redis.url == EMBEDDED)
    if not any(wanted):
        yield settings
        return
    try:
        embedded = await EmbeddedStores.start(settings.data_dir, *wanted)
    except AlreadyRunningError:
        if not may_share:
            raise
        yield settings.with_stores(*addresses(settings.data_dir))
        return
    try:
        yield settings.with_stores(embedded.mongodb_uri, embedded.redis_url)
    finally:
        await embedded.stop()


def running(settings: Config) -> Config:
    """Return the configuration with the current address of MongoDB. Raises StartupError if it is not running."""
    if settings.mongodb.uri != EMBEDDED:
        return settings
    if not (settings.data_dir / ADDRESSES_FILE).exists():
        raise StartupError(f"the embedded MongoDB of {settings.data_dir} is not running")
    return settings.with_stores(*addresses(settings.data_dir))
