"""Locations of IP addresses from a MaxMind DB file that the operator provides, such as GeoLite2-City.

The reader package is imported only if a file is configured. The file is mapped into memory once, at startup.
"""

from __future__ import annotations

import importlib
import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from identity.call import Document
from identity.errors import StartupError


class GeoIpDatabase:
    """Locations by IP address; without a file it has none."""

    def __init__(self, file: Path | None = None) -> None:
        """Raise StartupError if the file cannot be read."""
        self._reader: Any = None if file is None else _open(file)

    def find(self, address: str) -> Document | None:
        """The known ones of city, country, region, postal code and coordinates of an address, or None."""
        if self._reader is None:
            return None
        try:
            found = self._reader.get(ipaddress.ip_address(address))
        except ValueError:  # not an address, or an IPv6 address with an IPv4-only file
            return None
        return (_location(found) or None) if isinstance(found, Mapping) else None

    async def close(self) -> None:
        """Close the file."""
        if self._reader is not None:
            self._reader.close()


def _open(file: Path) -> Any:
    try:
        package = importlib.import_module("maxminddb")
    except ImportError as error:
        message = "geoip.file needs the package maxminddb: pip install maxminddb, or set null."
        raise StartupError(message) from error
    try:
        return package.open_database(file)
    except (OSError, ValueError, package.InvalidDatabaseError) as error:
        raise StartupError(f"geoip.file: {file} cannot be read as a MaxMind file: {error}") from error


def _location(found: Mapping[str, Any]) -> Document:
    """A record of the file with the member names of the API."""
    coordinates = _mapping(found.get("location"))
    divisions = found.get("subdivisions")
    location = {
        "city": _mapping(_mapping(found.get("city")).get("names")).get("en"),
        "country": _mapping(found.get("country")).get("iso_code"),
        "latitude": coordinates.get("latitude"),
        "longitude": coordinates.get("longitude"),
        "region": _mapping(divisions[0]).get("iso_code") if isinstance(divisions, list) and divisions else None,
        "zipcode": _mapping(found.get("postal")).get("code"),
    }
    return {name: value for name, value in location.items() if value is not None}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
