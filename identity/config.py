"""The typed configuration: config/identity.yaml and the environment, checked against schemas/config.json.

Types, defaults and descriptions stand in the schema alone; the dataclasses here give them names in the code.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import ipaddress
import json
import re
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from identity.errors import StartupError
from identity.ids import Secret

SCHEMA_FILE = Path(__file__).resolve().parent.parent / "schemas" / "config.json"
FILE_NAME = "identity.yaml"
ENVIRONMENT_PREFIX = "IDENTITY__"
EMBEDDED = "embedded"

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_Schema = Mapping[str, Any]


class ConfigError(StartupError):
    """The configuration is not usable; `problems` has a line for each fault: place, key, what is wrong, what to do."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


@dataclasses.dataclass(frozen=True, slots=True)
class Server:
    """Where the service listens, and how it sees the proxy in front of it."""

    address: str
    port: int
    base_url: str | None
    trusted_proxies: tuple[Network, ...]
    shutdown_seconds: float
    idle_seconds: float
    max_body_bytes: int
    max_import_bytes: int
    max_header_bytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class MongoDB:
    """Where everything durable lives."""

    uri: Secret
    database: str


@dataclasses.dataclass(frozen=True, slots=True)
class Redis:
    """Where what is short-lived lives."""

    url: Secret


@dataclasses.dataclass(frozen=True, slots=True)
class Kickstart:
    """What an untouched instance is given at its first start."""

    file: Path | None


@dataclasses.dataclass(frozen=True, slots=True)
class Secrets:
    """How secrets are protected at rest."""

    master_key_file: Path | None


@dataclasses.dataclass(frozen=True, slots=True)
class License:
    """Which features are on; None in `features` means all of them."""

    features: Mapping[str, bool] | None

    def has(self, feature: str) -> bool:
        """Whether the feature is on; one that the configuration does not name is."""
        return self.features is None or self.features.get(feature, True)


@dataclasses.dataclass(frozen=True, slots=True)
class Webhooks:
    """Delivery of events."""

    schedule: tuple[int, ...]
    jitter: float
    lease_seconds: int
    concurrency_per_webhook: int
    max_concurrency: int
    allowed_networks: tuple[Network, ...]
    backlog_per_second: int = 200
    breaker_failure_ratio: float = 0.7
    breaker_minimum_attempts: int = 10
    breaker_window_seconds: int = 300
    breaker_pause_seconds: int = 30
    disable_after_seconds: int = 432_000
    payload_warn_bytes: int = 2**20
    payload_max_bytes: int = 25 * 2**20
    retries: str = "durable"

    @property
    def is_published(self) -> bool:
        """Whether failures are treated as the published API has it, rather than by the schedule."""
        return self.retries == "published"


@dataclasses.dataclass(frozen=True, slots=True)
class Email:
    """Sending of mail."""

    schedule: tuple[int, ...]
    timeout_seconds: int
    concurrency_per_tenant: int
    max_concurrency: int
    authorities_file: Path | None


@dataclasses.dataclass(frozen=True, slots=True)
class Lambdas:
    """What one invocation of a lambda may take, and how many there may be at once."""

    time_limit_ms: int
    memory_limit_bytes: int
    stack_limit_bytes: int
    output_limit_bytes: int
    processes: int
    max_waiting: int


