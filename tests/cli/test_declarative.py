"""identity export, plan and apply: configuration as files."""

from __future__ import annotations

import os
import re
import stat

import pytest
import yaml

from identity.cli import exit_codes
from identity.cli.declarative import documents, files
from identity.cli.declarative.kinds import KINDS
from identity.domain.configuration.applications import ADMINISTRATOR_APPLICATION_ID
from identity.ids import new_id
from tests.conftest import (
    DEFAULT_TENANT,
    EMAIL_TEMPLATE,
    KICKSTART,
    MANAGER_KEY,
    SUPER_KEY,
    UNKNOWN_ID,
    checking_client,
)

SHOP = "5c1a4f5e-0f7e-4d3a-9a52-6d1d6e0a0101"
BUYER = "5c1a4f5e-0f7e-4d3a-9a52-6d1d6e0a0102"
KEY = "5c1a4f5e-0f7e-4d3a-9a52-6d1d6e0a0103"
DEVICE = "5c1a4f5e-0f7e-4d3a-9a52-6d1d6e0a0104"
GATEWAY = "5c1a4f5e-0f7e-4d3a-9a52-6d1d6e0a0105"
SENSOR = "5c1a4f5e-0f7e-4d3a-9a52-6d1d6e0a0106"
CI_KEY = "5c1a4f5e-0f7e-4d3a-9a52-6d1d6e0a0107"
SECRET = "a client secret of the shop, 'quoted'"
BLOCKED = {"startIPAddress": "*", "action": "Block"}
ALLOWED = {"startIPAddress": "10.0.0.1", "endIPAddress": "10.0.0.9", "action": "Allow"}
POPULATE = "function populate(jwt, user, registration) {\n  jwt.shop = '#{x}';\n}"
OBJECTS = (
    (f"/api/key/generate/{KEY}", {"key": {"name": "Shop tokens", "algorithm": "ES256"}}),
    (
        f"/api/application/{SHOP}",
        {
            "application": {
                "name": "Shop",
                "oauthConfiguration": {"clientSecret": SECRET, "authorizedRedirectURLs": ["https://shop.example.com/cb"]},
                "jwtConfiguration": {"enabled": True, "accessTokenKeyId": KEY, "idTokenKeyId": KEY},
                "roles": [{"id": BUYER, "name": "buyer"}, {"name": "seller", "description": "Sells"}],
                "scopes": [{"name": "orders", "description": "Read orders"}],
            }
        },
    ),
    ("/api/group", {"group": {"name": "Buyers"}, "roleIds": [BUYER]}),
    (
        "/api/webhook",
        {
            "webhook": {
                "url": "https://hooks.example.com/", "connectTimeout": 1000, "readTimeout": 1000,
                "tenantIds": [DEFAULT_TENANT], "headers": {"X-Token": "a token of the receiver"},
                "eventsEnabled": {"user.create.complete": True},
            }
        },
    ),
    (
        "/api/identity-provider",
        {
            "identityProvider": {
                "name": "Partner", "type": "OpenIDConnect", "enabled": True,
                "oauth2": {
                    "client_id": "shop", "client_secret": "a secret of the partner", "scope": "openid",
                    "authorization_endpoint": "https://partner.example.com/authorize",
                    "token_endpoint": "https://partner.example.com/token",
                    "userinfo_endpoint": "https://partner.example.com/userinfo",
                },
                "applicationConfiguration": {SHOP: {"enabled": True, "createRegistration": True}},
            }
        },
    ),
    (
        f"/api/entity/type/{DEVICE}",
        {"entityType": {"name": "Device", "permissions": [{"name": "read"}, {"name": "write"}]}},
    ),
    (
        f"/api/entity/{GATEWAY}",
        {"entity": {"name": "Gateway", "type": {"id": DEVICE}, "clientSecret": "a secret of the gateway"}},
    ),
    (f"/api/entity/{SENSOR}", {"entity": {"name": "Sensor", "type": {"id": DEVICE}, "parentId": GATEWAY}}),
    (f"/api/entity/{SENSOR}/grant", {"grant": {"recipientEntityId": GATEWAY, "permissions": ["read"]}}),
    (
        f"/api/api-key/{CI_KEY}",
        {
            "apiKey": {
                "name": "CI", "key": "a value of the key of CI", "permissions": {"endpoints": {"/api/user": ["GET"]}},
                "metaData": {"attributes": {"description": "For builds"}},
            }
        },
    ),
    (
        "/api/consent",
        {"consent": {"name": "News", "consentEmailTemplateId": EMAIL_TEMPLATE, "defaultMinimumAgeForSelfConsent": 18}},
    ),
    ("/api/user-action", {"userAction": {"name": "Ban", "temporal": True, "preventLogin": True}}),
    ("/api/user-action-reason", {"userActionReason": {"code": "spam", "text": "Sends spam"}}),
    (
        "/api/ip-acl",
        {"ipAccessControlList": {"name": "Office", "entries": [BLOCKED, ALLOWED]}},
    ),
    ("/api/theme", {"sourceThemeId": "75a068fd-e94b-451a-9aeb-3ddb9a3b5987", "theme": {"name": "Shop theme"}}),
    ("/api/lambda", {"lambda": {"name": "Claims", "type": "JWTPopulate", "body": POPULATE}}),
    (
        "/api/messenger",
        {
            "messenger": {
                "name": "SMS", "type": "Generic", "url": "https://sms.example.com/",
                "connectTimeout": 1000, "readTimeout": 1000,
            }
        },
    ),
    ("/api/message/template", {"messageTemplate": {"name": "Code", "type": "SMS", "defaultTemplate": "Code ${code}"}}),
    ("/api/tenant", {"tenant": {"name": "Second", "issuer": "https://second.example.com"}}),
)  # fmt: skip


