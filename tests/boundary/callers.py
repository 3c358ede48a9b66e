"""The lesser callers of a privileged tenant: what each may call, and the authority that it began with."""

from __future__ import annotations

import contextlib
import dataclasses
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

import httpx

from identity import permissions
from identity.app import ADMINISTRATOR_APPLICATION_ID
from identity.domain.configuration import administrator_roles
from identity.domain.configuration.administrator_roles import Authority
from identity.ids import new_id
from tests.boundary.world import PASSWORD, World
from tests.conftest import DEFAULT_TENANT
from tests.console import administrator
from tests.console.administrator import Browser
from tests.relying_party import REDIRECT_URI

Document = dict[str, Any]

ROLES: Final = ("user-manager", "developer", "auditor", "tenant-admin")
_TENANT_KEY: Final = "tenant key"
_SINGLE: Final = "single permission"
NAMES: Final = (
    *ROLES, _TENANT_KEY, _SINGLE, "SCIM client", "registered client", "connector", "identity provider",
)  # fmt: skip
_SCIM: Final = "/api/scim/"
_PUBLIC: Final = "/oauth2/"


@dataclasses.dataclass
class Caller:
    """A lesser caller; `granted` are the permissions of its API key, and None those of a caller without one."""

    name: str
    http: httpx.AsyncClient
    anonymous: httpx.AsyncClient
    """The same person without credentials."""
    granted: permissions.Granted | None = None
    tenant_id: str | None = DEFAULT_TENANT
    user_id: str | None = None
    browser: Browser | None = None
    """The console, for a role."""
    email: str = ""
    credentials: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def authority(self) -> Authority | None:
        """The authority that the caller began with; None without an API key or a role."""
        return None if self.granted is None else Authority(self.granted, self.tenant_id)

    def may_call(self, path: str, method: str) -> bool:
        """Return whether the caller may make a call by its credentials; `path` is a template of the document."""
        if path.startswith(_SCIM):
            return self.name == "SCIM client"
        if not path.startswith("/api/") or self.granted is None:
            return path.startswith(("/api/login", "/api/passwordless", "/api/identity-provider/login")) or (
                _PUBLIC in path or path.startswith("/.well-known")
            )
        endpoint = permissions.endpoint_of(path)
        if endpoint.startswith(permissions.KEY_MANAGER_ENDPOINT):
            return False
        if self.tenant_id is not None and permissions.is_global_only(endpoint, method):
            return False
        return permissions.may_call(self.granted, endpoint, method)


@dataclasses.dataclass
class Callers:
    """The callers of a world. A key with few permissions is created when a sequence needs it."""

    world: World
    fixed: dict[str, Caller]
    _keys: dict[str, str] = dataclasses.field(default_factory=dict)
    _anonymous: httpx.AsyncClient | None = None

    async def get(self, name: str, rng: random.Random, endpoints: Sequence[str]) -> Caller:
        """Return the caller of a name; the permissions of a key with few of them are random."""
        if name != _SINGLE:
            return self.fixed[name]
        endpoint = rng.choice(endpoints)
        methods = sorted(permissions.ENDPOINTS[endpoint])
        granted = {endpoint: sorted(rng.sample(methods, rng.randint(1, len(methods))))}
        signature = repr(granted)
        if signature not in self._keys:
            made = await self.world.make_key({"permissions": {"endpoints": granted}})
            self._keys[signature] = made["key"]
        first = self.fixed[_TENANT_KEY]
        first_http = self.fixed[_SINGLE].http
        first_http.headers["Authorization"] = self._keys[signature]
        return Caller(_SINGLE, first_http, first.anonymous, granted, None)

    @property
    def key_count(self) -> int:
        """The number of API keys that were created for callers."""
        return len(self._keys)


@contextlib.asynccontextmanager
async def of(world: World) -> AsyncIterator[Callers]:
    """The callers of a world, whose connections stay open."""
    async with contextlib.AsyncExitStack() as stack:

        async def client(**headers: str) -> httpx.AsyncClient:
            return await stack.enter_async_context(world.client(**headers))

        anonymous = await client()
        fixed = {_SINGLE: Caller(_SINGLE, await client(), anonymous)}
        key = await world.make_key({"tenantId": DEFAULT_TENANT})
        fixed[_TENANT_KEY] = Caller(_TENANT_KEY, await client(Authorization=key["key"]), anonymous, {})
        for role in ROLES:
            fixed[role] = await _of_role(world, role, client, anonymous)
        scim = await client(Authorization=f"Bearer {world.scim_token}")
        fixed["SCIM client"] = Caller("SCIM client", scim, anonymous)
        fixed["registered client"] = await _registered(world, client, anonymous)
        for name in ("connector", "identity provider"):
            fixed[name] = Caller(name, await client(), anonymous)
        yield Callers(world, fixed)


async def _of_role(world: World, role: str, client: Any, anonymous: httpx.AsyncClient) -> Caller:
    """A role of the console: its pages, and a key with exactly its permissions."""
    data = {"tenantId": DEFAULT_TENANT} if role == "tenant-admin" else {}
    user = await administrator.make(world.api, role, data=data)
    registration = {"applicationId": ADMINISTRATOR_APPLICATION_ID, "roles": [role], "data": data}
    authority = administrator_roles.of_user({"registrations": [registration], "tenantId": DEFAULT_TENANT})
    assert authority is not None
    granted = {name: sorted(methods) for name, methods in authority.permissions.items() if methods}
    key: Document = {"permissions": {"endpoints": granted}}
    key |= {} if authority.tenant_id is None else {"tenantId": authority.tenant_id}
    value = (await world.make_key(key))["key"]
    browser = Browser(await client())
    del browser.http.headers["X-FusionAuth-TenantId"]
    shown = await browser.sign_in(user["email"], administrator.QUIET)
    assert shown.url.path == administrator.QUIET, (shown.url, shown.text)
    http = await client(Authorization=value)
    return Caller(role, http, anonymous, granted, authority.tenant_id, user["id"], browser, user["email"])


async def _registered(world: World, client: Any, anonymous: httpx.AsyncClient) -> Caller:
    """A client that was registered dynamically, with the access token of a person of the tenant."""
    token = (await world.make("/api/initial-access-token", {"initialAccessToken": {}}))["initialAccessToken"]["token"]
    metadata = {"redirect_uris": [REDIRECT_URI], "client_name": new_id(), "scope": "openid offline_access",
                "grant_types": ["authorization_code", "refresh_token"],
                "token_endpoint_auth_method": "client_secret_post"}  # fmt: skip
    path = f"/{DEFAULT_TENANT}/oauth2/register-client"
    made = await anonymous.post(path, json=metadata, headers={"Authorization": f"Bearer {token}"})
    assert made.status_code == 201, made.text
    login = {"loginId": world.attacker.person["email"], "password": PASSWORD, "applicationId": world.rp.client_id}
    access_token = (await anonymous.post("/api/login", json=login)).json()["token"]
    http = await client(Authorization=f"Bearer {access_token}")
    registered = made.json()
    credentials = {"client_id": registered["client_id"], "client_secret": registered["client_secret"],
                   "registration_access_token": registered["registration_access_token"]}  # fmt: skip
    return Caller("registered client", http, anonymous, credentials=credentials)
