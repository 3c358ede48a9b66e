"""Why an embedded server did not start, in words that tell an operator what to do."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

_TAIL_BYTES = 20_000
_PACKAGES = {"libcurl.so.4": "libcurl4", "libssl.so.3": "libssl3", "libcrypto.so.3": "libssl3"}
_SETTINGS = {"mongod": "mongodb.uri", "redis": "redis.url"}


def explain(name: str, code: int | None, output_file: Path, log_file: Path) -> str:
    """A sentence with the cause, found in exit code, output and log, and the remedy."""
    output, log = _tail(output_file), _tail(log_file)
    everything = output + log
    library = re.search(r"error while loading shared libraries: (\S+?):", everything)
    if library:
        missing = Path(library[1]).name
        package = _PACKAGES.get(missing, f"the package with {missing}")
        return _failed(name, f"the library {missing} is missing or broken; install it: apt-get install {package}")
    if code == -signal.SIGXFSZ or re.search(r"No space left on device|File too large|Disk quota exceeded", everything):
        return _failed(
            name, f"the disk of {log_file.parent.parent} is full; make room there, or set data_dir to another disk"
        )
    if code == -signal.SIGILL:
        return _failed(name, "this processor lacks instructions that it needs (AVX)")
    return _failed(name, f"{_last_words(output, log) or f'it ended with code {code}'}; the whole log is {log_file}")


def _failed(name: str, reason: str) -> str:
    return f"The embedded {name} does not start: {reason}. (Or set {_SETTINGS[name]} to a server of your own.)"


def _tail(file: Path) -> str:
    try:
        return file.read_bytes()[-_TAIL_BYTES:].decode("utf-8", "replace")
    except OSError:
        return ""


def _last_words(output: str, log: str) -> str:
    """The last complaint: mongod logs JSON with a severity, the other marks warnings with a number sign."""
    complaints = [_mongod_complaint(line) or _redis_complaint(line) for line in (output + log).splitlines()]
    return next((complaint for complaint in reversed(complaints) if complaint), "")


def _mongod_complaint(line: str) -> str:
    try:
        entry = json.loads(line)
    except ValueError:
        return ""
    if not isinstance(entry, dict) or entry.get("s") not in {"E", "F"}:
        return ""
    attributes = entry.get("attr", {})
    detail = attributes.get("error") or attributes.get("message") or ""
    return f"{entry.get('msg', '')} {detail if isinstance(detail, str) else json.dumps(detail)}".strip()[:500]


def _redis_complaint(line: str) -> str:
    found = re.match(r"\d+:[A-Z] .{10,30} # (.*)", line)
    return found[1][:500] if found and "WARNING" not in found[1] else ""