@dataclasses.dataclass(frozen=True, slots=True)
class IdentityProviders:
    """Calls to the identity providers of others; timeouts are milliseconds."""

    max_concurrency: int
    connect_timeout: int
    read_timeout: int
    allowed_networks: tuple[Network, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ClientKeys:
    """Fetching the key sets that applications publish; timeouts are milliseconds."""

    max_concurrency: int
    connect_timeout: int
    read_timeout: int
    allowed_networks: tuple[Network, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Breaches:
    """Where breached passwords are looked for; timeouts are milliseconds."""

    source: str
    file: Path | None
    url: str
    pairs: bool
    connect_timeout: int
    read_timeout: int
    allowed_networks: tuple[Network, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class GeoIp:
    """Where addresses are."""

    file: Path | None


@dataclasses.dataclass(frozen=True, slots=True)
class Outbound:
    """How calls to addresses of others leave: through the HTTP proxy, where one is named."""

    proxy: Secret | None


@dataclasses.dataclass(frozen=True, slots=True)
class Audit:
    """What the service writes into the audit log by itself."""

    api_writes: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Logging:
    """The log on standard error."""

    level: str
    format: str


@dataclasses.dataclass(frozen=True, slots=True)
class Metrics:
    """Prometheus metrics."""

    enabled: bool
    allowed_networks: tuple[Network, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Tracing:
    """Where spans go; without an endpoint there are none. `headers` are `name=value` pairs, with commas between."""

    endpoint: str | None
    headers: Secret | None
    service_name: str
    sample_ratio: float


@dataclasses.dataclass(frozen=True, slots=True)
class Config:
    """Everything an operator decides; `folder` is where the file was, `data_dir` is absolute."""

    folder: Path
    server: Server
    data_dir: Path
    mongodb: MongoDB
    redis: Redis
    kickstart: Kickstart
    secrets: Secrets
    license: License
    webhooks: Webhooks
    email: Email
    lambdas: Lambdas
    identity_providers: IdentityProviders
    client_keys: ClientKeys
    breaches: Breaches
    geoip: GeoIp
    outbound: Outbound
    audit: Audit
    logging: Logging
    metrics: Metrics
    tracing: Tracing

    @property
    def master_key_file(self) -> Path:
        """Where the master key is: the file the operator named, else master.key under data_dir."""
        return self.secrets.master_key_file or self.data_dir / "master.key"

    def with_stores(self, mongodb_uri: str | None, redis_url: str | None) -> Config:
        """The same with the addresses of embedded stores filled in; None keeps what is configured."""
        return dataclasses.replace(
            self,
            mongodb=dataclasses.replace(self.mongodb, uri=Secret(mongodb_uri or self.mongodb.uri)),
            redis=dataclasses.replace(self.redis, url=Secret(redis_url or self.redis.url)),
        )


def load(folder: Path, environ: Mapping[str, str]) -> Config:
    """The configuration in `folder`, overridden by the IDENTITY__ variables of `environ`.

    Raises ConfigError with all faults at once, each as "file:line: key: problem; remedy".
    """
    problems: list[str] = []
    values = _file_values(folder / FILE_NAME, problems)
    _override(values, environ, problems)
    values = _with_defaults(values, schema())
    if not problems:
        problems.extend(_file_faults(folder, values))
    if problems:
        raise ConfigError(problems)
    return _typed(folder.resolve(), values)


@functools.cache
def schema() -> _Schema:
    """schemas/config.json."""
    loaded: dict[str, Any] = json.loads(SCHEMA_FILE.read_text("utf-8"))
    return loaded


def settings(node: _Schema | None = None, prefix: str = "") -> Iterator[tuple[str, _Schema]]:
    """Every setting with its schema, in the schema's order: ("server.port", {...})."""
    for name, child in (node or schema())["properties"].items():
        if "properties" in child:
            yield from settings(child, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", child


# Reading the file: composed nodes rather than values, because only nodes know their lines.


def _file_values(file: Path, problems: list[str]) -> dict[str, Any]:
    try:
        node = yaml.compose(file.read_text("utf-8"), Loader=yaml.SafeLoader)
    except FileNotFoundError:
        problems.append(f"{file}: there is no such file; name the folder that holds {FILE_NAME} with --config")
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"{file}: cannot be read ({error}); make it a UTF-8 text that this user may read")
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        problems.append(f"{file}:{line}: is not YAML: {error.problem}; check indentation, quotes and brackets there")
    else:
        if node is not None:
            return _mapping(node, schema(), _Place(str(file), ""), problems)
    return {}


@dataclasses.dataclass(frozen=True, slots=True)
class _Place:
    file: str
    key: str

    def below(self, name: str) -> _Place:
        return _Place(self.file, f"{self.key}.{name}" if self.key else name)

    def fault(self, node: yaml.Node, problem: str) -> str:
        line = node.start_mark.line + 1
        return f"{self.file}:{line}: {self.key}: {problem}" if self.key else f"{self.file}:{line}: {problem}"


def _mapping(node: yaml.Node, described: _Schema, place: _Place, problems: list[str]) -> dict[str, Any]:
    if node.tag == "tag:yaml.org,2002:null":  # every key of the section is commented out
        return {}
    if not isinstance(node, yaml.MappingNode):
        problems.append(place.fault(node, f"must be a map; put one of {_listed(described)} below it"))
        return {}
    values: dict[str, Any] = {}
    for key_node, value_node in node.value:
        name = str(key_node.value)
        at = place.below(name)
        child = described["properties"].get(name)
        if child is None:
            problems.append(at.fault(key_node, f"there is no such setting; {_suggestion(name, described)}"))
        elif name in values:
            problems.append(at.fault(key_node, "is given twice; remove one of the two"))
        elif "properties" in child:
            values[name] = _mapping(value_node, child, at, problems)
        else:
            values[name] = _construct(value_node)
            problems.extend(at.fault(value_node, fault) for fault in _value_faults(values[name], child))
    return values


def _construct(node: yaml.Node) -> Any:
    constructor = yaml.SafeLoader("")
    try:
        return constructor.construct_document(node)
    except yaml.YAMLError:
        return _Unreadable()
    finally:
        constructor.dispose()


class _Unreadable:
    """Stands for a value that YAML itself cannot make, such as an unknown tag; no schema accepts it."""

    def __repr__(self) -> str:
        return "an unreadable value"


def _override(values: dict[str, Any], environ: Mapping[str, str], problems: list[str]) -> None:
    for variable in sorted(v for v in environ if v.startswith(ENVIRONMENT_PREFIX)):
        path = variable.removeprefix(ENVIRONMENT_PREFIX).lower().split("__")
        described = dict(settings()).get(".".join(path))
        if described is None:
            known = [ENVIRONMENT_PREFIX + key.upper().replace(".", "__") for key, _ in settings()]
            problems.append(f"environment: {variable}: there is no such setting; {_nearest(variable, known)}")
            continue
        value = _from_text(environ[variable], described)
        problems.extend(f"environment: {variable}: {fault}" for fault in _value_faults(value, described))
        target = functools.reduce(lambda at, name: at.setdefault(name, {}), path[:-1], values)
        target[path[-1]] = value


def _from_text(text: str, described: _Schema) -> Any:
    """A variable is read as YAML, unless that gives something the setting cannot be and plain text is right."""
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    wants_text = "string" in described.get("type", ())
    return text if wants_text and (value is not None or text == "") and not isinstance(value, str) else value


# Judging a value.


def _is_network(value: object) -> bool:
    return not isinstance(value, str) or bool(ipaddress.ip_network(value))


def _is_base_url(value: object) -> bool:
    if not isinstance(value, str):
        return True
    parts = urllib.parse.urlsplit(value)
    plain = parts.scheme in {"http", "https"} and parts.hostname and not parts.username
    return bool(plain) and value == f"{parts.scheme}://{parts.netloc}" and (parts.port is None or parts.port > 0)


def _is_mongodb_uri(value: object) -> bool:
    return not isinstance(value, str) or value == EMBEDDED or bool(re.match(r"mongodb(\+srv)?://[^/]", value))


def _is_redis_url(value: object) -> bool:
    return not isinstance(value, str) or value == EMBEDDED or bool(re.match(r"(redis|rediss|unix)://.", value))


def _is_proxy(value: object) -> bool:
    return not isinstance(value, str) or bool(re.fullmatch(r"https?://([^/@]+@)?[^/@:]+(:\d{1,5})?/?", value))


def _is_collector(value: object) -> bool:
    return not isinstance(value, str) or bool(re.fullmatch(r"https?://[^/@\s?#]+(/[^@\s?#]*)?", value))


def _are_headers(value: object) -> bool:
    """As the specification of OpenTelemetry has them: `name=value`, with commas between."""
    pair = r"\s*[!#$%&'*+.^_`|~0-9A-Za-z-]+\s*=[\x20-\x2b\x2d-\x7e]*"
    return not isinstance(value, str) or bool(re.fullmatch(rf"{pair}(,{pair})*", value))


_FORMATS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "collector": (_is_collector, "write a URL such as http://127.0.0.1:4318/v1/traces, without user and query"),
    "headers": (_are_headers, "write name=value, with commas between several"),
    "network": (_is_network, "write a network such as 10.1.2.0/24 or 2001:db8::/32"),
    "base-url": (_is_base_url, "write https://host or https://host:port, without path or query"),
    "mongodb-uri": (_is_mongodb_uri, "write `embedded`, or a URI that begins with mongodb:// or mongodb+srv://"),
    "proxy": (_is_proxy, "write http://host:port or http://user:password@host:port"),
    "redis-url": (_is_redis_url, "write `embedded`, or a URL that begins with redis://, rediss:// or unix://"),
}


_SECRET_FORMATS = frozenset({"headers", "mongodb-uri", "proxy", "redis-url"})
"""Formats of values that may hold a password, and are not repeated in a message."""


@functools.cache
def _format_checker() -> jsonschema.FormatChecker:
    checker = jsonschema.FormatChecker(formats=())
    for name, (judge, _) in _FORMATS.items():
        checker.checks(name, raises=ValueError)(judge)
    return checker


def _value_faults(value: object, described: _Schema) -> list[str]:
    validator = jsonschema.Draft202012Validator(described, format_checker=_format_checker())
    errors = list(validator.iter_errors(value))
    # A value of the wrong type fails its other rules too, which would only be noise.
    return [_fault(error, described) for error in errors if error.validator == "type"][:1] or [
        _fault(error, described) for error in errors
    ]


def _fault(error: jsonschema.ValidationError, described: _Schema) -> str:
    shown = "this value" if described.get("format") in _SECRET_FORMATS else repr(error.instance)
    bound: Any = error.validator_value
    match error.validator:
        case "type":
            return f"must be {_words(bound)}, not {shown}; {_example(described)}"
        case "enum":
            return f"must be one of {', '.join(map(str, bound))}, not {shown}; choose one of them"
        case "minimum" | "maximum":
            side = "least" if error.validator == "minimum" else "most"
            return f"must be at {side} {bound}, not {shown}; {_example(described)}"
        case "format":
            return f"{shown} is not usable; {_FORMATS[bound][1]}"
        case "pattern":
            return f"{shown} is not usable; it must match {bound}"
        case "anyOf":
            return f"{shown} is not usable; {described['description']}"
    return f"{error.message}; {_example(described)}"


_TYPE_WORDS = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a map",
    "null": "null",
}


def _words(types: str | list[str]) -> str:
    return " or ".join(_TYPE_WORDS[name] for name in ([types] if isinstance(types, str) else types))


def _example(described: _Schema) -> str:
    return f"the default is {json.dumps(described['default'])}"


def _listed(described: _Schema) -> str:
    return ", ".join(described["properties"])


def _suggestion(name: str, described: _Schema) -> str:
    return _nearest(name, list(described["properties"]))


def _nearest(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else f"remove it, or use one of {', '.join(known)}"


def _file_faults(folder: Path, values: Mapping[str, Any]) -> Iterator[str]:
    """Faults that only the disk knows: a file that is named but not there."""
    remedies = {
        ("kickstart", "file"): "create it, or set null",
        ("secrets", "master_key_file"): "create it, or set null to have one made",
        ("geoip", "file"): "put it there, or set null to know no places",
        ("email", "authorities_file"): "create it, or set null to trust those of the system alone",
        ("breaches", "file"): "create it, or set null",
    }
    for (section, name), remedy in remedies.items():
        given = values[section][name]
        if given is not None and not (folder / given).is_file():
            yield f"{folder / FILE_NAME}: {section}.{name}: there is no file {folder / given}; {remedy}"
    if values["breaches"]["source"] == "file" and values["breaches"]["file"] is None:
        yield f"{folder / FILE_NAME}: breaches.file: the source is a file; name it, or set breaches.source to none"


# From checked values to dataclasses.


def _with_defaults(values: Mapping[str, Any], described: _Schema) -> dict[str, Any]:
    return {
        name: _with_defaults(values.get(name) or {}, child)
        if "properties" in child
        else values.get(name, child["default"])
        for name, child in described["properties"].items()
    }


def _typed(folder: Path, values: dict[str, Any]) -> Config:
    server, webhooks, metrics, tracing = (values[name] for name in ("server", "webhooks", "metrics", "tracing"))
    federation = values["identity_providers"]
    features = values["license"]["features"]
    return Config(
        folder=folder,
        server=Server(**{**server, "trusted_proxies": _networks(server["trusted_proxies"])}),
        data_dir=Path(values["data_dir"]).absolute(),
        mongodb=MongoDB(uri=Secret(values["mongodb"]["uri"]), database=values["mongodb"]["database"]),
        redis=Redis(url=Secret(values["redis"]["url"])),
        kickstart=Kickstart(_below(folder, values["kickstart"]["file"])),
        secrets=Secrets(_below(folder, values["secrets"]["master_key_file"])),
        license=License(None if features == "all" else dict(features)),
        webhooks=Webhooks(
            **{
                **webhooks,
                "schedule": tuple(webhooks["schedule"]),
                "allowed_networks": _networks(webhooks["allowed_networks"]),
            }
        ),
        email=Email(
            **{
                **values["email"],
                "schedule": tuple(values["email"]["schedule"]),
                "authorities_file": _below(folder, values["email"]["authorities_file"]),
            }
        ),
        lambdas=Lambdas(**values["lambdas"]),
        identity_providers=IdentityProviders(
            **{**federation, "allowed_networks": _networks(federation["allowed_networks"])}
        ),
        outbound=Outbound(None if values["outbound"]["proxy"] is None else Secret(values["outbound"]["proxy"])),
        client_keys=ClientKeys(
            **{**values["client_keys"], "allowed_networks": _networks(values["client_keys"]["allowed_networks"])}
        ),
        breaches=Breaches(
            **{
                **values["breaches"],
                "file": _below(folder, values["breaches"]["file"]),
                "allowed_networks": _networks(values["breaches"]["allowed_networks"]),
            }
        ),
        geoip=GeoIp(_below(folder, values["geoip"]["file"])),
        audit=Audit(**values["audit"]),
        logging=Logging(**values["logging"]),
        metrics=Metrics(**{**metrics, "allowed_networks": _networks(metrics["allowed_networks"])}),
        tracing=Tracing(**{**tracing, "headers": None if tracing["headers"] is None else Secret(tracing["headers"])}),
    )


def _networks(texts: Iterable[str]) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(text) for text in texts)


def _below(folder: Path, name: str | None) -> Path | None:
    return None if name is None else folder / name
