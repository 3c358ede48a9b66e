"""QR codes (ISO/IEC 18004): a text as squares that a camera reads. Byte mode, error correction M, versions 1 to 20.

A version is a size, of `17 + 4 * version` modules a side. What a reader needs to find and straighten the picture stands
at fixed places (finder, timing and alignment patterns, format and version); the data winds around it, disguised by the
one of eight masks that leaves the fewest misleading areas.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Final

Modules = list[list[bool]]

_VERSIONS: Final = range(1, 21)
_ECC_PER_BLOCK: Final = (10, 16, 26, 18, 24, 16, 18, 22, 22, 26, 30, 22, 22, 24, 24, 28, 28, 26, 26, 26)
_BLOCKS: Final = (1, 1, 1, 2, 2, 4, 4, 4, 5, 5, 5, 8, 9, 9, 10, 10, 11, 13, 14, 16)
"""Of each version at level M: check bytes of a block, and blocks (ISO/IEC 18004 table 9)."""

_LEVEL_M: Final = 0b00
_BYTE_MODE: Final = 0b0100
_POLYNOMIAL: Final = 0x11D
_FORMAT_POLYNOMIAL, _FORMAT_MASK = 0x537, 0x5412
_VERSION_POLYNOMIAL: Final = 0x1F25
_VERSION_STATED_FROM: Final = 7
_LONG_COUNT_FROM: Final = 10
_QUIET: Final = 4
_LIKE_FINDER: Final = (
    (True, False, True, True, True, False, True) + (False,) * 4,
    (False,) * 4 + (True, False, True, True, True, False, True),
)

_MASKS: Final[tuple[Callable[[int, int], bool], ...]] = (
    lambda x, y: (x + y) % 2 == 0,
    lambda _x, y: y % 2 == 0,
    lambda x, _y: x % 3 == 0,
    lambda x, y: (x + y) % 3 == 0,
    lambda x, y: (x // 3 + y // 2) % 2 == 0,
    lambda x, y: x * y % 2 + x * y % 3 == 0,
    lambda x, y: (x * y % 2 + x * y % 3) % 2 == 0,
    lambda x, y: ((x + y) % 2 + x * y % 3) % 2 == 0,
)


def svg_path(text: str) -> tuple[str, int]:
    """The dark modules of a text's QR code as the data of an SVG path, and the side of its view box, margin included.

    Raises ValueError for a text that is too long.
    """
    modules = encode(text.encode())
    runs = (
        f"M{x + _QUIET} {y + _QUIET}h{length}v1h-{length}z"
        for y, row in enumerate(modules)
        for x, length in _dark_runs(row)
    )
    return "".join(runs), len(modules) + 2 * _QUIET


def encode(data: bytes) -> Modules:
    """The modules of a QR code, row by row, dark ones True. Raises ValueError for more data than version 20 holds."""
    version = next((one for one in _VERSIONS if len(data) <= capacity(one)), None)
    if version is None:
        raise ValueError("the text is too long for a QR code")
    drawing = _Drawing(version)
    drawing.place(_with_check_bytes(version, _data_bytes(version, data)))
    return min((drawing.masked(mask) for mask in range(len(_MASKS))), key=_penalty)


def capacity(version: int) -> int:
    """How many bytes of data a version holds."""
    return (_data_length(version) * 8 - 4 - _count_bits(version)) // 8


def _dark_runs(row: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Where dark modules of a row begin, and how many they are."""
    x = 0
    for is_dark, group in itertools.groupby(row):
        length = sum(1 for _ in group)
        if is_dark:
            yield x, length
        x += length


def _count_bits(version: int) -> int:
    return 8 if version < _LONG_COUNT_FROM else 16


def _raw_bits(version: int) -> int:
    """How many modules are left for data and check bytes."""
    bits = (16 * version + 128) * version + 64
    if version > 1:
        count = version // 7 + 2
        bits -= (25 * count - 10) * count - 55
    return bits - (36 if version >= _VERSION_STATED_FROM else 0)


