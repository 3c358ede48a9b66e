"""Errors of operators and machines: a helpful message, an exit code, and no traceback."""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import sys

import pytest

from identity import config
from tests.operator.processes import ROOT, command, environment, run


def failure(*arguments, **settings) -> str:
    """The message of a run.py that must fail, without the log lines before it."""
    finished = run(*arguments, **settings)
    assert finished.returncode == 1, finished.stderr
    assert "Traceback" not in finished.stderr
    assert "Task exception" not in finished.stderr
    _, marker, message = finished.stderr.rpartition("run.py: ")
    assert marker, finished.stderr
    return message


@pytest.mark.requirement("demo-9")
def test_a_wrong_configuration_is_reported_with_a_code_of_its_own(tmp_path):
    finished = run(tmp_path, server__port="many", server__prot=1)
    assert finished.returncode == 78
    assert finished.stderr.splitlines() == [
        "run.py: the configuration is not usable:",
        "environment: IDENTITY__SERVER__PORT: must be a whole number, not 'many'; the default is 9011",
        "environment: IDENTITY__SERVER__PROT: there is no such setting; did you mean IDENTITY__SERVER__PORT?",
    ]


@pytest.mark.requirement("project-8")
def test_check_config_says_what_it_checked(tmp_path):
    finished = run(tmp_path, "check-config")
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.splitlines() == [
        f"{ROOT / 'config' / 'identity.yaml'}: no faults found",
        f"applications not checked: the embedded MongoDB of {tmp_path} is not running",
    ]
    assert not list(tmp_path.iterdir())


def test_check_config_of_a_broken_file_names_file_and_line(tmp_path):
    (tmp_path / "identity.yaml").write_text("server:\n  porch: 1\n")
    (tmp_path / "kickstart.yaml").touch()
    finished = run(tmp_path, "--config", str(tmp_path), "check-config")
    assert finished.returncode == 78
    assert f"{tmp_path}/identity.yaml:2: server.porch: there is no such setting; did you mean port?" in finished.stderr


def test_version_is_one_word(tmp_path):
    assert run(tmp_path, "version").stdout.strip().count(".") == 2


