"""The files with secrets: a master key that is missing, wrong or readable by others, and its siblings."""

from __future__ import annotations

import base64
import json
import secrets
import stat
from pathlib import Path
from typing import Any

import pytest

from identity.ids import new_id
from tests.operator.processes import run, serving


@pytest.fixture
def filled(stores, tmp_path) -> tuple[Path, dict[str, Any]]:
    """The data folder and the settings of an instance that was started once."""
    settings = {
        "mongodb__uri": stores.mongodb_uri, "mongodb__database": f"test_{new_id()[:13].replace('-', '')}",
        "redis__url": stores.redis_url, "kickstart__file": "null",
    }  # fmt: skip
    with serving(tmp_path / "var", **settings):
        pass
    return tmp_path / "var", settings


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def faults(data_dir: Path, **settings: Any) -> list[str]:
    found: list[str] = json.loads(run(data_dir, "check-config", "--json", **settings).stdout)["faults"]
    return found


@pytest.mark.requirement("start-2")
@pytest.mark.parametrize(
    "arguments", [(), ("run", "--role", "worker"), ("admin", "list", "tenant", "--local")], ids=str
)
def test_missing_master_key_of_a_filled_database_is_reported_and_not_replaced(filled, arguments):
    data_dir, settings = filled
    (data_dir / "master.key").unlink()
    refused = run(data_dir, *arguments, **settings)
    assert refused.returncode == 1
    message = refused.stderr.splitlines()[-1]
    assert message.startswith(f"run.py: The master key file {data_dir}/master.key does not exist, but the database")
    assert "Put the file back from the backup" in message
    assert not (data_dir / "master.key").exists()
    [fault] = faults(data_dir, **settings)
    assert message.endswith(fault)
    assert run(data_dir, "rotate-master-key", **settings).returncode == 1
    assert not (data_dir / "master.key").exists()


@pytest.mark.requirement("start-2")
@pytest.mark.parametrize("key_id", ["other", None], ids=["other id", "same id"])
def test_master_key_of_another_instance_is_reported(filled, key_id):
    data_dir, settings = filled
    file = data_dir / "master.key"
    right = file.read_text().partition(":")[0]
    key_id = key_id or right
    file.write_text(f"{key_id}:{base64.b64encode(secrets.token_bytes(32)).decode()}\n")
    before = file.read_text()
    refused = run(data_dir, **settings)
    assert refused.returncode == 1
    assert f"master key [{right}]" in refused.stderr
    assert str(file) in refused.stderr
    assert "Traceback" not in refused.stderr
    [fault] = faults(data_dir, **settings)
    assert str(file) in fault
    assert file.read_text() == before


@pytest.mark.requirement("start-2")
def test_missing_master_key_of_stopped_embedded_stores_is_reported(tmp_path):
    (tmp_path / "mongodb" / "data").mkdir(parents=True)
    assert faults(tmp_path) == []
    (tmp_path / "mongodb" / "data" / "WiredTiger").touch()
    [fault] = faults(tmp_path)
    assert f"{tmp_path}/master.key does not exist" in fault


@pytest.mark.requirement("start-3")
def test_secret_files_that_others_may_read_get_their_mode_back(tmp_path):
    names = ("master.key", "kickstart-secrets.txt", "mongodb/keyfile", "mongodb/password")
    with serving(tmp_path):
        pass
    files = [tmp_path / name for name in names]
    for file in files:
        file.chmod(0o644)
    checked = json.loads(run(tmp_path, "check-config", "--json").stdout)
    assert [line.partition(" ")[0] for line in checked["warnings"]] == list(map(str, files))
    assert {mode(file) for file in files} == {0o644}
    with serving(tmp_path) as process:
        log = process.text()
        assert {mode(file) for file in (*files, tmp_path / "embedded.json")} == {0o600}
    for file in files:
        assert (
            f"a secret file could be read by others; its mode is 0600 now [identity.store.data_dir] file={file}" in log
        )
    assert json.loads(run(tmp_path, "check-config", "--json").stdout)["warnings"] == []
