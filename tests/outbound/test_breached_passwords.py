"""Breached passwords: in a file, and in a k-anonymity range service."""

from __future__ import annotations

import dataclasses
import ipaddress
from pathlib import Path

import pytest

from identity.config.sections import Breaches
from identity.domain.login.breach_detection import digest
from identity.outbound.breached_passwords import BreachedPasswordSource, HashFile, RangeService, create_source
from identity.outbound.http import HttpClient
from tests.receiver import answers, hangs, receiving

LOCAL = (ipaddress.ip_network("127.0.0.0/8"),)


def settings(**members: object) -> Breaches:
    usual = Breaches("none", None, "http://127.0.0.1/range/", False, 500, 500, LOCAL)
    return dataclasses.replace(usual, **members)


def write(file: Path, lines: list[str], end: str = "\n") -> HashFile:
    file.write_bytes(end.join([*lines, ""]).encode())
    return HashFile(file)


@pytest.mark.requirement("users-7-29")
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["newlines", "as Windows has them"])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 64, 1000])
async def test_every_line_of_a_file_is_found_and_nothing_else(tmp_path, end: str, count: int) -> None:
    there = [digest(f"password {index}") for index in range(count)]
    lines = [f"{one}:{index}" if index % 3 else one.lower() for index, one in enumerate(sorted(there))]
    source = write(tmp_path / "hashes.txt", lines, end)
    assert [one for one in there if await source.contains(one) is not True] == []
    absent = [digest(f"other {index}") for index in range(20)] + ["0" * 40, "F" * 40]
    assert [one for one in absent if await source.contains(one) is not False] == []


async def test_last_line_needs_no_newline_and_missing_file_is_unknown(tmp_path) -> None:
    file = tmp_path / "hashes.txt"
    lines = sorted(digest(text) for text in ("a", "b"))
    file.write_text("\n".join(lines))
    source = HashFile(file)
    assert [await source.contains(line) for line in lines] == [True, True]
    file.unlink()
    assert await source.contains(lines[0]) is None


@pytest.mark.requirement("users-7-29")
async def test_range_service_receives_five_digits_and_padding_is_ignored() -> None:
    wanted, padding = digest("letmein"), digest("padding")
    body = f"{'0' * 35}:7\r\n{wanted[5:]}:3\r\n{padding[5:]}:0\r\n".encode()
    async with receiving(answers(200, body)) as server:
        source = RangeService(
            HttpClient(allowed_networks=LOCAL), settings(url=f"http://127.0.0.1:{server.port}/range/")
        )
        assert await source.contains(wanted) is True
        assert await source.contains(padding) is False
        assert await source.contains(digest("something else")) is False
        assert [request.path for request in server.requests][:2] == [f"/range/{wanted[:5]}", f"/range/{padding[:5]}"]
        assert {request.headers["add-padding"] for request in server.requests} == {"true"}
        assert not [request for request in server.requests if wanted[5:].encode() in request.body]
        await source.close()


@pytest.mark.requirement("users-7-29")
@pytest.mark.parametrize(
    "behaviour", [answers(500), answers(200, b"x" * 300_000), hangs], ids=["500", "flood", "hangs"]
)
async def test_failing_range_service_is_paused(behaviour) -> None:
    async with receiving(behaviour) as server:
        chosen = settings(source="range", url=f"http://127.0.0.1:{server.port}/", connect_timeout=50, read_timeout=50)
        source = create_source(chosen, "test")
        assert [await source.contains(digest("letmein")) for _ in range(3)] == [None, None, None]
        assert len(server.requests) == 1
        await source.close()


async def test_configuration_selects_the_source(tmp_path) -> None:
    assert type(create_source(settings(), "test")) is BreachedPasswordSource
    assert isinstance(create_source(settings(source="file", file=tmp_path / "x"), "test"), HashFile)
    ranges = create_source(settings(source="range"), "test")
    assert isinstance(ranges, RangeService)
    await ranges.close()
    assert await BreachedPasswordSource().contains(digest("letmein")) is False
