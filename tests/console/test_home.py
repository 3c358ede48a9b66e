"""The home page: what expires soon."""

from __future__ import annotations

import httpx

from identity.ids import new_id
from tests import certificates
from tests.console.administrator import Browser, Page


async def test_certificates_that_expire_soon_are_listed(roles: dict[str, Browser], api: httpx.AsyncClient) -> None:
    soon, later, name = certificates.make("soon"), certificates.make("later", days=(-2, 90)), f"!{new_id()}"
    created = []
    for certificate in (soon, later):
        webhook = {
            "url": f"https://{new_id()}.example.com",
            "connectTimeout": 1000,
            "readTimeout": 1000,
            "global": True,
        }
        answer = await api.post("/api/webhook", json={"webhook": {**webhook, "sslCertificate": certificate.pem}})
        assert answer.status_code == 200, answer.text
        created.append(f"/admin/webhooks/{answer.json()['webhook']['id']}")
    provider = {"type": "ExternalJWT", "name": name, "domains": [], "headerKeyParameter": "kid", "enabled": False}
    provider |= {"uniqueIdentityClaim": "email", "keys": {"a": soon.pem, "b": later.pem}}
    answer = await api.post("/api/identity-provider", json={"identityProvider": provider})
    assert answer.status_code == 200, answer.text
    try:
        shown = Page(await roles["developer"].open("/admin"))
        provider_path = f"/admin/identity-providers/{answer.json()['identityProvider']['id']}"
        assert [path in shown.links for path in (*created, provider_path)] == [True, False, True]
        assert shown.links.count(provider_path) == 1
        assert created[0] not in Page(await roles["user-manager"].open("/admin")).links
    finally:
        for path in created:
            await api.delete(path.replace("/admin/webhooks", "/api/webhook"))
