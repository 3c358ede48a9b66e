"""The configuration: every key described and commented, every fault named with its line and remedy."""

from __future__ import annotations

import importlib.util
import ipaddress
import re
from pathlib import Path

import pytest
import yaml

from identity import config
from identity.config import ConfigError

ROOT = Path(__file__).resolve().parent.parent.parent
SHIPPED = ROOT / "config"


def load(folder: Path, text: str, **environ: str) -> config.Config:
    (folder / "identity.yaml").write_text(text)
    (folder / "kickstart.yaml").touch()
    return config.load(folder, environ)


def problems(folder: Path, text: str, **environ: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(folder, text, **environ)
    return [problem.removeprefix(f"{folder}/") for problem in caught.value.problems]


def flat(values: dict, prefix: str = "") -> dict[str, object]:
    described = dict(config.settings())
    found = {}
    for name, value in values.items():
        key = f"{prefix}{name}"
        found |= {key: value} if key in described else flat(value, f"{key}.")
    return found


@pytest.mark.requirement("design-config-1")
def test_the_shipped_file_names_every_setting_and_no_other_with_its_default():
    shipped = flat(yaml.safe_load((SHIPPED / "identity.yaml").read_text()))
    assert shipped == {key: described["default"] for key, described in config.settings()}


@pytest.mark.requirement("design-config-4")
def test_every_setting_is_described_and_says_more_than_its_name():
    for key, described in config.settings():
        assert len(described["description"]) > 8, key
        assert described["description"].endswith("."), key


@pytest.mark.requirement("design-config-1")
def test_every_setting_of_the_shipped_file_has_a_comment_above_it():
    lines = (SHIPPED / "identity.yaml").read_text().splitlines()
    for number, line in enumerate(lines):
        if re.match(r" *[a-z_]+: *\S", line) and not line.lstrip().startswith("#"):
            assert lines[number - 1].lstrip().startswith("#"), line


@pytest.mark.requirement("design-config-4")
def test_every_setting_is_used():
    files = [file for file in (ROOT / "identity").rglob("*.py") if file.name != "config.py"]
    code = "\n".join(file.read_text() for file in [ROOT / "run.py", *files])
    readers = {"license.features": r"license\.has\(", "webhooks.retries": r"webhooks\.is_published\b"}
    for key, _ in config.settings():
        assert re.search(readers.get(key, rf"\.{key.rpartition('.')[2]}\b"), code), key


def test_the_reference_is_up_to_date():
    spec = importlib.util.spec_from_file_location(
        "configuration_reference", ROOT / "docs" / "configuration_reference.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "configuration.md").read_text() == module.reference(), "run: make docs"


def test_an_empty_file_means_the_defaults(tmp_path):
    loaded = load(tmp_path, "")
    assert loaded.server.port == 9011
    assert loaded.server.base_url is None
    assert loaded.mongodb.uri == "embedded"
    assert loaded.webhooks.schedule[:2] == (5, 300)
    assert loaded.license.has("entityManagement")
    assert loaded.audit.api_writes


def test_a_section_whose_keys_are_all_commented_out_means_the_defaults(tmp_path):
    assert load(tmp_path, "server:\n#  port: 1\n").server.port == 9011


def test_relative_paths_start_where_the_documentation_says(tmp_path, monkeypatch):
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    (tmp_path / "my.key").touch()
    loaded = load(tmp_path, "data_dir: data\nsecrets: {master_key_file: my.key}\n")
    assert loaded.data_dir == work / "data"
    assert loaded.kickstart.file == tmp_path / "kickstart.yaml"
    assert loaded.master_key_file == tmp_path / "my.key"
    assert load(tmp_path, "data_dir: data").master_key_file == work / "data" / "master.key"


@pytest.mark.requirement("design-config-2", "project-9")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("server:\n  prot: 1\n", "identity.yaml:2: server.prot: there is no such setting; did you mean port?"),
        ("sever: {}\n", "identity.yaml:1: sever: there is no such setting; did you mean server?"),
        (
            "server:\n  address: 127.0.0.1\n  port: '9011'\n",
            "identity.yaml:3: server.port: must be a whole number, not '9011'; the default is 9011",
        ),
        (
            "server:\n  port: true\n",
            "identity.yaml:2: server.port: must be a whole number, not True; the default is 9011",
        ),
        (
            "server: {port: 70000}",
            "identity.yaml:1: server.port: must be at most 65535, not 70000; the default is 9011",
        ),
        ("data_dir: a\ndata_dir: b\n", "identity.yaml:2: data_dir: is given twice; remove one of the two"),
        (
            "logging: {level: loud}",
            "identity.yaml:1: logging.level: must be one of debug, info, warning, error, not 'loud'; choose one",
        ),
        (
            "server:\n  trusted_proxies: [10.0.0.1/8]\n",
            "identity.yaml:2: server.trusted_proxies: '10.0.0.1/8' is not usable; write a network such as 10.1.2.0/24",
        ),
        (
            "server: {base_url: 'https://login.example.com/'}",
            "identity.yaml:1: server.base_url: 'https://login.example.com/' is not usable; write https://host or ",
        ),
        (
            "webhooks: {schedule: [5, 0]}",
            "identity.yaml:1: webhooks.schedule: must be at least 1, not 0; the default is [",
        ),
        ("kickstart: {file: other.yaml}", "identity.yaml: kickstart.file: there is no file"),
        ("email: {authorities_file: no.pem}", "identity.yaml: email.authorities_file: there is no file"),
        ("breaches: {file: hashes.txt}", "identity.yaml: breaches.file: there is no file"),
        ("breaches: {source: file}", "identity.yaml: breaches.file: required by breaches.source; name a file, or set "),
        ("email: {timeout_seconds: 0}", "identity.yaml:1: email.timeout_seconds: must be at least 1, not 0; "),
        ("server: 9011\n", "identity.yaml:1: server: must be a map; put one of address, port,"),
        ("- a\n", "identity.yaml:1: must be a map; put one of server,"),
        ("server: [\n", "identity.yaml:2: is not YAML: "),
        ("server:\n\tport: 1\n", "identity.yaml:2: is not YAML: "),
        ("data_dir: !!python/name:os.system\n", "identity.yaml:1: data_dir: must be a text, not an unreadable value"),
        (
            "tracing: {endpoint: 'collector:4318'}",
            "identity.yaml:1: tracing.endpoint: 'collector:4318' is not usable; write a URL such as http://127.0.0.1:",
        ),
        (
            "tracing: {headers: 'a token'}",
            "identity.yaml:1: tracing.headers: this value is not usable; write comma-separated name=value",
        ),
        ("tracing: {sample_ratio: 1.5}", "identity.yaml:1: tracing.sample_ratio: must be at most 1, not 1.5; "),
        ("license: {features: {entityManagment: false}}", "identity.yaml:1: license.features: "),
    ],
)
def test_a_fault_is_named_with_file_line_key_and_remedy(tmp_path, text, expected):
    (found,) = problems(tmp_path, text)
    assert found.startswith(expected), found


