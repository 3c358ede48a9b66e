"""run.py check-config: list applications that do not comply with the profile strict, with the reasons."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from identity import app, config
from identity.ids import new_id
from tests import internals, relying_party
from tests.operator.processes import ROOT, environment, run, serving
from tests.ports import free_port

STRICT = {"profile": "strict", "proofKeyForCodeExchangePolicy": "Required"}
WEAK = {
    "enabledGrants": ["authorization_code", "implicit"],
    "authorizedRedirectURLs": [relying_party.REDIRECT_URI, "http://app.example.com/cb"],
}
ID_TOKEN_KEY = "must name an ES256, PS256 or EdDSA key, or be left to a tenant that names one"
IMPLICIT = "the implicit grant puts access tokens into URLs"


def checked(data_dir, *arguments, **settings) -> str:
    finished = run(data_dir, "check-config", *arguments, **settings)
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == ""
    return finished.stdout


def stores_of(service: app.Service) -> dict[str, object]:
    """The settings with which a command reads the database of a service."""
    settings = internals.config(service)
    return {
        "mongodb__uri": settings.mongodb.uri,
        "mongodb__database": settings.mongodb.database,
        "secrets__master_key_file": settings.master_key_file,
    }


@pytest.mark.requirement("oauth-12-30", "project-8")
async def test_check_config_lists_each_application_with_settings_and_rules(api, service, tmp_path):
    weak, strict = (
        await relying_party.make(api, **WEAK),
        await relying_party.make(api, tokens=await relying_party.strict_tokens(api), **STRICT),
    )
    gone = await relying_party.make(api, **WEAK)
    await api.delete(f"/api/application/{gone.client_id}", headers={"X-FusionAuth-TenantId": gone.tenant["id"]})
    stores = stores_of(service)
    found = {one["applicationId"]: one for one in json.loads(checked(tmp_path, "--json", **stores))["applications"]}
    assert gone.client_id not in found
    assert found[strict.client_id] == {
        "applicationId": strict.client_id,
        "name": strict.application["name"],
        "tenantId": strict.tenant["id"],
        "tenantName": strict.tenant["name"],
        "profile": "strict",
        "shortcomings": [],
    }
    assert found[weak.client_id]["shortcomings"][1] == {
        "path": "application.oauthConfiguration.proofKeyForCodeExchangePolicy",
        "problem": "must be Required",
        "rule": "RFC 9700 section 2.1.1",
    }
    assert weak.secret not in str(found)
    text = checked(tmp_path, **stores)
    first, counts, *_ = text.splitlines()
    assert first == f"{ROOT / 'config' / 'identity.yaml'}: no faults found"
    assert counts.endswith("do not comply with the profile strict (docs/oauth/profiles.md)")
    heading = f"{weak.application['name']} ({weak.client_id}) of {weak.tenant['name']}\n"
    assert heading in text
    lines = text.partition(heading)[2].partition("\n\n")[0].splitlines()
    prefix = "  application.oauthConfiguration"
    assert lines == [
        f"{prefix}.profile is not strict (RFC 9700)",
        f"{prefix}.proofKeyForCodeExchangePolicy must be Required (RFC 9700 section 2.1.1)",
        f"{prefix}.authorizedRedirectURLs[1] must be https, or http at 127.0.0.1 or [::1] (RFC 9700 section 2.6)",
        f"{prefix}.enabledGrants[1] must not be implicit: {IMPLICIT} (RFC 9700 section 2.1.2)",
        f"  application.jwtConfiguration.idTokenKeyId {ID_TOKEN_KEY} (FAPI 2.0 section 5.4.1)",
    ]
    assert strict.client_id not in text
    assert gone.client_id not in text
    assert not list(tmp_path.iterdir())


@pytest.mark.requirement("audit-a2-issuer")
async def test_tenants_that_share_an_issuer_are_reported(api, service, tmp_path):
    made = [await relying_party.make_tenant(api) for _ in range(2)]
    issuer = f"https://shared-{made[0]['id']}.example.com"
    tenants, shared = internals.store(service, "tenants"), []
    for tenant, name in zip(made, (issuer, f"{issuer}/"), strict=True):
        await tenants.update(None, {"_id": tenant["id"]}, {"$set": {"issuer": name}})
        shared.append({"tenantId": tenant["id"], "name": tenant["name"]})
    stores = stores_of(service)
    [found] = json.loads(await asyncio.to_thread(checked, tmp_path, "--json", **stores))["duplicateIssuers"]
    shared.sort(key=lambda one: one["name"])
    assert found == {"issuer": found["issuer"], "tenants": shared}
    [line] = [line for line in (await asyncio.to_thread(checked, tmp_path, **stores)).splitlines() if issuer in line]
    assert line.startswith("the issuer ") and all(tenant["id"] in line for tenant in made)
    for tenant in made:
        assert (await api.delete(f"/api/tenant/{tenant['id']}")).status_code == 200
    assert await app.duplicate_issuers(internals.config(service)) == []


@pytest.mark.requirement("core-18-templates-30")
async def test_messages_of_themes_that_no_page_shows_are_reported(api, service, tmp_path):
    messages = {
        "defaultMessages": "submit=Go\nlogin.heading=Hi\nhelp=Help",
        "localizedMessages": {"de": "wait-title=X"},
    }
    answer = await api.post("/api/theme", json={"theme": {"name": f"Theme {new_id()}", **messages}})
    theme, stores = answer.json()["theme"], stores_of(service)
    assert theme["notices"] == ["No page shows 2 messages of the theme: [help], [wait-title]."]
    themes = json.loads(await asyncio.to_thread(checked, tmp_path, "--json", **stores))["unusedMessages"]
    [found] = [one for one in themes if one["themeId"] == theme["id"]]
    assert found == {"themeId": theme["id"], "name": theme["name"], "keys": ["help", "wait-title"]}
    lines = (await asyncio.to_thread(checked, tmp_path, **stores)).splitlines()
    [number] = [index for index, line in enumerate(lines) if theme["id"] in line]
    assert lines[number + 1] == "  help, wait-title"
    assert (await api.delete(f"/api/theme/{theme['id']}")).status_code == 200


@pytest.mark.requirement("audit-c2-check-config", "oauth-12-30")
@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"mongodb__uri": "mongodb://127.0.0.1:{port}/?serverSelectionTimeoutMS=100"}, "MongoDB does not answer"),
        ({"redis__url": "redis://127.0.0.1:{port}/0"}, "Redis does not answer (redis.url)"),
        ({"data_dir": "/proc/nowhere/var"}, "data_dir /proc/nowhere/var cannot be used: "),
        ({"data_dir": "/dev/null"}, "data_dir /dev/null cannot be used: "),
        ({"server__address": "192.0.2.1"}, "this machine has no such address"),
    ],
    ids=["mongodb", "redis", "data_dir", "data_dir is a file", "address"],
)
def test_startup_problems_are_reported_as_faults(tmp_path, settings, fault):
    given = {name: value.format(port=free_port()) for name, value in settings.items()}
    folder = Path(given.pop("data_dir", tmp_path))
    answer = run(folder, "check-config", "--json", **given)
    assert (answer.returncode, answer.stderr) == (1, "")
    (found,) = json.loads(answer.stdout)["faults"]
    assert fault in found
    assert not list(tmp_path.iterdir())


@pytest.mark.requirement("audit-c2-check-config")
def test_faults_are_listed_below_their_number(tmp_path):
    text = run(tmp_path, "check-config", server__address="192.0.2.1")
    assert (text.returncode, text.stderr) == (1, "")
    heading, fault, *_ = text.stdout.splitlines()
    assert heading.endswith("identity.yaml: 1 faults found")
    assert fault.startswith("  ")
    assert "this machine has no such address" in fault


@pytest.mark.requirement("audit-c2-check-config")
def test_every_fault_is_reported_at_once():
    port = free_port()
    text = run(
        Path("/dev/null/var"), "check-config", "--json", redis__url=f"redis://127.0.0.1:{port}/0",
        mongodb__uri=f"mongodb://127.0.0.1:{port}/?serverSelectionTimeoutMS=100",
    )  # fmt: skip
    answer = json.loads(text.stdout)
    assert answer.keys() == {"configuration", "faults", "warnings", "applicationsUnread"}
    assert len(answer["faults"]) == 3


@pytest.mark.requirement("audit-c2-check-config")
def test_master_key_that_cannot_be_read_is_a_fault(tmp_path):
    (tmp_path / "master.key").write_text("no key")
    text = run(tmp_path, "check-config")
    assert text.returncode == 1
    assert f"The master key file {tmp_path}/master.key" in text.stdout


@pytest.mark.requirement("audit-c2-check-config")
def test_faults_of_the_file_are_reported_as_json_too(tmp_path):
    text = run(tmp_path, "check-config", "--json", server__port="x")
    assert text.returncode == 78
    (fault,) = json.loads(text.stdout)["faults"]
    assert fault.startswith("environment: IDENTITY__SERVER__PORT: must be a whole number")


@pytest.mark.requirement("audit-c2-check-config")
def test_configuration_is_named_by_its_folder_or_its_file(tmp_path):
    for name in ("identity.yaml", "other.yaml"):
        file = tmp_path / name
        file.write_text("kickstart: {file: null}\nserver: {prot: 1}\n")
        text = run(tmp_path, "--config", str(file), "check-config")
        assert text.returncode == 78
        assert f"{file}:2: server.prot: there is no such setting" in text.stderr


@pytest.mark.requirement("audit-c2-check-config")
def test_without_a_configuration_here_the_one_next_to_the_program_is_read(tmp_path):
    arguments = [sys.executable, str(ROOT / "run.py"), "check-config"]
    data = environment(tmp_path / "var")
    text = subprocess.run(arguments, capture_output=True, text=True, check=False, cwd=tmp_path, env=data)
    assert text.returncode == 0, text.stderr
    assert text.stdout.startswith(f"{ROOT / 'config' / 'identity.yaml'}: no faults found")
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "identity.yaml").write_text("kickstart: {file: null}\n")
    text = subprocess.run(arguments, capture_output=True, text=True, check=False, cwd=tmp_path, env=data)
    assert text.stdout.startswith("config/identity.yaml: no faults found")


@pytest.mark.requirement("oauth-12-30")
def test_embedded_stores_are_read_while_the_service_runs_and_left_alone_when_it_does_not(tmp_path):
    with serving(tmp_path):
        running = checked(tmp_path)
    assert "applications not checked" not in running
    assert "Example application" in running
    assert "is not running" in checked(tmp_path)


@pytest.mark.requirement("audit-a8-base-url")
def test_listening_for_others_without_a_base_url_is_a_warning(tmp_path):
    warning = "server.base_url is not set while the service listens on 0.0.0.0, which is not a loopback address"
    exposed = {"SERVER__ADDRESS": "0.0.0.0"}
    assert f"warning: {warning}" in checked(tmp_path, server__address="0.0.0.0")
    (found,) = warnings(tmp_path, exposed)
    assert found.startswith(warning)
    for harmless in (
        {"SERVER__ADDRESS": "localhost"},
        {**exposed, "SERVER__BASE_URL": "https://login.example.com"},
        {},
    ):
        assert warnings(tmp_path, harmless) == []


def warnings(data_dir: Path, settings: dict[str, str]) -> list[str]:
    """The warnings about a configuration with these settings."""
    given = {f"IDENTITY__{name}": value for name, value in {"DATA_DIR": str(data_dir), **settings}.items()}
    return list(config.warnings(config.load(ROOT / "config", given)))
