"""Loads the configuration from the file and the environment: reports all errors at once, and warns of unsafe values."""

from __future__ import annotations

import dataclasses
import ipaddress
import os
import socket
import typing
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from identity.config.sections import AllowedNetworks, Config, Network
from identity.config.source import FILE_NAME, file_values, override
from identity.config.validation import Described, schema
from identity.errors import StartupError
from identity.ids import Secret

T = TypeVar("T")

_TLS_FILES: Final = frozenset(
    ["tlscafile", "tlscertificatekeyfile", "tlscrlfile", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_crlfile"]
)
"""The options of addresses, in lower case, whose values are files."""


class ConfigError(StartupError):
    """The configuration is invalid; each of `problems` states position, key, problem and remedy."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


def file_of(path: Path) -> Path:
    """The configuration file of a path, which may be the folder that contains identity.yaml."""
    return path if path.is_file() else path / FILE_NAME


def load(path: Path, environ: Mapping[str, str]) -> Config:
    """Load the configuration from a folder or a file, overridden by the IDENTITY__ variables of `environ`.

    Raises ConfigError with all problems, each in the form "file:line: key: problem; remedy".
    """
    problems: list[str] = []
    file = file_of(path)
    values = file_values(file, problems)
    override(values, environ, problems)
    values = _with_defaults(values, schema())
    if not problems:
        problems.extend(_file_faults(file, values))
    if problems:
        raise ConfigError(problems)
    return _typed(file.parent.resolve(), values)


def _file_faults(file: Path, values: Mapping[str, Any]) -> Iterator[str]:
    """The problems of settings that name a file that does not exist."""
    remedies = {
        ("kickstart", "file"): "create it, or set null",
        ("secrets", "master_key_file"): "create it, or set null to generate one",
        ("geoip", "file"): "create it, or set null for no locations",
        ("email", "authorities_file"): "create it, or set null to trust only those of the system",
        ("mutual_tls", "authorities_file"): "create it, or set null without tls_client_auth",
        ("connectors", "authorities_file"): "create it, or set null to trust only those of the system",
        ("client_registration", "trusted_issuers_file"): "create it, or set null to trust none",
        ("breaches", "file"): "create it, or set null",
    }
    for (section, name), remedy in remedies.items():
        given = values[section][name]
        if given is not None and not (file.parent / given).is_file():
            yield f"{file}: {section}.{name}: there is no file {file.parent / given}; {remedy}"
    for setting, address in (("mongodb.uri", values["mongodb"]["uri"]), ("redis.url", values["redis"]["url"])):
        yield from _tls_file_faults(setting, address)
    for given in values["client_risk"]["blocklist_files"]:
        if not (file.parent / given).is_file():
            yield f"{file}: client_risk.blocklist_files: there is no file {file.parent / given}; create it"
    if values["breaches"]["source"] == "file" and values["breaches"]["file"] is None:
        yield f"{file}: breaches.file: required by breaches.source; name a file, or set breaches.source to none"


def _tls_file_faults(setting: str, address: str) -> Iterator[str]:
    """The problems of the files that the options of an address name; relative ones are in the current folder."""
    for name, value in urllib.parse.parse_qsl(address.partition("?")[2]):
        if name.lower() not in _TLS_FILES:
            continue
        if not Path(value).is_file():
            yield f"{setting}: {name}: there is no file {value}; create it, or correct the option of the address"
        elif not os.access(value, os.R_OK):
            yield f"{setting}: {name}: this user may not read {value}; change its owner or its mode"


def _with_defaults(values: Mapping[str, Any], described: Described) -> dict[str, Any]:
    return {
        name: _with_defaults(values.get(name) or {}, child)
        if "properties" in child
        else values.get(name, child["default"])
        for name, child in described["properties"].items()
    }


def _typed(folder: Path, values: Mapping[str, Any]) -> Config:
    sections: dict[str, Any] = {
        name: _section(kind, name, values[name], folder)
        for name, kind in typing.get_type_hints(Config).items()
        if isinstance(kind, type) and dataclasses.is_dataclass(kind)
    }
    return Config(folder=folder, data_dir=Path(values["data_dir"]).absolute(), **sections)


def _section(kind: type[T], section: str, values: Mapping[str, Any], folder: Path) -> T:
    """A section with its values converted to the types of its members."""
    types = typing.get_type_hints(kind)
    return kind(**{name: _converted(types[name], f"{section}.{name}", value, folder) for name, value in values.items()})


def _converted(kind: Any, setting: str, value: Any, folder: Path) -> Any:
    if value is None:
        return None
    if kind is AllowedNetworks:
        return AllowedNetworks(tuple(map(ipaddress.ip_network, value)), setting)
    if kind == tuple[Network, ...]:
        return tuple(ipaddress.ip_network(text) for text in value)
    if kind in {tuple[int, ...], tuple[str, ...]}:
        return tuple(value)
    if kind == tuple[Path, ...]:
        return tuple(folder / name for name in value)
    if kind == Path | None:
        return folder / value
    if kind == Mapping[str, bool] | None:
        return None if value == "all" else dict(value)
    return Secret(value) if kind in {Secret, Secret | None} else value


def warnings(settings: Config) -> list[str]:
    """The settings to change before the service can be reached from other machines."""
    server = settings.server
    if server.base_url is not None or _is_loopback(server.address):
        return []
    situation = f"the service listens on {server.address}, which is not a loopback address"
    effect = "issuers, links and redirects follow the Host header of each request"
    remedy = "Set server.base_url to the public address, such as https://login.example.com"
    return [f"server.base_url is not set while {situation}: {effect}. {remedy}"]


def _is_loopback(host: str) -> bool:
    """Whether only this machine can connect. An unresolvable name counts as such: the service then fails to start."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        pass
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return True
    return all(ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback for *_, address in found)
