"""QR codes, read back by an independent decoder."""

from __future__ import annotations

import itertools
import re

import pytest

from identity.domain.two_factor import qr_codes

# ISO/IEC 18004 table 7, level M, byte mode.
CAPACITIES = [14, 26, 42, 62, 84, 106, 122, 152, 180, 213, 251, 287, 331, 362, 412, 450, 504, 560, 624, 666]
# Annex C: format information of level M, masks 0 to 7.
FORMATS = [
    *("101010000010010", "101000100100101", "101111001111100", "101101101001011"),
    *("100010111111001", "100000011001110", "100111110010111", "100101010100000"),
]
# Annex E: centers of alignment patterns.
CENTERS = {
    1: [],
    2: [6, 18],
    5: [6, 30],
    7: [6, 22, 38],
    8: [6, 24, 42],
    10: [6, 28, 50],
    14: [6, 26, 46, 66],
    20: [6, 34, 62, 90],
}
# Table 9: of some versions at level M, check bytes of a block, and the lengths of the blocks of data.
BLOCKS = {1: (10, [16]), 5: (24, [43, 43]), 8: (22, [38, 38, 39, 39]), 10: (26, [43, 43, 43, 43, 44])}
CONDITIONS = {
    0: lambda i, j: (i + j) % 2,
    1: lambda i, j: i % 2,
    2: lambda i, j: j % 3,
    3: lambda i, j: (i + j) % 3,
    4: lambda i, j: (i // 2 + j // 3) % 2,
    5: lambda i, j: (i * j) % 2 + (i * j) % 3,
    6: lambda i, j: ((i * j) % 2 + (i * j) % 3) % 2,
    7: lambda i, j: ((i * j) % 3 + (i + j) % 2) % 2,
}


def is_function(version: int, i: int, j: int) -> bool:
    """Whether the module in row i and column j is a function module."""
    size = 17 + 4 * version
    if 6 in (i, j) or (i <= 8 and (j <= 8 or j >= size - 8)) or (i >= size - 8 and j <= 8):
        return True
    if version >= 7 and ((i < 6 and j >= size - 11) or (j < 6 and i >= size - 11)):
        return True
    centers = CENTERS[version]
    corners = {(6, 6), (6, size - 7), (size - 7, 6)}
    return any(
        abs(i - row) <= 2 and abs(j - column) <= 2
        for row, column in itertools.product(centers, repeat=2)
        if (row, column) not in corners
    )


def logarithms() -> tuple[list[int], dict[int, int]]:
    powers, value = [], 1
    for _ in range(255):
        powers.append(value)
        value = (value << 1) ^ (0x11D if value & 0x80 else 0)
    return powers, {power: exponent for exponent, power in enumerate(powers)}


POWERS, LOGARITHMS = logarithms()


def syndromes(block: bytes, count: int) -> set[int]:
    """What is left of a block, data and check bytes, at each root of the generator: nothing, if it is right."""
    found = set()
    for root in range(count):
        total = 0
        for byte in block:
            total = (POWERS[(LOGARITHMS[total] + root) % 255] if total else 0) ^ byte
        found.add(total)
    return found


def read(modules: list[list[bool]]) -> bytes:
    """Decode a code of one of the versions in BLOCKS."""
    size = len(modules)
    version = (size - 17) // 4
    stated = "".join(str(int(modules[i][8])) for i in (0, 1, 2, 3, 4, 5, 7, 8))
    stated += "".join(str(int(modules[8][j])) for j in (7, 5, 4, 3, 2, 1, 0))
    mask = FORMATS.index(stated[::-1])
    second = "".join(str(int(modules[8][size - 1 - j])) for j in range(8))
    second += "".join(str(int(modules[size - 7 + i][8])) for i in range(7))
    assert second == stated
    assert modules[size - 8][8]
    bits = ""
    columns = [*range(size - 1, 6, -2), 5, 3, 1]
    for turn, right in enumerate(columns):
        rows = range(size) if turn % 2 else range(size - 1, -1, -1)
        for i, j in ((i, j) for i in rows for j in (right, right - 1)):
            if not is_function(version, i, j):
                bits += str(int(modules[i][j]) ^ (CONDITIONS[mask](i, j) == 0))
    check_length, lengths = BLOCKS[version]
    words = [int(bits[k : k + 8], 2) for k in range(0, len(bits) // 8 * 8, 8)]
    blocks: list[list[int]] = [[] for _ in lengths]
    stream = iter(words)
    for k in range(max(lengths)):
        for block, length in zip(blocks, lengths, strict=True):
            if k < length:
                block.append(next(stream))
    data = bytes(byte for block in blocks for byte in block)
    for _ in range(check_length):
        for block in blocks:
            block.append(next(stream))
    for block in blocks:
        assert syndromes(bytes(block), check_length) == {0}
    plain = "".join(f"{byte:08b}" for byte in data)
    assert plain[:4] == "0100"
    width = 8 if version < 10 else 16
    length = int(plain[4 : 4 + width], 2)
    start = 4 + width
    return bytes(int(plain[start + 8 * k : start + 8 * k + 8], 2) for k in range(length))


@pytest.mark.requirement("oauth-1.9-8")
@pytest.mark.parametrize("version", BLOCKS)
def test_qr_code_encodes_its_text(version):
    text = "otpauth://totp/".ljust(CAPACITIES[version - 1], "x")[: CAPACITIES[version - 1]]
    modules = qr_codes.modules(text)
    assert len(modules) == 17 + 4 * version
    assert read(modules) == text.encode()


def test_overlong_text_is_rejected():
    with pytest.raises(ValueError, match="too large"):
        qr_codes.svg_path("x" * 5000)


def test_path_draws_the_dark_modules_inside_a_margin():
    path, side = qr_codes.svg_path("otpauth://totp/x")
    modules = qr_codes.modules("otpauth://totp/x")
    drawn = set()
    for x, y, length in re.findall(r"M(\d+) (\d+)h(\d+)v1h-\3z", path):
        drawn |= {(int(x) + k, int(y)) for k in range(int(length))}
    assert drawn == {(x + 4, y + 4) for y, row in enumerate(modules) for x, dark in enumerate(row) if dark}
    assert side == len(modules) + 8
