"""The servers of `make ha`: their options and addresses. The runs take minutes and are not part of the gate."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from ha import mongo_servers, networks, redis_servers, tls
from identity.store import redis_clients

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return tls.create(tmp_path_factory.mktemp("tls"))


def test_server_certificate_is_trusted_and_its_key_is_private(files):
    ssl.create_default_context(cafile=files.authority).load_cert_chain(files.certificate)
    assert files.certificate.stat().st_mode & 0o077 == 0
    assert files.key_file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("kind", ["sentinel", "cluster"])
def test_service_reads_the_address_of_servers_with_tls(files, tmp_path, kind):
    setup = redis_servers.Setup(tmp_path, files)
    path, query = ("/identity/0", "&sentinel_password=other") if kind == "sentinel" else ("", "")
    address = redis_clients.parse(setup.url(kind, [], path, query).replace("@", "@a:1,b:2", 1))
    assert address is not None
    assert (address.kind, address.is_tls, address.hosts) == (kind, True, (("a", 1), ("b", 2)))
    assert address.options["password"] == files.secret
    assert address.options["ssl_ca_certs"] == str(files.authority)


def test_servers_with_tls_listen_on_no_plain_port(files, tmp_path):
    options = redis_servers.Setup(tmp_path, files).port_options(6379)
    assert options[:4] == ["--port", "0", "--tls-port", "6379"]
    assert files.secret in options


def test_replica_set_with_tls_is_reached_with_a_user_and_the_authority(files, tmp_path):
    uri = mongo_servers.ReplicaSet(tmp_path, tls=files).uri
    assert uri.startswith(f"mongodb://{mongo_servers.USER}:{files.secret}@127.0.0.1:")
    assert f"tls=true&tlsCAFile={files.authority}" in uri


def test_partition_names_what_the_machine_lacks(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert networks.missing() == "root"
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda name: None if name == "iptables" else f"/usr/sbin/{name}")
    assert networks.missing() == "iptables"


def test_documented_replica_set_has_the_settings_that_are_measured():
    page = (ROOT / "docs" / "deploy" / "README.md").read_text()
    settings = ", ".join(f"{name}: {value}" for name, value in mongo_servers.SETTINGS.items())
    assert f"settings: {{{settings}}}" in page
