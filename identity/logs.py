"""Logging to standard error, as console text or JSON, with request ids and with secrets masked.

The service logs through structlog; log records of libraries are rendered in the same format.
"""

from __future__ import annotations

import contextlib
import datetime
import logging
import math
import re
import sys
import time
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any, Final, TextIO

import orjson

from identity.ids import Secret
from identity.optional_packages import withheld

# structlog would load rich for tracebacks in colors, which `_formatter` does not use.
with withheld("rich"):
    import structlog

_Entry = MutableMapping[str, Any]

_MASK = "***"
_SECRET_NAMES = frozenset(Path(__file__).with_name("secret_names.txt").read_text().split())
"""The names of members, parameters and headers whose values are masked."""
_IN_TEXT = (
    # In query strings and form bodies.
    (re.compile(rf"(?i)\b({'|'.join(sorted(_SECRET_NAMES))})=[^&\s\"']+"), rf"\1={_MASK}"),
    # In store addresses.
    (re.compile(r"://[^/\s@]+@"), f"://{_MASK}@"),
    # In headers.
    (re.compile(r"(?i)\b(bearer|basic|dpop) [A-Za-z0-9+/=._~-]{8,}"), rf"\1 {_MASK}"),
    # A JWT anywhere.
    (re.compile(r"\beyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]*){0,3}"), _MASK),
)
ACCESS: Final = "identity.access"
"""The logger of the access log, whose entries consist of ids, numbers and route templates, and a reason."""
_IN_HEAD: Final = {"timestamp", "level", "event", "logger"}
_REPETITION_SECONDS: Final = 10.0
_MOST_KINDS: Final = 1000
"""How many kinds of entries are remembered; events and types of exceptions are few."""
_SPECIAL: Final = re.compile(r"[ \t=\r\n\"']")
"""The characters of texts that are quoted."""
_QUIET = {
    "asyncio": logging.WARNING,
    "motor": logging.WARNING,
    "pymongo": logging.WARNING,  # at debug it writes whole commands, with what is in them
    "tornado.access": logging.CRITICAL,  # the service writes a line of its own for a request
    "tornado.general": logging.ERROR,  # clients that speak bad HTTP are not this log's concern
}


def configure(level: str, style: str, stream: TextIO | None = None) -> None:
    """Send entries of at least `level` to `stream` (standard error), as `console` or `json`; may be called again."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_formatter(style, colors=handler.stream.isatty()))
    # A terminal gets colors, and needs no fast log.
    access_log = [] if handler.stream.isatty() else [_AccessLog(handler, style)]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *access_log,
            _RepetitionLimit(),
            *_shared(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name, least in _QUIET.items():
        logging.getLogger(name).setLevel(max(least, root.level))
    logging.captureWarnings(True)


def mask(value: Any) -> Any:
    """The value with everything that looks like a secret masked, at any depth."""
    if isinstance(value, Secret):
        return _MASK
    if isinstance(value, str):
        for pattern, replacement in _IN_TEXT:
            value = pattern.sub(replacement, value)
        return value
    if isinstance(value, Mapping):
        return {name: _MASK if str(name).lower() in _SECRET_NAMES else mask(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [mask(inner) for inner in value]
    return value


class _RepetitionLimit:
    """Limits what an outage or a fault repeats for every request: entries with a member `outage`, and tracebacks.

    Of the same event and outage there is one entry in ten seconds, with the number of those `suppressed` before it. Of
    the same event and exception the first entry in ten seconds has the traceback, and the others the type alone.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], tuple[float, int]] = {}

    def __call__(self, _logger: Any, _level: str, entry: _Entry) -> _Entry:
        """Return the entry, perhaps without its traceback. Raises DropEvent for one that is suppressed."""
        if "outage" in entry:
            suppressed = self._repetitions(entry["event"], str(entry["outage"]))
            if suppressed is None:
                raise structlog.DropEvent
            return {**entry, "suppressed": suppressed} if suppressed else entry
        error = _exception_of(entry.get("exc_info"))
        if error is not None and self._repetitions(entry["event"], type(error).__name__) is None:
            return {**entry, "exc_info": None, "error": type(error).__name__}
        return entry

    def _repetitions(self, event: str, kind: str) -> int | None:
        """Return how many entries of a kind were suppressed since the last one; None to suppress this one too."""
        now = time.monotonic()
        last, suppressed = self._last.get((event, kind), (-math.inf, 0))
        if now - last < _REPETITION_SECONDS:
            self._last[event, kind] = (last, suppressed + 1)
            return None
        if len(self._last) >= _MOST_KINDS:
            self._last.clear()
        self._last[event, kind] = (now, 0)
        return suppressed


