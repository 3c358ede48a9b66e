"""Identifiers are unique random UUIDs."""

from __future__ import annotations

import os
import uuid

from identity import ids


def test_ids_are_random_canonical_uuids() -> None:
    made = [ids.new_id() for _ in range(2000)]
    assert len(set(made)) == len(made)
    for one in made:
        assert str(uuid.UUID(one)) == one
        assert (uuid.UUID(one).version, uuid.UUID(one).variant) == (4, uuid.RFC_4122)


def test_all_variable_bits_are_random() -> None:
    numbers = [uuid.UUID(ids.new_id()).int for _ in range(500)]
    ones, zeros = 0, 0
    for number in numbers:
        ones, zeros = ones | number, zeros | ~number & (2**128 - 1)
    assert (ones & zeros).bit_count() == 122


def test_forked_process_generates_other_ids() -> None:
    ids.new_id()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, ids.new_id().encode())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(read, 36).decode()
    os.close(read)
    os.close(write)
    assert ids.parse_id(theirs) == theirs
    assert theirs not in {ids.new_id() for _ in range(300)}
