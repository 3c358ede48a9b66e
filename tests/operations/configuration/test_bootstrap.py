"""Migration of existing instances at start."""

from __future__ import annotations

import pytest

from identity.domain.configuration import administrator_roles
from identity.domain.configuration.applications import ADMINISTRATOR_APPLICATION_ID
from identity.domain.configuration.themes import DEFAULT_ID
from identity.ids import new_id
from identity.operations.configuration import bootstrap
from tests import internals
from tests.conftest import DEFAULT_TENANT

APPLICATION = f"/api/application/{ADMINISTRATOR_APPLICATION_ID}"
THEME = f"/api/theme/{DEFAULT_ID}"


async def start(service) -> None:
    await internals.run(service, bootstrap.ensure, internals.call(service))


async def named(service, application: str, theme: str) -> None:
    stored = service.services.configuration
    change = {"$set": {"name": application}}
    await stored.applications.update(DEFAULT_TENANT, {"_id": ADMINISTRATOR_APPLICATION_ID}, change)
    await stored.themes.update(None, {"_id": DEFAULT_ID}, {"$set": {"name": theme}})


async def names(api) -> tuple[str, str]:
    application, theme = await api.get(APPLICATION), await api.get(THEME)
    return application.json()["application"]["name"], theme.json()["theme"]["name"]


@pytest.mark.requirement("audit-b6-names")
async def test_tools_find_application_and_theme_by_their_published_names(service, api) -> None:
    found = (await api.get("/api/application/search", params={"name": "FusionAuth"})).json()["applications"]
    assert ADMINISTRATOR_APPLICATION_ID in {one["id"] for one in found}
    found = (await api.get("/api/theme/search", params={"name": "FusionAuth"})).json()["themes"]
    assert DEFAULT_ID in {one["id"] for one in found}


@pytest.mark.requirement("audit-b6-names")
async def test_names_of_an_earlier_version_become_the_published_ones(service, api) -> None:
    await named(service, "Administration", "Default")
    await start(service)
    assert await names(api) == ("FusionAuth", "FusionAuth")
    await test_tools_find_application_and_theme_by_their_published_names(service, api)


@pytest.mark.requirement("audit-b6-names")
async def test_names_chosen_by_an_administrator_are_kept(service, api) -> None:
    try:
        await named(service, "Ours", "Our theme")
        await start(service)
        assert await names(api) == ("Ours", "Our theme")
    finally:
        await named(service, "Administration", "Default")
        await start(service)


@pytest.mark.requirement("audit-b6-names")
async def test_used_published_name_does_not_prevent_the_start(service, api) -> None:
    await named(service, "Administration", "FusionAuth")
    other = (await api.post("/api/application", json={"application": {"name": "FusionAuth"}})).json()["application"]
    try:
        await start(service)
        assert (await names(api))[0] == "Administration"
    finally:
        await api.delete(f"/api/application/{other['id']}", params={"hardDelete": "true"})
        await start(service)
    assert (await names(api))[0] == "FusionAuth"


def full_roles() -> list[dict[str, object]]:
    return [{"id": new_id(), "isDefault": False, **role} for role in administrator_roles.role_documents()]


@pytest.mark.requirement("console-2")
async def test_instance_of_an_earlier_version_gets_the_roles_of_the_console(service, api) -> None:
    stored = internals.store(service, "applications")
    earlier = [{**role, "name": role["name"].replace("-", "_")} for role in full_roles()[:2]]
    await stored.update(DEFAULT_TENANT, {"_id": ADMINISTRATOR_APPLICATION_ID}, {"$set": {"roles": earlier}})
    try:
        await start(service)
        await start(service)
        names = [role["name"] for role in (await api.get(APPLICATION)).json()["application"]["roles"]]
        assert sorted(names) == sorted(["user_manager", *administrator_roles.DESCRIPTIONS])
    finally:
        roles = {"roles": full_roles()}
        await stored.update(DEFAULT_TENANT, {"_id": ADMINISTRATOR_APPLICATION_ID}, {"$set": roles})