@pytest.fixture(scope="module")
async def configured_instance(build):
    """A service with one object of every kind."""
    async with build() as running:
        headers = {"Authorization": MANAGER_KEY, "X-FusionAuth-TenantId": DEFAULT_TENANT}
        async with checking_client(running.base_url, headers=headers) as client:
            for path, body in OBJECTS:
                is_global = path.startswith(("/api/webhook", "/api/api-key"))
                made = {"headers": {"X-FusionAuth-TenantId": ""}} if is_global else {}
                answer = await client.post(path, json=body, **made)
                assert answer.status_code == 200, answer.text
        yield running


@pytest.fixture
def at(identity):
    """Runs a command against a service."""

    async def run_command(running, *arguments: str, **environ: str):
        return await identity(*arguments, IDENTITY_URL=running.base_url, IDENTITY_API_KEY=MANAGER_KEY, **environ)

    return run_command


@pytest.fixture
async def exported(at, configured_instance, tmp_path, monkeypatch):
    """The folder of an export; the variables of its secrets are set."""
    folder, secrets = tmp_path / "configuration", tmp_path / "secrets.env"
    done = await at(configured_instance, "export", "--dir", str(folder), "--secrets", str(secrets))
    assert done.code == 0, done.err
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o600
    for line in secrets.read_text().splitlines():
        name, _, value = line.partition("=")
        monkeypatch.setenv(name, value[1:-1].replace("'\\''", "'"))
    return folder


