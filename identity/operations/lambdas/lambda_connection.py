"""What a running lambda may ask of the service: HTTP requests (`fetch`), and secrets by their names."""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final

import orjson

from identity.call import Document
from identity.outbound.http import OutboundError, Request
from identity.services import Services

_METHODS: Final = ("DELETE", "GET", "OPTIONS", "PATCH", "POST", "PUT")
_OWN_HEADERS: Final = re.compile(
    r"connection|content-length|expect|host|keep-alive|te|trailer|transfer-encoding|upgrade|proxy-.*", re.IGNORECASE
)
"""Headers that frame a request. A lambda could hide a second request behind its own with them."""

_MAX_HEADER_BYTES: Final = 16_384
_MAX_SECRETS: Final = 20
_SHORTEST_MASKED: Final = 4
_MASK: Final = "***"


class _RefusedError(Exception):
    """A question without an answer; the lambda gets the message as an exception."""


class LambdaConnection:
    """Answers the questions of one invocation, within limits of their number, time and size."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._settings = services.config.lambdas
        self._requests = 0
        self._seconds_left = self._settings.fetch_total_ms / 1000
        self._secrets: dict[str, str | None] = {}

    async def answer(self, question: str) -> bytes:
        """Return the answer to a question; `error` is the reason if there is none."""
        try:
            asked = orjson.loads(question)
            if "secret" in asked:
                return orjson.dumps({"secret": await self._secret(_text(asked["secret"]))})
            return orjson.dumps(await self._fetch(asked["fetch"]))
        except _RefusedError as error:
            return orjson.dumps({"error": str(error)})
        except (LookupError, TypeError, ValueError):
            # A lambda can change the built-in functions with which `fetch` builds its question.
            return orjson.dumps({"error": "the request is not valid"})

    def masked(self, text: str) -> str:
        """Return a text of the lambda, such as its console output, without the secrets that it has read."""
        for secret in self._secrets.values():
            if secret is not None and len(secret) >= _SHORTEST_MASKED:
                in_json = orjson.dumps(secret)[1:-1].decode()
                text = text.replace(secret, _MASK).replace(in_json, _MASK)
        return text

    async def _secret(self, name: str) -> str | None:
        """Return the secret of a key of type Secret; None if there is none of this name."""
        if name not in self._secrets:
            if len(self._secrets) >= _MAX_SECRETS:
                raise _RefusedError(f"a lambda may read at most {_MAX_SECRETS} secrets")
            key = await self._services.configuration.keys.find_where(None, {"name": name, "type": "Secret"})
            self._secrets[name] = None if key is None else key["secret"]
        return self._secrets[name]

    async def _fetch(self, asked: Document) -> Document:
        request = self._to_request(asked)
        if self._services.outbound.deliverer.quiescence.is_active:
            raise _RefusedError("the service is quiesced: lambdas send no requests")
        self._requests += 1
        if self._requests > self._settings.fetch_requests:
            raise _RefusedError(f"a lambda may send at most {self._settings.fetch_requests} requests")
        if self._seconds_left <= 0:
            raise _RefusedError(f"the requests took more than {self._settings.fetch_total_ms} ms together")
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            async with asyncio.timeout(self._seconds_left):
                response = await self._services.runtime.lambda_runtime.http.request(request)
        except TimeoutError as error:
            raise _RefusedError(f"the requests took more than {self._settings.fetch_total_ms} ms together") from error
        except OutboundError as error:
            raise _RefusedError(f"there is no response: {error.message}") from error
        finally:
            self._seconds_left -= loop.time() - started
        if response.truncated:
            raise _RefusedError(f"the response is larger than {self._settings.fetch_limit_bytes} bytes")
        headers = dict(response.headers)
        return {"status": response.status, "headers": headers, "body": response.body.decode(errors="replace")}

    def _to_request(self, asked: Document) -> Request:
        method, body = _text(asked["method"]).upper(), asked.get("body")
        if method not in _METHODS:
            raise _RefusedError(f"the method must be one of {', '.join(_METHODS)}")
        data = None if body is None else _text(body).encode()
        if data is not None and len(data) > self._settings.fetch_limit_bytes:
            raise _RefusedError(f"the body is larger than {self._settings.fetch_limit_bytes} bytes")
        return Request(
            method=method,
            url=_text(asked["url"]),
            headers=_headers(asked["headers"]),
            body=data,
            connect_timeout_ms=self._timeout(asked, "connectTimeout"),
            read_timeout_ms=self._timeout(asked, "readTimeout"),
            max_response_bytes=self._settings.fetch_limit_bytes,
        )

    def _timeout(self, asked: Document, name: str) -> int:
        chosen: Any = asked.get(name)
        if chosen is None:
            return self._settings.fetch_timeout_ms
        if isinstance(chosen, bool) or not isinstance(chosen, int | float) or chosen < 1:
            raise _RefusedError(f"the {name} must be a positive number of milliseconds")
        return int(min(chosen, self._settings.fetch_total_ms))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _headers(pairs: Any) -> dict[str, str]:
    """Return the headers of a request; the values of a repeated one are joined."""
    headers: dict[str, str] = {}
    names: dict[str, str] = {}
    for name, value in ((_text(name), _text(value)) for name, value in pairs):
        if _OWN_HEADERS.fullmatch(name):
            raise _RefusedError(f"the header {name} cannot be set")
        known = names.setdefault(name.lower(), name)
        headers[known] = f"{headers[known]}, {value}" if known in headers else value
    if sum(len(name) + len(value) for name, value in headers.items()) > _MAX_HEADER_BYTES:
        raise _RefusedError(f"the headers are larger than {_MAX_HEADER_BYTES} bytes")
    return headers
