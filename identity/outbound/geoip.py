"""Where an address is, as far as a MaxMind file of the operator's knows it (MaxMind DB, such as GeoLite2-City).

The package that reads it is imported only where there is a file. It is mapped into memory, and read as it was at the
start of the process.
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
    """Places of addresses; without a file none is known."""

    def __init__(self, file: Path | None = None) -> None:
        """Raises StartupError for a file that is none, or cannot be read here."""
        self._reader: Any = None if file is None else _reader(file)

    def find(self, address: str) -> Document | None:
        """City, country, region, postal code and coordinates of an address, of these what is known; or None."""
        if self._reader is None:
            return None
        try:
            found = self._reader.get(ipaddress.ip_address(address))
        except ValueError:  # no address, or one of IPv6 that a file of IPv4 cannot have
            return None
        return (_place(found) or None) if isinstance(found, Mapping) else None

    async def close(self) -> None:
        """Let go of the file."""
        if self._reader is not None:
            self._reader.close()


def _reader(file: Path) -> Any:
    try:
        package = importlib.import_module("maxminddb")
    except ImportError as error:
        message = "geoip.file needs the package maxminddb: pip install maxminddb, or set null."
        raise StartupError(message) from error
    try:
        return package.open_database(file)
    except (OSError, ValueError, package.InvalidDatabaseError) as error:
        raise StartupError(f"geoip.file: {file} cannot be read as a MaxMind file: {error}") from error


def _place(found: Mapping[str, Any]) -> Document:
    """A record of the file in the words of the API."""
    coordinates = _part(found.get("location"))
    divisions = found.get("subdivisions")
    place = {
        "city": _part(_part(found.get("city")).get("names")).get("en"),
        "country": _part(found.get("country")).get("iso_code"),
        "latitude": coordinates.get("latitude"),
        "longitude": coordinates.get("longitude"),
        "region": _part(divisions[0]).get("iso_code") if isinstance(divisions, list) and divisions else None,
        "zipcode": _part(found.get("postal")).get("code"),
    }
    return {name: value for name, value in place.items() if value is not None}


def _part(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
