"""Locations of addresses: MaxMind files, and invalid files."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from identity.errors import StartupError
from identity.outbound.geoip import GeoIpDatabase
from tests.mmdb import BERLIN, write

pytest.importorskip("maxminddb", reason="a package of setup.py: make install brings it")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    odd = {"country": "DE", "subdivisions": [], "location": {"latitude": 1.5}}
    return write(tmp_path / "city.mmdb", {"203.0.113.0/24": BERLIN, "198.51.100.0/24": odd, "192.0.2.0/24": "text"})


@pytest.mark.requirement("users-10-21")
async def test_location_has_the_member_names_of_the_api(file: Path) -> None:
    geoip = GeoIpDatabase(file)
    assert geoip.find("203.0.113.77") == {
        "city": "Berlin", "country": "DE", "latitude": 52.52, "longitude": 13.405, "region": "BE", "zipcode": "10117",
    }  # fmt: skip
    await geoip.close()


@pytest.mark.requirement("users-10-21")
async def test_unknown_members_of_a_location_are_omitted(file: Path) -> None:
    geoip = GeoIpDatabase(file)
    assert geoip.find("198.51.100.1") == {"latitude": 1.5}
    for address in ("192.0.2.1", "8.8.8.8", "2001:db8::1", "no address", ""):
        assert geoip.find(address) is None
    await geoip.close()


async def test_without_a_file_no_location_is_known() -> None:
    geoip = GeoIpDatabase()
    assert geoip.find("203.0.113.77") is None
    await geoip.close()


def test_invalid_file_prevents_the_start(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.mmdb"
    wrong.write_text("not a database")
    for file in (wrong, tmp_path / "missing.mmdb"):
        with pytest.raises(StartupError, match=r"geoip\.file"):
            GeoIpDatabase(file)


def test_missing_package_prevents_the_start(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(StartupError, match="pip install maxminddb"):
        GeoIpDatabase(file)
