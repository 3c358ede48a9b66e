r"""Reading a kickstart file: the published format, as YAML or JSON, with its expressions evaluated.

    #{name}        a variable, `#{ENV.NAME}` an environment variable
    #{UUID()}      a random UUID, `#{SECRET()}` a random secret of 256 bits; in a variable, made once
    @{file}        a text file as a string, `&{file}` a JSON or YAML file as a value
    \#{ \@{ \&{   the same characters, escaped

A `url` may leave out its leading slash. A request that creates the default tenant, which exists from the beginning,
changes it instead. Beyond the published format: YAML, `SECRET()`, `BASE_URL`, and `announce`, a
map of texts that the operator is shown once at first start.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import yaml

from identity.call import Document
from identity.coercion import coerce
from identity.errors import StartupError
from identity.ids import new_id, new_secret, parse_id

ReadFile = Callable[[str], str]

_EXPRESSION = re.compile(r"\\([#@&]\{)|([#@])\{([^{}]*)\}")
_SCHEME = re.compile(r"/[A-Za-z][A-Za-z0-9+.-]*:")
_WHOLE_FILE = re.compile(r"&\{([^{}]+)\}")
_METHODS = frozenset({"POST", "PUT", "PATCH"})
_MAXIMUM_INCLUSIONS = 20
_DEFAULT_TENANT = "defaultTenantId"
_PREDEFINED_TENANT = "FUSIONAUTH_TENANT_ID"
_INTEGER = {"type": "integer"}


class _Loader(yaml.SafeLoader):
    """YAML without the type date: a birth date in a request is a string."""


_Loader.yaml_implicit_resolvers = {
    key: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for key, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """One API call of a kickstart; `number` counts from 1."""

    number: int
    method: str
    url: str
    tenant_id: str | None
    content_type: str
    body: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Kickstart:
    """A kickstart with every expression evaluated; timeouts in milliseconds."""

    api_keys: tuple[Document, ...]
    requests: tuple[Request, ...]
    announce: Mapping[str, str]
    connect_timeout: int
    read_timeout: int


class Source:
    """A parsed kickstart file; `default_tenant_id` is known before expressions are evaluated."""

    def __init__(self, text: str, read_file: ReadFile, environ: Mapping[str, str]) -> None:
        self._read_file = read_file
        self._environ = environ
        self._document = _object(_parsed(text, "the kickstart file"), "the kickstart file")
        self._variables: dict[str, str] = {}

    @property
    def default_tenant_id(self) -> str | None:
        """Return the id of the default tenant, if the file states it."""
        wanted = self._member("variables", dict, {}).get(_DEFAULT_TENANT)
        if wanted is None:
            return None
        tenant_id = parse_id(self._expanded(_text(wanted)))
        if tenant_id is None:
            raise StartupError("kickstart: variables.defaultTenantId must be a UUID.")
        return tenant_id

    def evaluated(self, predefined: Mapping[str, str]) -> Kickstart:
        """Evaluate all expressions. Raises StartupError with the position of an error."""
        self._variables = dict(predefined)
        for name, value in self._member("variables", dict, {}).items():
            self._variables[str(name)] = self._expanded(_text(value))
        if _DEFAULT_TENANT in self._variables:
            # The value of the first evaluation: a random one would differ now.
            self._variables[_DEFAULT_TENANT] = predefined[_PREDEFINED_TENANT]
        api_keys = [self._api_key(number, raw) for number, raw in enumerate(self._member("apiKeys", list, []), start=1)]
        _require_first_key(api_keys)
        requests = [
            self._request(number, raw) for number, raw in enumerate(self._member("requests", list, []), start=1)
        ]
        announce = {str(name): _text(self._value(text)) for name, text in self._member("announce", dict, {}).items()}
        return Kickstart(
            tuple(api_keys), tuple(requests), announce, self._timeout("connectTimeout"), self._timeout("readTimeout")
        )

    def _timeout(self, name: str) -> int:
        value = coerce(_INTEGER, self._member("settings", dict, {}).get(name, 5000))
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= 3_600_000:
            raise StartupError(f"kickstart: settings.{name} must be a number of milliseconds, such as 5000.")
        return value

    def _api_key(self, number: int, raw: Any) -> Document:
        api_key = _object(self._value(raw), f"API key {number}")
        if not isinstance(api_key.get("key"), str) or not api_key["key"].strip():
            raise StartupError(f"kickstart: API key {number}: key must be a text that is not blank.")
        if api_key.get("id") is not None and parse_id(api_key["id"]) is None:
            raise StartupError(f"kickstart: API key {number}: the id [{api_key['id']}] must be a UUID.")
        return api_key

    def _request(self, number: int, raw: Any) -> Request:
        where = f"request {number}"
        request = _object(self._value(raw), where)
        method, url = str(request.get("method", "")).upper(), str(request.get("url", ""))
        if method not in _METHODS:
            raise StartupError(
                f"kickstart: {where}: the method [{method}] must be one of {', '.join(sorted(_METHODS))}."
            )
        url = url if url.startswith("/") else f"/{url}"
        if url == "/" or url.startswith("//") or _SCHEME.match(url):
            raise StartupError(f"kickstart: {where}: the url [{url}] must be a path, such as /api/application.")
        if method == "POST" and url == f"/api/tenant/{self._variables.get(_PREDEFINED_TENANT)}":
            method = "PATCH"
        content_type, tenant_id = str(request.get("contentType", "application/json")), request.get("tenantId")
        return Request(
            number, method, url, None if tenant_id is None else str(tenant_id), content_type, _json(request, where)
        )

    def _value(self, value: Any, depth: int = 0) -> Any:
        if isinstance(value, dict):
            return {self._expanded(_text(name)): self._value(member, depth) for name, member in value.items()}
        if isinstance(value, list):
            return [self._value(item, depth) for item in value]
        if isinstance(value, str):
            whole = _WHOLE_FILE.fullmatch(value.strip())
            if whole:
                name = self._expanded(whole[1])
                return self._value(_parsed(self._file(name, depth), name), depth + 1)
            return self._expanded(value)
        return value

    def _expanded(self, text: str, depth: int = 0) -> str:
        def replacement(match: re.Match[str]) -> str:
            if match[1]:
                return match[1]
            if match[2] == "@":
                return self._expanded(self._file(match[3], depth), depth + 1)
            return self._variable(match[3])

        return _EXPRESSION.sub(replacement, text)

    def _variable(self, name: str) -> str:
        if name == "UUID()":
            return new_id()
        if name == "SECRET()":
            return new_secret(32)
        known = self._environ if name.startswith("ENV.") else self._variables
        try:
            return known[name.removeprefix("ENV.")]
        except KeyError:
            raise StartupError(f"kickstart: there is no variable [{name}].") from None

    def _file(self, name: str, depth: int) -> str:
        if depth == _MAXIMUM_INCLUSIONS:
            raise StartupError(f"kickstart: the file [{name}] is included in itself, or more than 20 deep.")
        try:
            return self._read_file(name)
        except (OSError, UnicodeDecodeError) as error:
            raise StartupError(f"kickstart: the included file [{name}] cannot be read: {error}.") from error

    def _member(self, name: str, kind: type, default: Any) -> Any:
        value = self._document.get(name)
        if value is None:
            return default
        if not isinstance(value, kind):
            raise StartupError(f"kickstart: {name} must be a {'map' if kind is dict else 'list'}.")
        return value


def _parsed(text: str, what: str) -> Any:
    """Parse a text as JSON if it starts like JSON, or else as YAML."""
    try:
        if text.lstrip()[:1] in {"{", "["}:
            return json.loads(text)
        return yaml.load(text, Loader=_Loader)  # noqa: S506 (a SafeLoader with less)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise StartupError(f"kickstart: {what} is neither YAML nor JSON: {error}.") from error


def _require_first_key(api_keys: list[Document]) -> None:
    if not api_keys:
        raise StartupError("kickstart: apiKeys must hold at least one key: the requests are made with the first.")
    first = api_keys[0]
    granted = first.get("permissions") or {}
    bonds = ("tenantId", "ipAccessControlListId", "expirationInstant")
    if not isinstance(granted, dict) or granted.get("endpoints") or any(first.get(name) is not None for name in bonds):
        raise StartupError(
            "kickstart: the first API key must be global and unrestricted: the requests are made with it."
        )


def _text(value: Any) -> str:
    """Return a value as JSON text: `true`, not `True`."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _json(request: Document, where: str) -> Any:
    """Return the body of a request. Raises StartupError for YAML values that JSON does not have, such as a set."""
    try:
        json.dumps(request.get("body"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise StartupError(f"kickstart: {where}: the body cannot be written as JSON: {error}.") from error
    return request.get("body")


def _object(value: Any, where: str) -> Document:
    if not isinstance(value, dict):
        raise StartupError(f"kickstart: {where} must be a map.")
    return value
