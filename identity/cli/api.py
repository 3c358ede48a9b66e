"""A client of the API for the command line."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any, Final, NoReturn

import click

from identity import __version__
from identity.cli import exit_codes

_TIMEOUT_SECONDS: Final = 60
_HINTS: Final = {
    401: "the API key is missing or unknown, or lacks a permission; set IDENTITY_API_KEY, or use --local",
    403: "the API key lacks a permission",
    404: "there is no such object",
}
_IN_WORDS_OF_COMMANDS: Final = {
    "[TenantIdRequired]": "The instance has several tenants: name one, by tenantId in the file of the object, by"
    " --tenant, or by an API key of one tenant.",
    "[InvalidTenantId]": "There is no tenant with this tenantId.",
}
"""Messages of errors, by code, that name a header in the words of the API."""
_MANAGER_HINT: Final = "the API key is missing or not that of a key manager; set IDENTITY_API_KEY, or use --local"

Json = dict[str, Any]


class ApiError(click.ClickException):
    """A response that is not a success, or none at all."""

    exit_code = exit_codes.UNREACHABLE


class RefusedError(ApiError):
    """The request was refused; the message lists the errors of the response."""

    exit_code = exit_codes.REFUSED


class UnauthorizedError(ApiError):
    """The API key or the token was refused."""

    exit_code = exit_codes.UNAUTHORIZED


class NotFoundError(ApiError):
    """There is no such object."""

    exit_code = exit_codes.NOT_FOUND


_ERRORS: Final[Mapping[int, type[ApiError]]] = {
    400: RefusedError,
    401: UnauthorizedError,
    403: UnauthorizedError,
    404: NotFoundError,
}


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_arguments: Any) -> None:
        return None


class Api:
    """Sends requests to one instance. `host` replaces the Host header, with direct access to the stores."""

    def __init__(self, url: str, key: str, host: str | None = None) -> None:
        self.url = url.rstrip("/")
        self.is_local = host is not None
        self._headers = {"User-Agent": f"identity-cli/{__version__}", **({"Authorization": key} if key else {})}
        if host is not None:
            self._headers["Host"] = host
        self._opener = urllib.request.build_opener(_NoRedirects)

    def get(self, path: str, **query: Any) -> Json:
        """Return the response of a GET. Raises ApiError."""
        return self.send("GET", path, query=query)

    def find(self, path: str, **query: Any) -> Json | None:
        """Return the response of a GET, or None for 404. Raises ApiError."""
        try:
            return self.get(path, **query)
        except NotFoundError:
            return None

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        tenant_id: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Json:
        """Return the JSON of a successful response. Raises ApiError."""
        given = {name: value for name, value in (query or {}).items() if value is not None}
        suffix = f"?{urllib.parse.urlencode(given, doseq=True)}" if given else ""
        scope = {"X-FusionAuth-TenantId": tenant_id} if tenant_id else {}
        status, _, text = self.exchange(method, path + suffix, body, {**scope, **(headers or {})})
        if not 200 <= status < 300:
            _refuse(method, path, status, text)
        return json.loads(text) if text else {}

    def exchange(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Mapping[str, str], str]:
        """Return status, headers and text of any response; redirects are not followed. Raises ApiError for none."""
        url = self.url + path
        if urllib.parse.urlsplit(url).scheme not in {"http", "https"}:
            raise ApiError(f"{self.url} is not a URL; set IDENTITY_URL to one such as https://login.example.com")
        content = None if body is None else json.dumps(body).encode()
        every = {
            **self._headers,
            **({"Content-Type": "application/json"} if body is not None else {}),
            **(headers or {}),
        }
        request = urllib.request.Request(url, content, every, method=method)  # noqa: S310 (the scheme is checked)
        try:
            with self._opener.open(request, timeout=_TIMEOUT_SECONDS) as response:
                return response.status, dict(response.headers), response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, dict(error.headers), error.read().decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise ApiError(f"{self.url} does not answer: {reason}") from error


def _refuse(method: str, path: str, status: int, text: str) -> NoReturn:
    is_for_managers = status == 401 and path.startswith("/api/api-key")
    hint = (
        _MANAGER_HINT
        if is_for_managers
        else _HINTS.get(
            status, "the request was refused" if status < 500 else "the service reports an error of its own"
        )
    )
    lines = (f"{method} {path.partition('?')[0]}: {status}: {hint}", *(f"  {error}" for error in _errors(text)))
    default = RefusedError if status < 500 else ApiError
    raise _ERRORS.get(status, default)("\n".join(lines))


def _errors(text: str) -> list[str]:
    """Return the errors of a response in the published shape, one a line."""
    try:
        body = json.loads(text)
    except ValueError:
        return []
    fields = [each for errors in body.get("fieldErrors", {}).values() for each in errors]
    every = (*fields, *body.get("generalErrors", []))
    return [_IN_WORDS_OF_COMMANDS.get(str(each.get("code")), str(each.get("message"))) for each in every]
