"""Master keys: creation by one of several processes, rotation, and resealing."""

from __future__ import annotations

import concurrent.futures
import re
import secrets
from pathlib import Path
from typing import Any

import pytest

from identity.errors import StartupError
from identity.ids import new_id
from identity.store.cache import ChangeStreamStatus
from identity.store.documents import Documents
from identity.store.mongo import Database
from identity.store.vault import Vault, add_master_key, ensure_master_keys, read_master_keys


def test_processes_that_start_at_once_agree_on_the_key_that_one_of_them_makes(tmp_path: Path) -> None:
    file = tmp_path / "keys" / "master.key"
    with concurrent.futures.ThreadPoolExecutor(16) as threads:
        found = list(threads.map(lambda _: ensure_master_keys(file), range(64)))
    assert all(keys == found[0] for keys in found)
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_new_master_key_is_the_first(tmp_path: Path) -> None:
    file = tmp_path / "master.key"
    before = ensure_master_keys(file)
    file.chmod(0o400)
    added = add_master_key(file)
    assert list(read_master_keys(file)) == [added, *before]
    assert file.stat().st_mode & 0o777 == 0o600


def test_unwritable_key_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StartupError, match="cannot be written"):
        ensure_master_keys(tmp_path / "file" / "master.key")


def test_running_process_reads_values_sealed_with_a_new_key(tmp_path: Path) -> None:
    file = tmp_path / "master.key"
    early = Vault.of_file(file)
    add_master_key(file)
    late = Vault.of_file(file)
    sealed = late.seal("secret", "place")
    assert early.unseal(sealed, "place") == "secret"
    assert late.unseal(early.seal("other", "place"), "place") == "other"
    assert not early.is_current(sealed)


def test_missing_master_key_is_reported_by_its_id(tmp_path: Path) -> None:
    lost = Vault({"lost": secrets.token_bytes(32)}).seal("secret", "place")
    with pytest.raises(StartupError, match=r"\[lost\]"):
        Vault.of_file(tmp_path / "master.key").unseal(lost, "place")


@pytest.mark.requirement("design-state-8")
@pytest.mark.parametrize(
    "data",
    [
        {"$ne": "anything"},
        {"$unknown": 1},
        {"$ref": "other", "$id": "1"},
        {"dotted.name": 1, "": None},
    ],
)
async def test_document_moves_to_the_new_key_whatever_its_data_look_like(database: Database, data: Any) -> None:
    """A document may contain names that look like query operators."""
    old, new = secrets.token_bytes(32), secrets.token_bytes(32)
    name = f"things_{new_id()[:8]}"

    def things(**keys: bytes) -> Documents:
        sealed = ("secret", "list.*.secret", "map.*")
        return Documents(database, name, Vault(keys), ChangeStreamStatus(), tenant_scoped=False, sealed=sealed)

    document = {"id": new_id(), "secret": "one", "list": [{"secret": "two"}, {"other": 1}], "data": data}
    document["map"] = {"X-Name": "three", "X.dotted.name": "four", "$name": "five", "$literal": "six", "": "seven"}
    await things(old=old).insert(None, document)
    stored = await database.collection(name).find_one({})
    assert not {"one", "two", "three", "four", "five", "six", "seven"} & set(re.findall(r"\w+", repr(stored)))
    assert await things(new=new, old=old).reseal() == 1
    assert await things(new=new, old=old).reseal() == 0
    assert await things(new=new).find(None, document["id"]) == document
