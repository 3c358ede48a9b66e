"""Explains why an embedded server did not start, with a remedy for the operator."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

_TAIL_BYTES = 20_000
_PACKAGES = {"libcurl.so.4": "libcurl4", "libssl.so.3": "libssl3", "libcrypto.so.3": "libssl3"}
_SETTINGS = {"mongod": "mongodb.uri", "redis": "redis.url"}


def explain(name: str, code: int | None, output_file: Path, log_file: Path) -> str:
    """The cause, determined from exit code, output and log, and the remedy."""
    output, log = _tail(output_file), _tail(log_file)
    text = output + log
    library = re.search(r"error while loading shared libraries: (\S+?):", text)
    if library:
        missing = Path(library[1]).name
        package = _PACKAGES.get(missing, f"the package with {missing}")
        return _failed(name, f"the library {missing} is missing or broken; install it: apt-get install {package}")
    if code == -signal.SIGXFSZ or re.search(r"No space left on device|File too large|Disk quota exceeded", text):
        return _failed(
            name, f"the disk of {log_file.parent.parent} is full; make room there, or set data_dir to another disk"
        )
    if code == -signal.SIGILL:
        return _failed(name, "the processor lacks required instructions (AVX)")
    return _failed(name, f"{_last_error(output, log) or f'it ended with code {code}'}; see the log {log_file}")


def _failed(name: str, reason: str) -> str:
    return f"The embedded {name} does not start: {reason}. (Or set {_SETTINGS[name]} to a server of your own.)"


def _tail(file: Path) -> str:
    try:
        return file.read_bytes()[-_TAIL_BYTES:].decode("utf-8", "replace")
    except OSError:
        return ""


def _last_error(output: str, log: str) -> str:
    """The last error message: mongod logs JSON with a severity, Redis marks warnings with a number sign."""
    errors = [_mongod_error(line) or _redis_error(line) for line in (output + log).splitlines()]
    return next(filter(None, reversed(errors)), "")


def _mongod_error(line: str) -> str:
    try:
        entry = json.loads(line)
    except ValueError:
        return ""
    if not isinstance(entry, dict) or entry.get("s") not in {"E", "F"}:
        return ""
    attributes = entry.get("attr", {})
    detail = attributes.get("error") or attributes.get("message") or ""
    return f"{entry.get('msg', '')} {detail if isinstance(detail, str) else json.dumps(detail)}".strip()[:500]


def _redis_error(line: str) -> str:
    found = re.match(r"\d+:[A-Z] .{10,30} # (.*)", line)
    return found[1][:500] if found and "WARNING" not in found[1] else ""
