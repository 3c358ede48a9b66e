"""identity user-data export: on standard output, in a file and in a zip file."""

from __future__ import annotations

import json
import zipfile

import pytest

from identity.cli import exit_codes
from tests.conftest import UNKNOWN_ID


@pytest.mark.requirement("personal-3")
async def test_data_of_a_user_are_printed(identity, rp):
    done = await identity("user-data", "export", rp.user["id"])
    assert done.json["user"]["email"] == rp.login_id


@pytest.mark.requirement("personal-3")
async def test_files_are_readable_by_their_owner_only_and_never_replaced(identity, rp, tmp_path):
    plain, zipped = tmp_path / "data.json", tmp_path / "data.zip"
    for target in (plain, zipped):
        assert (await identity("user-data", "export", rp.user["id"], "--output", str(target))).code == 0
        assert target.stat().st_mode & 0o777 == 0o600
    with zipfile.ZipFile(zipped) as archive:
        found = json.loads(archive.read("user-data.json"))
    assert found["user"] == json.loads(plain.read_text())["user"]
    again = await identity("user-data", "export", rp.user["id"], "--output", str(plain))
    assert (again.code, "exists already" in again.err) == (1, True)
    nowhere = await identity("user-data", "export", rp.user["id"], "--output", str(tmp_path / "none" / "data.json"))
    assert (nowhere.code, "cannot be written" in nowhere.err) == (1, True)


@pytest.mark.requirement("personal-3")
async def test_unknown_user_and_malformed_id_are_refused(identity):
    assert (await identity("user-data", "export", UNKNOWN_ID)).code == exit_codes.NOT_FOUND
    assert (await identity("user-data", "export", "ada@example.com")).code == 2
