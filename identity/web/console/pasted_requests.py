"""Requests that an administrator pastes: a URL, a query or form, an HTTP request, or a curl command."""

from __future__ import annotations

import base64
import dataclasses
import re
import shlex
import urllib.parse
from collections.abc import Mapping
from typing import Final

_DATA: Final = frozenset({"-d", "--data", "--data-urlencode", "--data-raw"})
_REQUEST_LINE: Final = re.compile(r"(?:(?:GET|POST) )?((?:https?:/)?/\S*)")
_HEADERS: Final = frozenset({"authorization", "dpop"})


@dataclasses.dataclass(frozen=True, slots=True)
class PastedRequest:
    """The URL of a request as far as it was pasted, its parameters, and its headers Authorization and DPoP."""

    url: str = ""
    parameters: Mapping[str, str] = dataclasses.field(default_factory=dict)
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)


def read(text: str) -> PastedRequest:
    """Return the parts of a pasted request; empty ones for anything else."""
    text = text.replace("\r\n", "\n")
    return _of_curl(text) if text.startswith("curl ") else _of_http(text)


def _of_http(text: str) -> PastedRequest:
    found = _REQUEST_LINE.match(text)
    if found is None:
        return PastedRequest(parameters=_parameters("&".join(text.split())))
    url, query = _split(found[1])
    head, _, body = text[found.end() :].partition("\n\n")
    lines = (line.partition(":") for line in head.split("\n"))
    headers = {name.strip().lower(): value.strip() for name, _, value in lines}
    parameters = _parameters(query) | _parameters("&".join(body.split()))
    return PastedRequest(url, parameters, {name: headers[name] for name in _HEADERS & headers.keys()})


def _of_curl(text: str) -> PastedRequest:
    try:
        words = shlex.split(text.replace("\\\n", " "))
    except ValueError:
        return PastedRequest()
    url, parameters, headers = "", dict[str, str](), dict[str, str]()
    for option, value in zip(words, [*words[1:], ""], strict=True):
        if option in _DATA:
            parameters |= _parameters(value)
        elif option in {"-H", "--header"}:
            name, _, content = value.partition(":")
            headers |= {name.lower(): content.strip()} if name.lower() in _HEADERS else {}
        elif option in {"-u", "--user"}:
            headers["authorization"] = f"Basic {base64.b64encode(value.encode()).decode()}"
        elif option.startswith(("http://", "https://")):
            url, query = _split(option)
            parameters |= _parameters(query)
    return PastedRequest(url, parameters, headers)


def _split(url: str) -> tuple[str, str]:
    """Return a URL without its query, and the query."""
    path, _, query = url.partition("#")[0].partition("?")
    return path, query


def _parameters(text: str) -> dict[str, str]:
    return dict(urllib.parse.parse_qsl(text))