def _exception_of(exc_info: Any) -> BaseException | None:
    """Return the exception that an entry is about, by what logging accepts as `exc_info`."""
    if isinstance(exc_info, BaseException):
        return exc_info
    found = exc_info[1] if isinstance(exc_info, tuple) else sys.exc_info()[1] if exc_info else None
    return found if isinstance(found, BaseException) else None


class _AccessLog:
    """Writes the entries of the access log in the same formats as the processors, which take 20 to 40 us for each."""

    def __init__(self, handler: logging.StreamHandler[TextIO], style: str) -> None:
        self._handler = handler
        self._render = _json if style == "json" else _console_line

    def __call__(self, logger: Any, level: str, entry: _Entry) -> _Entry:
        """Write an entry of the access log; return any other one. Raises DropEvent, which ends the processing."""
        if logger.name != ACCESS:
            return entry
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        entry.update(level=level, logger=ACCESS, timestamp=now)
        entry = _mask_entry(logger, level, entry)
        line = self._render(entry)
        if "\\" in line or not line.isprintable():
            line = self._render(_one_line(logger, level, entry))
        # As in logging: a request does not fail because its entry cannot be written.
        with contextlib.suppress(OSError), self._handler.lock or contextlib.nullcontext():
            self._handler.stream.write(line + self._handler.terminator)
            self._handler.flush()
        raise structlog.DropEvent


def _console_line(entry: _Entry) -> str:
    """Render an entry as structlog's ConsoleRenderer does, without colors."""
    head = "{timestamp} [{level:<9}] {event:<30} [{logger}]".format_map(entry)
    members = (f"{name}={_quoted(entry[name])}" for name in sorted(entry.keys() - _IN_HEAD))
    return " ".join((head, *members))


def _quoted(value: object) -> str:
    return value if isinstance(value, str) and not _SPECIAL.search(value) else repr(value)


def _shared() -> list[structlog.typing.Processor]:
    return [
        structlog.contextvars.merge_contextvars,  # the request id
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]


def _formatter(style: str, *, colors: bool) -> logging.Formatter:
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer(serializer=_json)
        if style == "json"
        else structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)
    )
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_shared(),
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            _mask_entry,
            _one_line,
            renderer,
        ],
    )


def _mask_entry(_logger: Any, _method: str, entry: _Entry) -> _Entry:
    if entry["logger"] == ACCESS:
        # One entry per request: masking every member takes longer than everything else.
        return {**entry, "reason": mask(entry["reason"])} if "reason" in entry else entry
    return dict(mask(entry))


def _one_line(_logger: Any, _method: str, entry: _Entry) -> _Entry:
    """Escape control characters, so that input cannot forge log lines."""
    return {name: _safe(name, value) if isinstance(value, str) else value for name, value in entry.items()}


def _safe(name: str, text: str) -> str:
    """Escape a text; a traceback keeps its lines, indented, because an exception message may contain input."""
    if name != "exception":
        return _printable(text)
    return "\n".join(f"  {_printable(line)}" for line in text.split("\n"))


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _json(entry: Any, **_: Any) -> str:
    return orjson.dumps(entry, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
