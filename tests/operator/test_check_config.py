"""run.py check-config: which applications fall short of the profile strict, and why."""

from __future__ import annotations

import json

from tests import relying_party
from tests.operator.processes import ROOT, free_port, run, serving

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


async def test_each_application_is_told_with_settings_and_rules(api, service, tmp_path):
    weak, strict = (
        await relying_party.make(api, **WEAK),
        await relying_party.make(api, tokens=await relying_party.strict_tokens(api), **STRICT),
    )
    gone = await relying_party.make(api, **WEAK)
    await api.delete(f"/api/application/{gone.client_id}", headers={"X-FusionAuth-TenantId": gone.tenant["id"]})
    settings = service.services.config.mongodb
    stores = {"mongodb__uri": settings.uri, "mongodb__database": settings.database}
    text = checked(tmp_path, **stores)
    first, counts, *_ = text.splitlines()
    assert first == f"{ROOT / 'config' / 'identity.yaml'}: no faults found"
    assert counts.endswith("fall short of the profile strict (docs/oauth/profiles.md)")
    entries = {lines[0]: lines[1:] for entry in text.split("\n\n")[1:] if (lines := entry.splitlines())}
    told = entries[f"{weak.application['name']} ({weak.client_id}) of {weak.tenant['name']}"]
    prefix = "  application.oauthConfiguration"
    assert told == [
        f"{prefix}.profile is not strict (RFC 9700)",
        f"{prefix}.proofKeyForCodeExchangePolicy must be Required (RFC 9700 section 2.1.1)",
        f"{prefix}.authorizedRedirectURLs[1] must be https, or http at 127.0.0.1 or [::1] (RFC 9700 section 2.6)",
        f"{prefix}.enabledGrants[1] must not be implicit: {IMPLICIT} (RFC 9700 section 2.1.2)",
        f"  application.jwtConfiguration.idTokenKeyId {ID_TOKEN_KEY} (FAPI 2.0 section 5.4.1)",
    ]
    assert strict.client_id not in text
    assert gone.client_id not in text
    found = {one["applicationId"]: one for one in json.loads(checked(tmp_path, "--json", **stores))["applications"]}
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
    assert not list(tmp_path.iterdir())


def test_stores_that_are_down_are_told_and_are_no_fault_of_the_configuration(tmp_path):
    uri = f"mongodb://127.0.0.1:{free_port()}/?serverSelectionTimeoutMS=100"
    answer = json.loads(checked(tmp_path, "--json", mongodb__uri=uri))
    assert answer.keys() == {"configuration", "faults", "warnings", "applicationsUnread"}
    assert answer["faults"] == []
    assert answer["applicationsUnread"].startswith("MongoDB does not answer (mongodb.uri)")


def test_embedded_stores_are_read_while_the_service_runs_and_left_alone_when_it_does_not(tmp_path):
    with serving(tmp_path):
        running = checked(tmp_path)
    assert "applications not checked" not in running
    assert "Example application" in running
    assert "does not run" in checked(tmp_path)


def test_listening_for_others_without_a_base_url_is_a_warning(tmp_path):
    warning = "server.base_url is not set while the service listens on 0.0.0.0, which is not a loopback address"
    exposed = {"server__address": "0.0.0.0"}
    assert f"warning: {warning}" in checked(tmp_path, **exposed)
    (found,) = json.loads(checked(tmp_path, "--json", **exposed))["warnings"]
    assert found.startswith(warning)
    for harmless in (
        {"server__address": "localhost"},
        {**exposed, "server__base_url": "https://login.example.com"},
        {},
    ):
        assert json.loads(checked(tmp_path, "--json", **harmless))["warnings"] == []