def edit(file, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


@pytest.mark.requirement("ship-7")
async def test_export_is_complete_has_no_secret_and_plans_no_change(at, configured_instance, exported):
    folders = {file.parent.name for file in exported.rglob("*.yaml")} | {"system-configurations"}
    made = {path.removeprefix("/api/").split("/")[0] for path, _ in OBJECTS}
    assert len(made) > 10
    rows = {kind.folder: kind.row.path.removeprefix("/api/").split("/")[0] for kind in KINDS}
    assert {folder for folder, path in rows.items() if path in made} <= folders
    text = "".join(file.read_text() for file in exported.rglob("*.yaml"))
    secrets = (SECRET, "a token of the receiver", "a secret of the partner", "a secret of the gateway")
    for secret in (*secrets, "a value of the key of CI", "PRIVATE KEY"):
        assert secret not in text
    assert "${env:IDENTITY_SECRET_APPLICATION_SHOP_OAUTHCONFIGURATION_CLIENTSECRET}" in text
    done = await at(configured_instance, "plan", "--dir", str(exported), "--check")
    assert (done.code, "No changes" in done.out) == (0, True), done.out


@pytest.mark.requirement("ship-8")
async def test_changed_file_is_planned_applied_and_then_equal(at, configured_instance, exported):
    shop = exported / "applications" / "shop.yaml"
    before = shop.read_text()
    edit(shop, "name: Shop", "name: Web shop")
    edit(shop, "https://shop.example.com/cb", "https://shop.example.com/callback")
    edit(shop, "description: Sells", "description: Sells more")
    edit(
        shop, "- description: Read orders", "- name: invoices\n  description: Read invoices\n- description: Read orders"
    )
    planned = await at(configured_instance, "plan", "--dir", str(exported), "--check")
    assert planned.code == exit_codes.DIFFERENCES
    assert '~ name: "Shop" -> "Web shop"' in planned.out
    assert "+ scopes.invoices" in planned.out
    assert "Plan: 0 to create, 1 to change, 0 to delete." in planned.out
    applied = await at(configured_instance, "apply", "--dir", str(exported), "--yes")
    assert applied.code == 0, applied.err
    again = await at(configured_instance, "plan", "--dir", str(exported), "--check", "--json")
    assert again.json["changes"] == []
    shop.write_text(before)
    assert (await at(configured_instance, "apply", "--dir", str(exported), "--yes")).code == 0
    assert (await at(configured_instance, "plan", "--dir", str(exported), "--check")).code == 0


@pytest.mark.requirement("ship-9")
async def test_second_instance_becomes_equal_by_apply(at, build, exported):
    async with build(kickstart=re.sub(r"variables:\n.*\n", "", KICKSTART)) as second:
        planned = await at(second, "plan", "--dir", str(exported), "--check")
        assert planned.code == exit_codes.DIFFERENCES
        assert SECRET not in planned.out
        applied = await at(second, "apply", "--dir", str(exported), "--yes")
        assert applied.code == 0, applied.err
        again = await at(second, "plan", "--dir", str(exported), "--prune-data", "--json")
        # Its own first key is in no file.
        assert [(one["action"], one["kind"]) for one in again.json["changes"]] == [("delete", "api-key")], again.out
        async with checking_client(second.base_url, headers={"Authorization": SUPER_KEY}) as client:
            shop = (await client.get(f"/api/application/{SHOP}")).json()["application"]
            assert shop["oauthConfiguration"]["clientSecret"] == SECRET
            (group,) = (await client.get("/api/group")).json()["groups"]
            assert [role["name"] for role in group["roles"][SHOP]] == ["buyer"]
            (webhook,) = (await client.get("/api/webhook")).json()["webhooks"]
            assert webhook["headers"] == {"X-Token": "a token of the receiver"}
            assert webhook["tenantIds"] == [shop["tenantId"]] != [DEFAULT_TENANT]


@pytest.mark.requirement("ship-9")
async def test_entities_grants_and_api_keys_are_applied_changed_and_pruned(at, build, exported, tmp_path):
    async with build() as second, checking_client(second.base_url, headers={"Authorization": MANAGER_KEY}) as client:
        (exported / "api-keys" / "ci.yaml").write_text(
            (exported / "api-keys" / "ci.yaml").read_text() + "key: ${env:CI_KEY}\n"
        )
        refused = await at(second, "apply", "--dir", str(exported), "--yes")
        assert "api-key 'CI': key is a reference without a value here" in refused.err
        value = {"CI_KEY": "a value from the environment"}
        applied = await at(second, "apply", "--dir", str(exported), "--yes", **value)
        assert applied.code == 0, applied.err
        assert value["CI_KEY"] not in applied.out
        entity = {"X-FusionAuth-TenantId": DEFAULT_TENANT}
        by_key = {**entity, "Authorization": value["CI_KEY"]}
        assert (await client.get("/api/user?loginId=none@example.com", headers=by_key)).status_code == 404
        gateway = (await client.get(f"/api/entity/{GATEWAY}", headers=entity)).json()["entity"]
        assert gateway["clientSecret"] == "a secret of the gateway"
        (grant,) = (await client.get(f"/api/entity/{SENSOR}/grant", headers=entity)).json()["grants"]
        assert (grant["recipientEntityId"], grant["permissions"]) == (GATEWAY, ["read"])
        (file,) = (exported / "grants").iterdir()
        edit(file, "read", "write")
        edit(exported / "api-keys" / "ci.yaml", "GET", "POST")
        assert "2 to change" in (await at(second, "apply", "--dir", str(exported), "--yes")).out
        (grant,) = (await client.get(f"/api/entity/{SENSOR}/grant", headers=entity)).json()["grants"]
        assert grant["permissions"] == ["write"]
        assert (await client.get("/api/user?loginId=none@example.com", headers=by_key)).status_code == 401
        file.unlink()
        (exported / "api-keys" / "ci.yaml").unlink()
        planned = (await at(second, "plan", "--dir", str(exported), "--prune", "--json")).json
        assert [(one["action"], one["kind"]) for one in planned["changes"]] == [("delete", "grant")]
        assert "api-key" in {one["kind"] for one in planned["unmanaged"]}
        assert (await at(second, "apply", "--dir", str(exported), "--prune-data", "--yes")).code == 0
        assert (await client.get(f"/api/entity/{SENSOR}/grant", headers=entity)).json()["grants"] == []
        assert (await client.get(f"/api/api-key/{CI_KEY}")).status_code == 404


@pytest.mark.requirement("ship-7")
async def test_key_that_manages_no_keys_leaves_their_files_alone(identity, configured_instance, exported):
    before = (exported / "api-keys" / "ci.yaml").read_text()
    own = {"IDENTITY_URL": configured_instance.base_url, "IDENTITY_API_KEY": SUPER_KEY}
    done = await identity("export", "--dir", str(exported), **own)
    assert (done.code, "API keys are not exported" in done.err) == (0, True), done.err
    assert (exported / "api-keys" / "ci.yaml").read_text() == before


@pytest.mark.requirement("ship-10")
async def test_kickstart_of_an_export_makes_an_equal_instance(at, build, configured_instance, exported, tmp_path):
    folder = tmp_path / "kickstart"
    done = await at(configured_instance, "export", "--dir", str(folder), "--kickstart")
    assert done.code == 0, done.err
    text = (folder / "kickstart.yaml").read_text()
    assert SECRET not in text
    text = re.sub(r"apiKeys:\n(?:- .*\n(?:  .*\n)*)", f'apiKeys:\n- {{key: "{MANAGER_KEY}", keyManager: true}}\n', text)
    async with build(kickstart=text) as third:
        planned = await at(third, "plan", "--dir", str(exported), "--check", "--prune-data")
        assert planned.code == 0, planned.out


@pytest.mark.requirement("ship-9")
async def test_secret_without_a_value_is_kept_and_required_for_a_new_object(
    at, configured_instance, exported, monkeypatch
):
    for name in [name for name in os.environ if name.startswith("IDENTITY_SECRET_")]:
        monkeypatch.delenv(name)
    edit(exported / "applications" / "shop.yaml", "name: Shop", "name: Kiosk")
    assert (await at(configured_instance, "apply", "--dir", str(exported), "--yes")).code == 0
    async with checking_client(configured_instance.base_url, headers={"Authorization": SUPER_KEY}) as client:
        shop = (await client.get(f"/api/application/{SHOP}")).json()["application"]
    assert (shop["name"], shop["oauthConfiguration"]["clientSecret"]) == ("Kiosk", SECRET)
    edit(exported / "applications" / "shop.yaml", "name: Kiosk", "name: Shop")
    edit(
        exported / "webhooks" / next(one.name for one in (exported / "webhooks").iterdir()),
        "id: ",
        f"id: {UNKNOWN_ID}\n# ",
    )
    edit(exported / "applications" / "shop.yaml", "name: Shop", "name: Shop")
    refused = await at(configured_instance, "apply", "--dir", str(exported), "--yes")
    assert refused.code == exit_codes.USAGE
    assert "headers.X-Token is a reference without a value here" in refused.err
    async with checking_client(configured_instance.base_url, headers={"Authorization": SUPER_KEY}) as client:
        await client.patch(f"/api/application/{SHOP}", json={"application": {"name": "Shop"}})


@pytest.mark.requirement("ship-11")
async def test_prune_deletes_what_is_in_no_file_but_never_default_objects(at, build, exported, configured_instance):
    async with build() as fresh:
        assert (await at(fresh, "apply", "--dir", str(exported), "--yes")).code == 0
        for folder in ("user-actions", "lambdas", "applications", "tenants", "themes", "keys"):
            for file in (exported / folder).iterdir():
                file.unlink()
        untouched = await at(fresh, "plan", "--dir", str(exported), "--check", "--json")
        assert untouched.json["changes"] == []
        assert {"tenant", "lambda"} <= {one["kind"] for one in untouched.json["unmanaged"]}
        pruned = (await at(fresh, "plan", "--dir", str(exported), "--prune", "--json")).json["changes"]
        assert {(one["action"], one["kind"], one["name"]) for one in pruned} == {
            ("delete", "user-action", "Ban"), ("delete", "lambda", "Claims"), ("delete", "theme", "Shop theme"),
        }  # fmt: skip
        everything = (await at(fresh, "plan", "--dir", str(exported), "--prune-data", "--json")).json["changes"]
        assert "Second" in {one["name"] for one in everything}
        doomed = {one["id"] for one in everything}
        assert SHOP not in doomed  # an identity provider and a group refer to it
        assert not {DEFAULT_TENANT, ADMINISTRATOR_APPLICATION_ID, "75a068fd-e94b-451a-9aeb-3ddb9a3b5987"} & doomed
        assert (await at(fresh, "apply", "--dir", str(exported), "--prune", "--yes")).code == 0
        assert (await at(fresh, "plan", "--dir", str(exported), "--prune", "--check")).code == 0


@pytest.mark.requirement("ship-8")
async def test_every_fault_of_the_files_is_named_before_anything_is_sent(at, configured_instance, exported):
    (exported / "lambdas" / "broken.yaml").write_text("name: [\n")
    (exported / "lambdas" / "list.yaml").write_text("- name\n")
    edit(exported / "applications" / "shop.yaml", "name: Shop", "nmae: Shop")
    done = await at(configured_instance, "apply", "--dir", str(exported), "--yes")
    assert done.code == exit_codes.FAILURE
    for fault in (
        "broken.yaml: is not YAML",
        "list.yaml: must be a map",
        "shop.yaml: unknown member nmae",
        "[application.name]",
    ):
        assert fault in done.err
    assert (await at(configured_instance, "plan", "--dir", str(exported / "nowhere"))).code == exit_codes.FAILURE


@pytest.mark.requirement("ship-8")
async def test_hand_written_file_needs_only_what_it_changes(at, configured_instance, tmp_path):
    folder = tmp_path / "lambdas"
    folder.mkdir()
    name = f"By hand {new_id()}"
    (folder / "mine.yaml").write_text(f"name: {name}\ntype: JWTPopulate\nbody: function populate(jwt) {{}}\n")
    for expected in ("1 to create, 0 to change", "No changes"):
        assert expected in (await at(configured_instance, "apply", "--dir", str(tmp_path), "--yes")).out
    (folder / "mine.yaml").write_text(
        f"name: {name}\ntype: JWTPopulate\nbody: function populate(jwt) {{}}\ndebug: true\n"
    )
    assert "~ debug: false -> true" in (await at(configured_instance, "plan", "--dir", str(tmp_path))).out
    (folder / "mine.yaml").unlink()
    assert (await at(configured_instance, "apply", "--dir", str(tmp_path), "--prune", "--yes")).code == 0


@pytest.mark.requirement("ship-8")
def test_null_removes_a_member_and_an_absent_one_is_left_alone(tmp_path):
    (kind,) = (kind for kind in KINDS if kind.row.name == "application")
    current = documents.of_response(
        kind, {"id": UNKNOWN_ID, "name": "A", "themeId": UNKNOWN_ID, "tenantId": UNKNOWN_ID}
    )
    left_alone, _ = documents.of_file(kind, {"id": UNKNOWN_ID, "name": "A", "tenantId": UNKNOWN_ID}, tmp_path, {})
    removed, _ = documents.of_file(
        kind, {"id": UNKNOWN_ID, "name": "A", "tenantId": UNKNOWN_ID, "themeId": None}, tmp_path, {}
    )
    assert documents.comparable(documents.merged(left_alone, current))["themeId"] == UNKNOWN_ID
    assert "themeId" not in documents.comparable(documents.merged(removed, current))


@pytest.mark.requirement("ship-9")
def test_secret_is_read_from_a_file_next_to_the_one_that_refers_to_it(tmp_path):
    (tmp_path / "secret").write_text("from a file\n")
    (kind,) = (kind for kind in KINDS if kind.row.name == "application")
    document = {"name": "A", "oauthConfiguration": {"clientSecret": "${file:secret}"}}
    one, problems = documents.of_file(kind, document, tmp_path, {})
    assert (problems, one.content["oauthConfiguration"]["clientSecret"]) == ([], "from a file")
    assert not one.unresolved
    gone, _ = documents.of_file(kind, document, tmp_path / "elsewhere", {})
    assert gone.unresolved == {("oauthConfiguration", "clientSecret")}


def test_files_of_one_name_and_long_texts_are_readable(tmp_path):
    (kind,) = (kind for kind in KINDS if kind.row.name == "lambda")
    body = "function populate(jwt) {\n  jwt.a = 1;\n}"
    objects = [
        documents.of_response(kind, {"id": new_id(), "name": name, "type": "JWTPopulate", "body": body})
        for name in ("Same", "same")
    ]
    files.write(tmp_path, objects, KINDS, full=False)
    written = sorted((tmp_path / "lambdas").iterdir())
    assert len(written) == 2
    assert "body: |-\n  function populate(jwt) {\n" in written[0].read_text()
    assert {yaml.safe_load(file.read_text())["body"] for file in written} == {body}


@pytest.mark.requirement("start-8")
async def test_plan_says_why_an_object_stays(at, build, exported, configured_instance):
    (exported / "applications" / "shop.yaml").unlink()
    for file in (exported / "themes").iterdir():
        file.unlink()
    prune = await at(configured_instance, "plan", "--dir", str(exported), "--prune")
    assert f"application 'Shop' ({SHOP}) is in no file, and stays: its deletion also deletes data" in prune.out
    assert "use --prune-data" in prune.out
    assert re.search(r"theme '[^']+' \(75a068fd-\S+\) is in no file, and stays: every instance has it", prune.out)
    data = (await at(configured_instance, "plan", "--dir", str(exported), "--prune-data", "--json")).json
    reasons = {kept["id"]: kept["reason"] for kept in data["unmanaged"]}
    assert re.fullmatch(r"the [a-z-]+ '.+' refers to it", reasons[SHOP])
    plain = (await at(configured_instance, "plan", "--dir", str(exported), "--json")).json
    assert {kept["reason"] for kept in plain["unmanaged"]} == {"it is deleted only with --prune"}


@pytest.mark.requirement("start-6")
async def test_folders_and_files_of_no_kind_are_refused(at, configured_instance, exported):
    (exported / "webhook").mkdir()
    (exported / "things").mkdir()
    (exported / "things" / "one.yaml").write_text("name: One\n")
    (exported / "tenants" / "more.yml").write_text("name: More\n")
    (exported / "system-config.yaml").write_text("{}\n")
    refused = await at(configured_instance, "plan", "--dir", str(exported))
    assert refused.code == 1
    assert f"{exported}/webhook: there is no kind with this folder; did you mean webhooks?" in refused.err
    assert f"{exported}/things: there is no kind with this folder; move it" in refused.err
    assert f"{exported}/tenants/more.yml: is not read; rename it to more.yaml" in refused.err
    assert "did you mean system-configuration.yaml?" in refused.err


@pytest.mark.requirement("start-6")
async def test_folders_with_files_that_objects_refer_to_are_left_alone(at, configured_instance, exported):
    (exported / "texts").mkdir()
    (exported / "texts" / "mail.html").write_text("<p>Hello</p>")
    (exported / ".git").mkdir()
    (exported / "kickstart.yaml").write_text("apiKeys: []\n")
    (exported / "README.md").write_text("Our configuration")
    assert (await at(configured_instance, "plan", "--dir", str(exported), "--check")).code == 0


@pytest.mark.requirement("start-9")
async def test_error_of_apply_names_the_object_and_no_header(at, configured_instance, tmp_path):
    (tmp_path / "groups").mkdir()
    (tmp_path / "groups" / "staff.yaml").write_text("name: Staff\n")
    refused = await at(configured_instance, "apply", "--dir", str(tmp_path), "--yes")
    assert refused.code == exit_codes.REFUSED, refused.err
    assert "group 'Staff': POST /api/group/" in refused.err
    assert "by tenantId in the file of the object" in refused.err
    assert "X-FusionAuth" not in refused.err