@pytest.mark.requirement("project-9")
def test_all_faults_are_named_at_once(tmp_path):
    found = problems(tmp_path, "server:\n  prot: 1\nlogging:\n  level: 3\n", IDENTITY__SERVER__PORT="x")
    assert [re.sub(": .*", "", problem) for problem in found] == ["identity.yaml:2", "identity.yaml:4", "environment"]


@pytest.mark.requirement("design-config-3")
def test_a_missing_file_says_how_to_name_the_folder(tmp_path):
    with pytest.raises(ConfigError, match=r"identity\.yaml: there is no such file; .*--config"):
        config.load(tmp_path / "nowhere", {})


@pytest.mark.requirement("design-config-3", "project-9")
def test_the_environment_overrides_the_file(tmp_path):
    loaded = load(
        tmp_path,
        "server: {port: 1}\n",
        IDENTITY__SERVER__PORT="9012",
        IDENTITY__SERVER__TRUSTED_PROXIES="[10.0.0.0/8]",
        IDENTITY__MONGODB__URI="mongodb://identity:secret@db.example.com/?tls=true",
        IDENTITY__KICKSTART__FILE="null",
        IDENTITY__MONGODB__DATABASE="12345",
        IDENTITY__METRICS__ENABLED="false",
        IDENTITY__LICENSE__FEATURES="{entityManagement: false}",
    )
    assert loaded.server.port == 9012
    assert loaded.server.trusted_proxies == (ipaddress.ip_network("10.0.0.0/8"),)
    assert loaded.mongodb.uri.startswith("mongodb://identity:secret@")
    assert loaded.kickstart.file is None
    assert loaded.mongodb.database == "12345"
    assert not loaded.metrics.enabled
    assert not loaded.license.has("entityManagement")
    assert loaded.license.has("threatDetection")


@pytest.mark.requirement("design-config-3")
@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        (
            "IDENTITY__SERVER__PROT",
            "1",
            "environment: IDENTITY__SERVER__PROT: there is no such setting; did you mean IDENTITY__SERVER__PORT?",
        ),
        ("IDENTITY__SERVER__PORT", "x", "environment: IDENTITY__SERVER__PORT: must be a whole number, not 'x'; "),
        (
            "IDENTITY__WEBHOOKS__SCHEDULE",
            "[5,",
            "environment: IDENTITY__WEBHOOKS__SCHEDULE: must be a list, not '[5,'; ",
        ),
        ("IDENTITY__SERVER", "{port: 1}", "environment: IDENTITY__SERVER: there is no such setting; "),
    ],
)
def test_a_fault_in_the_environment_names_the_variable(tmp_path, variable, value, expected):
    (found,) = problems(tmp_path, "", **{variable: value})
    assert found.startswith(expected)


def test_no_secret_shows_in_a_fault_or_a_repr(tmp_path):
    text = "mongodb: {uri: 'mongo://u:hunter2@x'}\nredis: {url: 'http://:hunter2@x'}\n"
    assert not any("hunter2" in problem for problem in problems(tmp_path, text))
    text = (
        "mongodb: {uri: 'mongodb://u:hunter2@x/'}\nredis: {url: 'redis://:hunter2@x'}\ntracing: {headers: a=hunter2}\n"
    )
    loaded = load(tmp_path, text)
    assert "hunter2" not in repr(loaded)


def test_addresses_of_embedded_stores_replace_only_what_is_embedded(tmp_path):
    loaded = load(tmp_path, "redis: {url: 'redis://cache.example.com/0'}").with_stores("mongodb://127.0.0.1:1/", None)
    assert loaded.mongodb.uri == "mongodb://127.0.0.1:1/"
    assert loaded.redis.url == "redis://cache.example.com/0"
    assert "***" in repr(loaded.mongodb)
