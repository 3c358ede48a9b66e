"""The API call that a page makes, as curl and as Python."""

from __future__ import annotations

import dataclasses
import json
import shlex
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

from identity.web.console.layouts import member_of, with_member

_MASK = "..."


@dataclasses.dataclass(frozen=True, slots=True)
class ApiCall:
    """A call of the API."""

    method: str
    path: str
    query: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    body: Any = None
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def uri(self) -> str:
        """The path with its query."""
        query = urllib.parse.urlencode(self.query, doseq=True)
        return f"{self.path}?{query}" if query else self.path

    def masked(self, wrapper: str, secrets: Sequence[str]) -> ApiCall:
        """Return the call without the values of secrets."""
        body = self.body
        for secret in secrets:
            path = f"{wrapper}.{secret}"
            if isinstance(member_of(body, path), str | list):
                body = with_member(body, path, _MASK)
        return dataclasses.replace(self, body=body)

    def curl(self, base_url: str) -> str:
        """The call as a shell command; `$api_key` is an API key with the permission."""
        lines = [f"curl -X {self.method} {shlex.quote(base_url + self.uri)}", '-H "Authorization: $api_key"']
        lines += [f"-H {shlex.quote(f'{name}: {value}')}" for name, value in self._headers().items()]
        if self.body is not None:
            lines.append(f"-d {shlex.quote(json.dumps(self.body, indent=2, ensure_ascii=False))}")
        return " \\\n  ".join(lines)

    def python(self, base_url: str) -> str:
        """The call as a Python program that uses httpx."""
        headers = ", ".join(f"{name!r}: {value!r}" for name, value in self._headers().items())
        lines = [
            "import os",
            "import httpx",
            "",
            f'headers = {{"Authorization": os.environ["api_key"]{", " + headers if headers else ""}}}',
        ]
        body = ""
        if self.body is not None:
            lines.append(f"body = {_literal(self.body)}")
            body = ", json=body"
        lines += [
            f"answer = httpx.request({self.method!r}, {base_url + self.uri!r}, headers=headers{body})",
            "answer.raise_for_status()",
        ]
        if self.method == "GET":
            lines.append("print(answer.json())")
        return "\n".join(lines)

    def _headers(self) -> dict[str, str]:
        typed = {} if self.body is None else {"Content-Type": "application/json"}
        return {**typed, **self.headers}


def _literal(value: Any, indent: int = 0) -> str:
    """Return a JSON value as a Python literal."""
    pad = " " * (indent + 4)
    if isinstance(value, Mapping) and value:
        inner = "".join(f"{pad}{name!r}: {_literal(each, indent + 4)},\n" for name, each in value.items())
        return f"{{\n{inner}{' ' * indent}}}"
    if isinstance(value, list) and value:
        inner = "".join(f"{pad}{_literal(each, indent + 4)},\n" for each in value)
        return f"[\n{inner}{' ' * indent}]"
    return repr(value)
