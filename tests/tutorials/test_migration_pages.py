"""The commands of docs/migrate, run in a shell."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from identity import app
from identity.ids import new_id
from tests import relying_party, shell
from tests.cli.test_import import realm
from tests.conftest import MANAGER_KEY, ROOT, SUPER_KEY


def commands(page: str) -> str:
    """The commands of a page; Keycloak's own are left out, because it is not installed."""
    blocks = shell.blocks(ROOT / "docs" / "migrate" / page)
    return "\n".join(block for block in blocks if not block.startswith("kc.sh"))


async def run(script: str, service: app.Service, tenant: dict[str, Any], folder: Path) -> str:
    """What commands print, for this service as the old instance and the new one."""
    script = script.replace("--tenant Acme", f"--tenant {tenant['id']}").replace(
        "OLD_API_KEY=...", f"OLD_API_KEY={SUPER_KEY}"
    )
    environment = f"""
        export IDENTITY_URL={service.base_url} IDENTITY_API_KEY={MANAGER_KEY}
        identity() {{ {sys.executable} {ROOT / "run.py"} "$@"; }}
    """
    return await shell.run(environment + script.replace("https://auth.example.com", service.base_url), folder)


@pytest.mark.requirement("ship-17")
async def test_keycloak(
    service: app.Service, tenant: dict[str, Any], tenant_api: httpx.AsyncClient, tmp_path: Path
) -> None:
    exported = realm()
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "acme-realm.json").write_text(json.dumps(exported))
    printed = await run(commands("keycloak.md"), service, tenant, tmp_path)
    assert "7 users would be created" in printed
    assert (await tenant_api.get(f"/api/user/{exported['users'][0]['id']}")).status_code == 200


@pytest.mark.requirement("ship-17")
async def test_fusionauth(
    service: app.Service, api: httpx.AsyncClient, tenant: dict[str, Any], tenant_api: httpx.AsyncClient, tmp_path: Path
) -> None:
    """This service has the API of the old instance; what it exports is deleted before the import."""
    user = await relying_party.make_user(tenant_api, tenant["id"])
    created = (await tenant_api.post("/api/group", json={"group": {"name": f"Group {new_id()}"}})).json()["group"]
    (tmp_path / ".curlrc").write_text(f'header = "X-FusionAuth-TenantId: {tenant["id"]}"\n')
    export, command, imports = commands("fusionauth.md").partition("identity import")
    await run(export, service, tenant, tmp_path)
    for path in (f"/api/user/{user['id']}?hardDelete=true", f"/api/group/{created['id']}"):
        assert (await tenant_api.delete(path)).status_code == 200
    target = await relying_party.make_tenant(api)
    assert "1 groups, 1 users created" in await run(command + imports, service, target, tmp_path)
    found = (await api.get(f"/api/user/{user['id']}", headers={"X-FusionAuth-TenantId": target["id"]})).json()["user"]
    assert (found["email"], found["tenantId"]) == (user["email"], target["id"])
