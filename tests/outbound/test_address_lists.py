"""The operator's lists of addresses with a bad reputation."""

from __future__ import annotations

from pathlib import Path

import pytest

from identity.errors import StartupError
from identity.outbound.address_lists import AddressLists


def test_addresses_of_every_file_are_found(tmp_path: Path) -> None:
    one, other = tmp_path / "one.txt", tmp_path / "other.netset"
    one.write_text("# scanners\n203.0.113.7\n198.51.100.0/24 ; a comment\n\n2001:db8::/32\n")
    other.write_text("192.0.2.0/25\n192.0.2.128/25\n")
    lists = AddressLists([one, other])
    listed = ["203.0.113.7", "198.51.100.0", "198.51.100.255", "2001:db8::1", "192.0.2.200", "::ffff:203.0.113.7"]
    assert [address for address in listed if not lists.contains(address)] == []
    others = ["203.0.113.6", "203.0.113.8", "198.51.101.0", "2001:db9::", "0.0.0.0", "255.255.255.255", "", "x"]
    assert [address for address in others if lists.contains(address)] == []


def test_without_files_nothing_is_listed() -> None:
    assert not AddressLists().contains("203.0.113.7")


@pytest.mark.parametrize("line", ["not an address", "203.0.113.7/33", "203.0.113"])
def test_line_that_is_no_address_prevents_the_start(tmp_path: Path, line: str) -> None:
    file = tmp_path / "list.txt"
    file.write_text(f"203.0.113.7\n{line}\n")
    with pytest.raises(StartupError, match=r"list\.txt:2: .* is not an address or a network"):
        AddressLists([file])


def test_file_that_cannot_be_read_prevents_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="cannot be read"):
        AddressLists([tmp_path / "none.txt"])