@pytest.mark.requirement("demo-10")
def test_a_port_in_use_is_named_before_anything_is_started(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as squatter:
        port = squatter.getsockname()[1]
        message = failure(tmp_path / "var", server__port=port)
    assert message.startswith(
        f"Cannot listen on 127.0.0.1:{port}: another program uses it; stop that program, or set server.port"
    )
    assert not (tmp_path / "var" / "mongodb").exists()


def test_an_address_of_another_machine_is_named(tmp_path):
    assert "this machine has no such address" in failure(tmp_path, server__address="192.0.2.1")


def test_an_address_that_is_none_is_named(tmp_path):
    assert "server.address no.such.host.invalid" in failure(tmp_path, server__address="no.such.host.invalid")


def test_a_data_dir_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    message = failure(tmp_path / "file" / "var")
    assert message.startswith(f"data_dir {tmp_path}/file/var cannot be used: Not a directory")


@pytest.mark.requirement("demo-11")
def test_a_full_disk_is_named(tmp_path):
    # Every write beyond the limit fails, as on a disk without room; the first probe file is already too large.
    message = failure(tmp_path / "var", limit="trap '' XFSZ && ulimit -f 4")
    assert message.startswith(f"data_dir {tmp_path}/var cannot be used: File too large")
    assert "make room there" in message


@pytest.mark.requirement("demo-11")
def test_a_disk_that_fills_up_while_mongodb_starts_is_named(tmp_path):
    message = failure(tmp_path / "var", limit="ulimit -f 2000")
    assert message.startswith("The embedded mongod does not start: the disk of ")
    assert "make room there, or set data_dir" in message


@pytest.mark.requirement("project-3")
def test_missing_system_library_is_reported(tmp_path):
    (tmp_path / "libraries").mkdir()
    (tmp_path / "libraries" / "libcurl.so.4").touch()
    finished = subprocess.run(
        command(),
        env={**environment(tmp_path / "var"), "LD_LIBRARY_PATH": str(tmp_path / "libraries")},
        check=False,
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 1
    assert "library libcurl.so.4 is missing or broken; install it: apt-get install libcurl4" in finished.stderr
    assert "Traceback" not in finished.stderr


def test_an_unreachable_mongodb_is_named(tmp_path):
    message = failure(
        tmp_path, mongodb__uri="mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=300", redis__url="embedded"
    )
    assert message.startswith("MongoDB does not answer (mongodb.uri): ")


@pytest.mark.requirement("demo-13")
def test_an_unreachable_redis_is_named(tmp_path):
    message = failure(tmp_path, redis__url="redis://127.0.0.1:9/0")
    assert message.startswith("Redis does not answer (redis.url): ")


@pytest.mark.requirement("design-stores-9")
def test_python_without_the_packages_says_how_to_install_them(tmp_path):
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    finished = subprocess.run(
        [str(bare / "bin" / "python"), str(ROOT / "run.py")], check=False, capture_output=True, text=True
    )
    assert finished.returncode == 1
    assert "is not installed" in finished.stderr
    assert "make run" in finished.stderr
    assert "Traceback" not in finished.stderr


@pytest.mark.parametrize("arguments", [["--role", "janitor"], ["--port", "1"], ["sing"]])
def test_unknown_arguments_are_usage_errors(tmp_path, arguments):
    finished = run(tmp_path, *arguments)
    assert finished.returncode == 2
    assert finished.stderr.startswith("Usage: run.py")


def test_failed_start_stops_the_embedded_stores(tmp_path):
    failure(tmp_path / "var", redis__url="redis://127.0.0.1:9/0")
    assert not (tmp_path / "var" / "mongodb" / "mongod.pid").exists()


@pytest.mark.requirement("start-6")
def test_variables_that_resemble_a_setting_are_refused_with_its_name(tmp_path):
    near = {
        "IDENTITY_SERVER__PORT": "IDENTITY__SERVER__PORT",
        "IDENTITY_SERVER_PORT": "IDENTITY__SERVER__PORT",
        "IDENTITY_MONGODB_URL": "IDENTITY__MONGODB__URI",
    }
    environ = {**os.environ, "IDENTITY__DATA_DIR": str(tmp_path / "var"), **dict.fromkeys(near, "1")}
    finished = subprocess.run(command("check-config"), env=environ, check=False, capture_output=True, text=True)
    assert finished.returncode == 78
    for given, meant in near.items():
        assert f"environment: {given}: there is no such setting; did you mean {meant}?" in finished.stderr


@pytest.mark.requirement("start-6")
def test_variables_of_other_programs_are_left_alone(tmp_path):
    others = {
        "IDENTITY_ENDPOINT": "http://127.0.0.1/msi", "IDENTITY_HEADER": "x",  # Azure
        "IDENTITY_PORT": "tcp://10.0.0.1:9011", "IDENTITY_SERVER_PORT": "tcp://10.0.0.1:9011",  # Kubernetes
        "IDENTITY_SERVICE_HOST": "10.0.0.1", "IDENTITY_URL": "http://localhost:9011", "IDENTITY_API_KEY": "key",
        "IDENTITY_SECRET_TENANT_DEFAULT_EMAILCONFIGURATION_PASSWORD": "secret",
    }  # fmt: skip
    config.load(ROOT / "config", {"IDENTITY__DATA_DIR": str(tmp_path), **others})


@pytest.mark.requirement("start-6")
@pytest.mark.parametrize(
    ("settings", "option"),
    [
        ({"mongodb__uri": "mongodb://127.0.0.1:9/?tls=true&tlsCAFile={file}"}, "mongodb.uri: tlsCAFile"),
        ({"mongodb__uri": "mongodb://127.0.0.1:9/?tlsCertificateKeyFile={file}"}, "mongodb.uri: tlsCertificateKeyFile"),
        ({"redis__url": "rediss://127.0.0.1:9/0?ssl_ca_certs={file}"}, "redis.url: ssl_ca_certs"),
    ],
    ids=["authorities", "certificate", "redis"],
)
@pytest.mark.parametrize("arguments", [(), ("check-config",)], ids=["run", "check-config"])
def test_missing_files_of_tls_options_are_named(tmp_path, settings, option, arguments):
    given = {name: value.format(file=tmp_path / "no.pem") for name, value in settings.items()}
    finished = run(tmp_path, *arguments, **given)
    assert finished.returncode == 78
    assert f"{option}: there is no file {tmp_path}/no.pem; create it" in finished.stderr
    assert "Traceback" not in finished.stderr


@pytest.mark.requirement("start-6")
def test_file_of_authorities_without_a_certificate_is_named(tmp_path):
    (tmp_path / "empty.pem").write_text("no certificate")
    uri = f"mongodb://127.0.0.1:9/?tls=true&tlsCAFile={tmp_path}/empty.pem"
    assert "mongodb.uri is not usable" in failure(tmp_path / "var", mongodb__uri=uri, redis__url="redis://127.0.0.1:9")


@pytest.mark.requirement("start-9")
@pytest.mark.parametrize("arguments", [(), ("release",), ("admin", "list", "tenant", "--local")], ids=str)
def test_errors_of_a_store_are_one_line(stores, tmp_path, arguments):
    settings = {"mongodb__uri": stores.mongodb_uri, "redis__url": stores.redis_url, "mongodb__database": "config"}
    (tmp_path / "master.key").write_text(f"id:{base64.b64encode(bytes(32)).decode()}\n")
    message = failure(tmp_path, *arguments, **settings)
    assert len(message.splitlines()) == 1
    assert message.startswith("MongoDB failed")
    assert "mongodb.uri" in message
    assert "check-config" in message
