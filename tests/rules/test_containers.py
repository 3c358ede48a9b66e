"""The image, compose.yaml and the chart, as far as they can be checked without an engine and a cluster."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import prometheus_client
import pytest
import yaml

from identity import __version__, config
from identity.password_pool import PasswordPool
from identity.store.embedded import mongod

ROOT = Path(__file__).resolve().parent.parent.parent
CHART = ROOT / "deploy" / "helm" / "identity"
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
VALUES = (CHART / "values.yaml").read_text()
GIVEN = {
    "config.server.base_url": "https://login.example.com",
    "secrets.masterKey": "k1:AAAA",
    "secrets.mongodbUri": "mongodb://mongodb/?replicaSet=rs0",
    "secrets.redisUrl": "redis://redis",
}
HELM = shutil.which("helm", path=f"{ROOT / 'build' / 'bin'}:{os.environ['PATH']}") or ""
"""Of .ci/helm, or of the machine."""
needs_helm = pytest.mark.skipif(not HELM, reason="helm is not installed: .ci/helm builds it")


def instructions(name: str) -> list[str]:
    return re.findall(rf"^{name} (.*)$", DOCKERFILE, re.MULTILINE)


@pytest.mark.requirement("ship-12")
def test_image_has_two_stages_of_one_base_and_runs_as_another_user():
    assert instructions("FROM") == ["${BASE} AS build", "${BASE}"]
    assert instructions("ARG")[0].startswith("BASE=")
    final = DOCKERFILE.rpartition("\nFROM ")[2]
    assert "USER 10001:10001" in final
    assert "HEALTHCHECK" in final
    assert not re.search(r"^COPY (?!--from=build)", final, re.MULTILINE)


@pytest.mark.requirement("ship-12", "deploy-constraints")
def test_image_installs_locked_packages_and_keeps_neither_pip_nor_setuptools():
    build, _, final = DOCKERFILE.rpartition("\nFROM ")
    installed = re.findall(r"pip.* install (.*?) \\\n", build)
    assert len(installed) == 3
    assert all("--require-hashes" in options or "--no-index" in options for options in installed)
    assert "venv --without-pip /opt/identity" in build
    assert "pip uninstall --yes pip setuptools wheel" in final
    assert "! python3 -m pip --version" in final


@pytest.mark.requirement("ship-12")
def test_image_is_labelled_with_version_license_and_commit():
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]*)"', DOCKERFILE))
    assert {"title", "description", "licenses", "version", "revision", "created"} == labels.keys()
    assert f"VERSION={__version__}" in instructions("ARG")
    script = (ROOT / "deploy" / "image.sh").read_text()
    assert all(f"--build-arg {name}=" in script for name in ("VERSION", "REVISION", "CREATED"))


@pytest.mark.requirement("ship-12")
def test_every_file_that_the_image_copies_reaches_the_build():
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    copied = [name for line in instructions("COPY") if "--from" not in line for name in line.split()[:-1]]
    assert {"identity", "schemas", "config", "setup.py"} <= set(copied)
    for name in copied:
        assert (ROOT / name).exists(), name
        assert f"!{name}" in ignored, name


def environments() -> dict[str, dict[str, str]]:
    """The settings that each file gives in variables."""
    image = dict(re.findall(r"\b(IDENTITY__[A-Z_]+)=(\S+)", DOCKERFILE))
    services = {name: one["environment"] for name, one in COMPOSE["services"].items() if "environment" in one}
    return {"Dockerfile": image, **{name: {**image, **given} for name, given in services.items()}}


@pytest.mark.requirement("ship-12", "ship-13")
@pytest.mark.parametrize("place", environments())
def test_settings_of_image_and_compose_are_valid(place, tmp_path):
    (tmp_path / "identity.yaml").write_text("kickstart: {file: null}\n")
    resolved = {name: re.sub(r"\$\{\w+:-(.*)\}", r"\1", value) for name, value in environments()[place].items()}
    loaded = config.load(tmp_path, resolved)
    assert loaded.server.address == "0.0.0.0"


@pytest.mark.requirement("ship-13")
def test_compose_runs_two_hardened_processes_of_this_version_behind_nginx():
    services = COMPOSE["services"]
    assert {"identity-1", "identity-2", "nginx", "mongodb", "redis"} == services.keys()
    for name in ("identity-1", "identity-2"):
        one = services[name]
        assert one["image"] == f"identity-server:{__version__}"
        assert (one["read_only"], one["cap_drop"]) == (True, ["ALL"])
        assert all(needed["condition"] == "service_healthy" for needed in one["depends_on"].values())
        proxy = services["nginx"]["networks"]["identity"]["ipv4_address"]
        assert one["environment"]["IDENTITY__SERVER__TRUSTED_PROXIES"] == f"[{proxy}/32]"
        assert ipaddress.ip_address(proxy) in ipaddress.ip_network(subnet())
    upstream = re.findall(r"server (identity-\d):9011", (ROOT / "deploy" / "compose" / "nginx.conf").read_text())
    assert upstream == ["identity-1", "identity-2"] * 2  # the second time as `backup`
    ports = [port for one in services.values() for port in one.get("ports", [])]
    assert all(port.startswith("127.0.0.1:") for port in ports)


def subnet() -> str:
    return str(COMPOSE["networks"]["identity"]["ipam"]["config"][0]["subnet"])


@pytest.mark.requirement("ship-13")
def test_nginx_of_compose_removes_the_certificate_header_of_clients():
    text = (ROOT / "deploy" / "compose" / "nginx.conf").read_text()
    assert 'proxy_set_header Client-Cert "";' in text


@pytest.mark.requirement("ship-13")
def test_nginx_accepts_its_configuration(tmp_path):
    text = (ROOT / "deploy" / "compose" / "nginx.conf").read_text()
    text = text.replace("identity-1", "127.0.0.1").replace("identity-2", "127.0.0.2")
    mounted = [volume.split(":") for volume in COMPOSE["services"]["nginx"]["volumes"]]
    for source, target, _ in mounted[1:]:
        assert target in text
        (tmp_path / Path(target).name).write_text((ROOT / source).read_text().replace("/var/log/nginx", str(tmp_path)))
        text = text.replace(target, str(tmp_path / Path(target).name))
    (tmp_path / "nginx.conf").write_text(
        f"pid {tmp_path}/pid;\nerror_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\n{text}\n}}\n"
    )
    program = shutil.which("nginx") or "/usr/sbin/nginx"
    found = subprocess.run(
        [program, "-t", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr


@pytest.mark.requirement("ship-13")
def test_message_for_machines_without_an_embedded_mongod_is_the_documented_one(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(Exception, match="embedded") as caught:
        mongod.program()
    lines = [line.strip() for line in mongod.COMPOSE_REMEDY.splitlines()]
    assert all(line in str(caught.value) for line in lines)
    page = (ROOT / "docs" / "deploy" / "containers.md").read_text()
    assert "\n".join(f"    {line}" for line in lines) in page
    ports = {port.split(":")[1] for name in ("mongodb", "redis") for port in COMPOSE["services"][name]["ports"]}
    assert all(f"127.0.0.1:{port}" in mongod.COMPOSE_REMEDY for port in ports)


@pytest.mark.requirement("ship-14")
def test_chart_has_the_version_and_settings_of_this_release(tmp_path):
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert {chart["version"], chart["appVersion"]} == {__version__}
    given = {**yaml.safe_load(VALUES)["config"]}
    (tmp_path / "identity.yaml").write_text(yaml.safe_dump(given))
    assert config.load(tmp_path, {}).kickstart.file is None
    known = {f"IDENTITY__{name.upper().replace('.', '__')}" for name, _ in config.settings()}
    used = {
        name
        for file in CHART.rglob("*")
        if file.is_file()
        for name in re.findall(r"IDENTITY__[A-Z_]+", file.read_text())
    }
    assert used <= known


@pytest.mark.requirement("ship-14")
def test_every_value_of_the_chart_is_used_and_documented():
    templates = "".join(file.read_text() for file in (CHART / "templates").iterdir())
    page = (ROOT / "docs" / "deploy" / "containers.md").read_text()
    for name, value in yaml.safe_load(VALUES).items():
        assert f".Values.{name}" in templates, name
        assert re.search(rf"`{name}[.`]", page), name
        for member in value if isinstance(value, dict) and name not in {"config", "resources"} else ():
            assert f".Values.{name}.{member}" in templates, f"{name}.{member}"


@pytest.mark.requirement("deploy-chart")
def test_schema_of_the_chart_describes_every_value():
    schema, values = json.loads((CHART / "values.schema.json").read_text()), yaml.safe_load(VALUES)
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.validate(values, schema)
    assert set(schema["properties"]) == {*values, "global"}
    for name, value in values.items():
        if name != "config" and (members := schema["properties"][name].get("properties")):
            assert members.keys() == value.keys(), name


@pytest.mark.requirement("deploy-chart")
def test_chart_trusts_no_proxy_by_default():
    assert yaml.safe_load(VALUES)["config"]["server"]["trusted_proxies"] == []


@pytest.mark.requirement("deploy-chart")
def test_metric_of_the_autoscaler_is_one_of_the_service():
    template = (CHART / "templates" / "autoscaling.yaml").read_text()
    (metric,) = re.findall(r"metric: \{name: (\w+)\}", template)
    registry = prometheus_client.CollectorRegistry()
    PasswordPool(1, registry=registry).close()
    assert registry.get_sample_value(metric) == 0
    assert f"`{metric}`" in (ROOT / "docs" / "deploy" / "monitoring.md").read_text()


def rendered(*options: str, **values: str) -> list[dict[str, Any]]:
    settings = [f"--set={name}={value}" for name, value in {**GIVEN, **values}.items()]
    text = subprocess.run(
        [HELM, "template", "test", str(CHART), "--kube-version=1.31.0", *settings, *options],
        check=True,
        capture_output=True,
        text=True,
    )
    return [one for one in yaml.safe_load_all(text.stdout) if one]


@needs_helm
@pytest.mark.requirement("ship-14")
def test_chart_renders_hardened_pods_with_probes_and_a_budget(tmp_path):
    subprocess.run([HELM, "lint", "--strict", str(CHART), *(f"--set={k}={v}" for k, v in GIVEN.items())], check=True)
    objects = {(one["kind"], one["metadata"]["name"]): one for one in rendered(**{"ingress.enabled": "true"})}
    assert {kind for kind, _ in objects} == {"Deployment", "Ingress", "PodDisruptionBudget", "Secret", "Service"}
    pod = objects["Deployment", "test-identity"]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert pod["spec"]["securityContext"]["runAsNonRoot"]
    assert {"startupProbe", "readinessProbe", "livenessProbe", "lifecycle"} <= container.keys()
    for kind in ("Service", "PodDisruptionBudget"):
        selector = objects[kind, "test-identity"]["spec"]["selector"]
        wanted = selector.get("matchLabels", selector)
        assert wanted.items() <= pod["metadata"]["labels"].items()
    (tmp_path / "identity.yaml").write_text(objects["Secret", "test-identity-config"]["stringData"]["identity.yaml"])
    variables = {one["name"]: one.get("value", "") for one in container["env"] if "value" in one}
    (tmp_path / "key").touch()
    assert config.load(
        tmp_path, {**variables, "IDENTITY__SECRETS__MASTER_KEY_FILE": str(tmp_path / "key")}
    ).server.base_url
    split = [
        one["spec"]["template"]["spec"]["containers"][0]["args"]
        for one in rendered(**{"worker.replicaCount": "1"})
        if one["kind"] == "Deployment"
    ]
    assert split == [["run", "--role", "web"], ["run", "--role", "worker"]]


def found(objects: list[dict[str, Any]], kind: str, name: str = "test-identity") -> dict[str, Any]:
    (match,) = [each for each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return match


@needs_helm
@pytest.mark.requirement("deploy-chart")
def test_port_of_the_configuration_is_that_of_the_pods(tmp_path):
    objects = rendered(**{"config.server.port": "8080", "networkPolicy.enabled": "true"})
    template = found(objects, "Deployment")["spec"]["template"]
    (container,) = template["spec"]["containers"]
    assert container["ports"] == [{"name": "http", "containerPort": 8080}]
    assert template["metadata"]["annotations"]["prometheus.io/port"] == "8080"
    assert {container[probe]["httpGet"]["port"] for probe in ("startupProbe", "readinessProbe")} == {"http"}
    assert found(objects, "Service")["spec"]["ports"][0]["targetPort"] == "http"
    assert found(objects, "NetworkPolicy")["spec"]["ingress"] == [{"ports": [{"protocol": "TCP", "port": 8080}]}]
    (tmp_path / "identity.yaml").write_text(
        found(objects, "Secret", "test-identity-config")["stringData"]["identity.yaml"]
    )
    assert config.load(tmp_path, {}).server.port == 8080


@needs_helm
@pytest.mark.requirement("deploy-chart")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("secrets.masterKey", "k2:BBBB"),
        ("secrets.mongodbUri", "mongodb://other"),
        ("secrets.redisUrl", "redis://other"),
        ("config.server.port", "1234"),
    ],
)
def test_changed_secret_or_configuration_restarts_the_pods(name, value):
    def annotations(**values: str) -> dict[str, str]:
        objects = rendered(**{"worker.replicaCount": "1"}, **values)
        named = ("test-identity", "test-identity-worker")
        first, second = (found(objects, "Deployment", name)["spec"]["template"]["metadata"] for name in named)
        assert first["annotations"]["checksum/secret"] == second["annotations"]["checksum/secret"]
        return {key: digest for key, digest in first["annotations"].items() if key.startswith("checksum/")}

    assert annotations() == annotations()
    assert annotations() != annotations(**{name: value})


@needs_helm
@pytest.mark.requirement("deploy-chart")
def test_autoscaler_replaces_the_number_of_replicas():
    assert found(rendered(), "Deployment")["spec"]["replicas"] == 2
    objects = rendered(**{"autoscaling.enabled": "true", "autoscaling.maxReplicas": "5"})
    assert "replicas" not in found(objects, "Deployment")["spec"]
    scaler = found(objects, "HorizontalPodAutoscaler")["spec"]
    assert scaler["scaleTargetRef"]["name"] == "test-identity"
    assert (scaler["minReplicas"], scaler["maxReplicas"]) == (2, 5)
    queue, processor = scaler["metrics"]
    assert queue["pods"]["metric"]["name"] == "identity_password_queue_length"
    assert processor["resource"]["name"] == "cpu"


@needs_helm
@pytest.mark.requirement("deploy-chart")
def test_prometheus_operator_finds_the_metrics_of_both_roles_as_the_job_of_the_alerts():
    values = {"serviceMonitor.enabled": "true", "serviceMonitor.apiKeySecret": "metrics"}
    objects = rendered(**values, **{"worker.replicaCount": "1", "worker.metricsPort": "9012"})
    service, monitor = found(objects, "Service"), found(objects, "ServiceMonitor")["spec"]
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert service["metadata"]["labels"][monitor["jobLabel"]] == "identity"
    (endpoint,) = monitor["endpoints"]
    assert (endpoint["port"], endpoint["path"]) == ("http", "/api/prometheus/metrics")
    assert endpoint["basicAuth"]["password"] == {"name": "metrics", "key": "password"}
    worker = found(objects, "Deployment", "test-identity-worker")["spec"]["template"]
    monitor = found(objects, "PodMonitor", "test-identity-worker")["spec"]
    assert monitor["selector"]["matchLabels"].items() <= worker["metadata"]["labels"].items()
    assert worker["spec"]["containers"][0]["ports"] == [{"name": "metrics", "containerPort": 9012}]
    assert monitor["podMetricsEndpoints"][0]["port"] == "metrics"
    assert not any(each["kind"].endswith("Monitor") for each in rendered())


@needs_helm
@pytest.mark.requirement("deploy-chart")
def test_network_policy_admits_the_given_peers_to_the_ports_of_the_pods():
    peer = "networkPolicy.from[0].namespaceSelector.matchLabels.name=ingress"
    objects = rendered(f"--set={peer}", **{"networkPolicy.enabled": "true"})
    policy = found(objects, "NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress"]
    labels = found(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    (rule,) = policy["ingress"]
    assert rule["from"] == [{"namespaceSelector": {"matchLabels": {"name": "ingress"}}}]
    objects = rendered(f"--set={peer}", **{"networkPolicy.enabled": "true", "worker.replicaCount": "1"})
    web, worker = found(objects, "NetworkPolicy")["spec"]["ingress"]
    assert (web, worker["from"]) == (rule, rule["from"])
    (container,) = found(objects, "Deployment", "test-identity-worker")["spec"]["template"]["spec"]["containers"]
    assert worker["ports"] == [{"protocol": "TCP", "port": container["ports"][0]["containerPort"]}]


@needs_helm
@pytest.mark.requirement("deploy-chart")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("replicas", "3"),
        ("config.server.port", "70000"),
        ("config.server.base_url", "login.example.com"),
        ("config.server.trusted_proxies[0]", "10.0.0.1"),
        ("config.mongodb.uri", "mongodb://user:password@mongodb"),
        ("serviceMonitor.interval", "often"),
        ("networkPolicy.enabled", "maybe"),
    ],
)
def test_chart_refuses_values_that_do_not_fit_its_schema(name, value):
    with pytest.raises(subprocess.CalledProcessError) as caught:
        rendered(**{name: value})
    place = name.partition("[")[0].replace(".uri", "").replace(".", "/")
    assert place in caught.value.stderr


@needs_helm
@pytest.mark.requirement("ship-14")
@pytest.mark.parametrize("missing", GIVEN)
def test_chart_names_the_value_that_is_missing(missing):
    with pytest.raises(subprocess.CalledProcessError) as caught:
        rendered(**{missing: ""})
    assert f"{missing}" in caught.value.stderr


@pytest.mark.requirement("ship-13")
@pytest.mark.parametrize("path", ["deploy/compose/nginx.conf", "docs/deploy/nginx.conf"])
def test_nginx_forwards_no_certificate_of_a_client_that_proved_none(path):
    """Every server sets the header: its own value, or none."""
    servers = (ROOT / path).read_text().split("\nserver {")[1:]
    proxying = [server for server in servers if "proxy_pass" in server]
    assert proxying
    for server in proxying:
        (value,) = re.findall(r'proxy_set_header Client-Cert ("".*|\$ssl_client_escaped_cert);', server)
        assert value == '""' or "ssl_verify_client" in server