def _data_length(version: int) -> int:
    return _raw_bits(version) // 8 - _ECC_PER_BLOCK[version - 1] * _BLOCKS[version - 1]


def _data_bytes(version: int, data: bytes) -> bytes:
    """Mode, length, data, end, and the padding that the standard wants."""
    bits = f"{_BYTE_MODE:04b}{len(data):0{_count_bits(version)}b}" + "".join(f"{byte:08b}" for byte in data)
    length = _data_length(version)
    bits += "0" * min(4, length * 8 - len(bits))
    bits += "0" * (-len(bits) % 8)
    found = [int(bits[i : i + 8], 2) for i in range(0, len(bits), 8)]
    padding = itertools.cycle((0xEC, 0x11))
    return bytes([*found, *itertools.islice(padding, length - len(found))])


def _with_check_bytes(version: int, data: bytes) -> bytes:
    """The data in blocks, each with its check bytes, interleaved."""
    blocks, check_length = _BLOCKS[version - 1], _ECC_PER_BLOCK[version - 1]
    short, longer = divmod(len(data), blocks)
    ends = list(itertools.accumulate([short] * (blocks - longer) + [short + 1] * longer))
    parts = [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    checks = [_check_bytes(part, check_length) for part in parts]
    columns = itertools.chain(itertools.zip_longest(*parts), itertools.zip_longest(*checks))
    return bytes(byte for column in columns for byte in column if byte is not None)


def _check_bytes(data: bytes, length: int) -> bytes:
    """Reed-Solomon over GF(256): the remainder of the data by the generator."""
    generator, remainder = _generator(length), [0] * length
    for byte in data:
        factor = byte ^ remainder[0]
        remainder = [*remainder[1:], 0]
        remainder = [one ^ _times(coefficient, factor) for one, coefficient in zip(remainder, generator, strict=True)]
    return bytes(remainder)


@functools.cache
def _generator(degree: int) -> tuple[int, ...]:
    """The product of (x - 2^i), without its leading 1."""
    found, root = [0] * (degree - 1) + [1], 1
    for _ in range(degree):
        found = [_times(one, root) ^ after for one, after in zip(found, [*found[1:], 0], strict=True)]
        root = _times(root, 2)
    return tuple(found)


def _times(one: int, other: int) -> int:
    product = 0
    for bit in range(7, -1, -1):
        product = (product << 1) ^ ((product >> 7) * _POLYNOMIAL)
        product ^= ((other >> bit) & 1) * one
    return product


class _Drawing:
    """A code that is being drawn; what is `fixed` is no place for data."""

    def __init__(self, version: int) -> None:
        self.version, self.size = version, 17 + 4 * version
        self.dark = [[False] * self.size for _ in range(self.size)]
        self.fixed = [[False] * self.size for _ in range(self.size)]
        self._draw_patterns()

    def place(self, data: bytes) -> None:
        """Wind the data through what is free: in columns of two from the right, upwards and downwards in turn."""
        bits = (byte >> bit & 1 for byte in data for bit in range(7, -1, -1))
        for x, y in self._way():
            self.dark[y][x] = bool(next(bits, 0))

    def masked(self, mask: int) -> Modules:
        """The finished code under a mask."""
        copy = [row[:] for row in self.dark]
        for y, x in itertools.product(range(self.size), repeat=2):
            if not self.fixed[y][x]:
                copy[y][x] ^= _MASKS[mask](x, y)
        for (x, y), is_dark in zip(self._format_places(), self._format_bits(mask), strict=True):
            copy[y][x] = is_dark
        return copy

    def _way(self) -> Iterator[tuple[int, int]]:
        right, upwards = self.size - 1, True
        while right > 0:
            if right == 6:
                right -= 1
            rows = range(self.size - 1, -1, -1) if upwards else range(self.size)
            yield from ((x, y) for y in rows for x in (right, right - 1) if not self.fixed[y][x])
            right, upwards = right - 2, not upwards

    def _set(self, x: int, y: int, *, is_dark: bool) -> None:
        self.dark[y][x], self.fixed[y][x] = is_dark, True

    def _draw_patterns(self) -> None:
        for i in range(self.size):
            self._set(6, i, is_dark=i % 2 == 0)
            self._set(i, 6, is_dark=i % 2 == 0)
        for x, y in ((3, 3), (self.size - 4, 3), (3, self.size - 4)):
            self._draw_rings(x, y, reach=4, light=(2, 4))
        centers = _alignment_centers(self.version, self.size)
        corners = {(6, 6), (6, self.size - 7), (self.size - 7, 6)}
        for place in itertools.product(centers, repeat=2):
            if place not in corners:
                self._draw_rings(*place, reach=2, light=(1,))
        for x, y in self._format_places():
            self._set(x, y, is_dark=False)
        self._set(8, self.size - 8, is_dark=True)
        if self.version >= _VERSION_STATED_FROM:
            self._draw_version()

    def _draw_rings(self, x: int, y: int, *, reach: int, light: tuple[int, ...]) -> None:
        """Squares around a center, dark but for those at the distances in `light`."""
        for dx, dy in itertools.product(range(-reach, reach + 1), repeat=2):
            if 0 <= x + dx < self.size and 0 <= y + dy < self.size:
                self._set(x + dx, y + dy, is_dark=max(abs(dx), abs(dy)) not in light)

    def _draw_version(self) -> None:
        stated = self.version << 12 | _remainder(self.version, _VERSION_POLYNOMIAL, 12)
        for i in range(18):
            is_dark, far, near = bool(stated >> i & 1), self.size - 11 + i % 3, i // 3
            self._set(far, near, is_dark=is_dark)
            self._set(near, far, is_dark=is_dark)

    def _format_bits(self, mask: int) -> list[bool]:
        stated = _LEVEL_M << 3 | mask
        bits = (stated << 10 | _remainder(stated, _FORMAT_POLYNOMIAL, 10)) ^ _FORMAT_MASK
        return [bool(bits >> i & 1) for i in range(15)] * 2

    def _format_places(self) -> list[tuple[int, int]]:
        """Where the bits of the format stand, the lowest first: around one finder pattern, and at the other two."""
        beside = [(8, y) for y in (*range(6), 7, 8)] + [(x, 8) for x in (7, *range(5, -1, -1))]
        apart = [(self.size - 1 - i, 8) for i in range(8)] + [(8, self.size - 7 + i) for i in range(7)]
        return beside + apart


def _alignment_centers(version: int, size: int) -> list[int]:
    if version == 1:
        return []
    count = version // 7 + 2
    step = (version * 4 + count * 2 + 1) // (count * 2 - 2) * 2
    return sorted([6, *(size - 7 - i * step for i in range(count - 1))])


def _remainder(value: int, polynomial: int, degree: int) -> int:
    """Of `value * x^degree` by a polynomial over GF(2)."""
    found = value
    for _ in range(degree):
        found = found << 1 ^ (found >> (degree - 1)) * polynomial
    return found


def _penalty(modules: Modules) -> int:
    """How much a reader could be misled (ISO/IEC 18004 section 7.8.3)."""
    columns = [list(column) for column in zip(*modules, strict=True)]
    total = sum(_line_penalty(line) for line in (*modules, *columns))
    for upper, lower in itertools.pairwise(modules):
        squares = zip(upper, upper[1:], lower, lower[1:], strict=False)
        total += 3 * sum(1 for square in squares if len(set(square)) == 1)
    dark, area = sum(map(sum, modules)), len(modules) ** 2
    return total + 10 * ((abs(dark * 20 - area * 10) + area - 1) // area - 1)


def _line_penalty(line: list[bool]) -> int:
    runs = (sum(1 for _ in group) for _, group in itertools.groupby(line))
    total = sum(length - 2 for length in runs if length >= 5)
    windows = (tuple(line[i : i + 11]) for i in range(len(line) - 10))
    return total + 40 * sum(1 for window in windows if window in _LIKE_FINDER)
