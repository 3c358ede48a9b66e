"""Realm exports of Keycloak: `kc.sh export`, as one file or as all files of a folder."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from identity.cli.migration import keycloak_credentials
from identity.cli.migration.export import Export, Json, objects, redirect_urls, stable_id, without_empty
from identity.domain.configuration.applications import DEVICE_GRANT
from identity.ids import parse_id

_BUILT_IN: Final = frozenset(
    {"account", "account-console", "admin-cli", "broker", "realm-management", "security-admin-console"}
)
_BUILT_IN_ROLES: Final = frozenset({"offline_access", "uma_authorization"})
_CLIENT_ID: Final = re.compile(r"[!-~]{1,255}")
_GRANTS: Final = {"standardFlowEnabled": "authorization_code", "implicitFlowEnabled": "implicit"}
_PASSWORD_GRANT: Final = "directAccessGrantsEnabled"  # noqa: S105 (the name of a member)
_ACTIONS: Final = frozenset({"UPDATE_PASSWORD", "VERIFY_EMAIL"})
"""The required actions that are imported: the second follows from the state of the address."""

_SETTINGS: Final = {
    "passwordPolicy": "rules for passwords are those of the tenant (passwordValidationRules)",
    "bruteForceProtected": "locking after failed logins is that of the tenant (failedAuthenticationConfiguration)",
    "smtpServer": "mail is sent by the server of the tenant (emailConfiguration)",
    "organizations": "organizations have no counterpart",
}
"""Settings of a realm that administrators repeat here."""


def read(values: Sequence[Any], *, relying_party_id: str | None = None) -> Export:
    """Return the content of realm files and user files; `relying_party_id` is that of the passkeys."""
    files = objects(values)
    realms = [file for file in files if "clients" in file or "roles" in file]
    export, realm = Export(), _Realm.of(realms)
    for file in realms:
        for client in file.get("clients", []):
            _add_client(export, realm, client)
        for group in file.get("groups", []):
            _add_group(export, realm, group, frozenset())
        _skip_settings(export, file)
    settings = {name: value for file in realms for name, value in file.items() if name.startswith("webAuthn")}
    policies = keycloak_credentials.passkey_policies(settings, relying_party_id)
    for file in files:
        for user in file.get("users", []):
            _add_user(export, realm, user, policies)
    return export


@dataclasses.dataclass(slots=True)
class _Realm:
    """The roles of the realm, and what was imported so far, by its name in the export.

    A role is named by its client, None for those of the realm, and its own name.
    """

    client_roles: dict[str, list[Json]]
    composites: dict[tuple[str | None, str], list[tuple[str | None, str]]]
    client_ids: dict[str, str] = dataclasses.field(default_factory=dict)
    group_ids: dict[str, str] = dataclasses.field(default_factory=dict)
    group_roles: dict[str, frozenset[tuple[str | None, str]]] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, files: Sequence[Json]) -> _Realm:
        """Return the roles of realm files."""
        client_roles: dict[str, list[Json]] = {}
        composites: dict[tuple[str | None, str], list[tuple[str | None, str]]] = {}
        for roles in (file.get("roles", {}) for file in files):
            for client, found in roles.get("client", {}).items():
                client_roles.setdefault(client, []).extend(found)
                composites |= {(client, role["name"]): _parts(role) for role in found}
            composites |= {(None, role["name"]): _parts(role) for role in roles.get("realm", [])}
        return cls(client_roles, composites)

    def effective(self, holder: Json) -> frozenset[tuple[str | None, str]]:
        """Return the roles of a user or group, with those that composite roles contain."""
        wanted: list[tuple[str | None, str]] = [(None, name) for name in holder.get("realmRoles") or []]
        wanted += [(client, name) for client, names in (holder.get("clientRoles") or {}).items() for name in names]
        found: set[tuple[str | None, str]] = set()
        while wanted:
            role = wanted.pop()
            if role not in found:
                found.add(role)
                wanted += self.composites.get(role, [])
        return frozenset(found)

    def of_applications(self, roles: Iterable[tuple[str | None, str]]) -> dict[str, list[str]]:
        """Return the names of roles by the imported application that has them."""
        found: dict[str, list[str]] = {}
        for client, name in sorted(roles, key=str):
            if client is not None and client in self.client_ids:
                found.setdefault(self.client_ids[client], []).append(name)
        return found

    def role_ids(self, roles: Iterable[tuple[str | None, str]]) -> list[str]:
        """Return the ids of the roles of imported applications."""
        wanted = {(client, name) for client, name in roles if client in self.client_ids}
        return [
            _role_id(client, role)
            for client, found in self.client_roles.items()
            for role in found
            if (client, role["name"]) in wanted
        ]


def _parts(role: Json) -> list[tuple[str | None, str]]:
    """Return the roles that a composite role contains."""
    contained = role.get("composites") or {}
    parts: list[tuple[str | None, str]] = [(None, name) for name in contained.get("realm", [])]
    return parts + [(client, name) for client, names in contained.get("client", {}).items() for name in names]


def _role_id(client: str, role: Json) -> str:
    return stable_id("keycloak", str(role.get("id", f"{client} {role['name']}")))


def _add_client(export: Export, realm: _Realm, client: Json) -> None:
    name = client["clientId"]
    if name in _BUILT_IN:
        return
    reason = _unsupported(client)
    if reason is not None:
        export.skip("application", name, reason)
        return
    # A UUID is a client_id as the id of the application.
    application_id = parse_id(name) or stable_id("keycloak", str(client.get("id", name)))
    realm.client_ids[name] = application_id
    roles = [
        without_empty({"id": _role_id(name, role), "name": role["name"], "description": role.get("description")})
        for role in realm.client_roles.get(name, [])
    ]
    oauth = without_empty(_oauth(export, client)) | {"generateRefreshTokens": True}
    export.applications.append({"id": application_id, "name": name, "oauthConfiguration": oauth, "roles": roles})
    _skip_parts(export, client)


def _unsupported(client: Json) -> str | None:
    """Return why a client is not imported."""
    protocol = client.get("protocol", "openid-connect")
    if protocol != "openid-connect":
        return f"its protocol is {protocol}"
    if client.get("bearerOnly"):
        return "it only accepts tokens, and needs no application here"
    return None if client.get("enabled", True) else "it is disabled"


def _oauth(export: Export, client: Json) -> Json:
    """Return the oauthConfiguration of a client."""
    name, attributes = client["clientId"], client.get("attributes") or {}
    urls = [*client.get("redirectUris", []), *_post_logout_urls(attributes)]
    root = str(client.get("rootUrl") or "")
    resolved = dict.fromkeys(f"{root.rstrip('/')}{url}" if url.startswith("/") else url for url in urls)
    logout_url = str(attributes.get("backchannel.logout.url") or "")
    oauth: Json = {
        "authorizedRedirectURLs": redirect_urls(export, name, resolved),
        "backChannelLogoutURL": logout_url if logout_url.startswith("https:") else None,
        "clientId": name if parse_id(name) is None and _CLIENT_ID.fullmatch(name) else None,
        "clientSecret": client.get("secret") if "*" not in str(client.get("secret")) else None,
        "enabledGrants": list(_grants(export, client, attributes)),
    }
    if oauth["clientId"] is None and parse_id(name) is None:
        export.skip("client_id", name, "it has a space, other characters than ASCII, or more than 255")
    if client.get("publicClient"):
        oauth["clientAuthenticationPolicy"] = "NotRequired"
    if attributes.get("pkce.code.challenge.method") == "S256":
        oauth["proofKeyForCodeExchangePolicy"] = "Required"
    if client.get("consentRequired"):
        oauth |= {"relationship": "ThirdParty", "consentMode": "RememberDecision"}
    return oauth


def _post_logout_urls(attributes: Json) -> list[str]:
    """Return the URLs after a logout; + stands for the redirect URIs."""
    urls = str(attributes.get("post.logout.redirect.uris") or "").split("##")
    return [url for url in urls if url not in {"", "+", "-"}]


def _grants(export: Export, client: Json, attributes: Json) -> Iterator[str]:
    name = client["clientId"]
    yield from (grant for member, grant in _GRANTS.items() if client.get(member, member == "standardFlowEnabled"))
    if client.get(_PASSWORD_GRANT):
        yield "password"
    yield "refresh_token"
    if attributes.get("oauth2.device.authorization.grant.enabled") == "true":
        export.skip(
            "grant", f"{name}: {DEVICE_GRANT}", "enable it with the deviceVerificationURL, which it requires here"
        )


def _skip_parts(export: Export, client: Json) -> None:
    """Report what a client has and an application does not get."""
    name = client["clientId"]
    if client.get("serviceAccountsEnabled"):
        export.skip("service account", name, "client credentials are for entities here")
    origins = [origin for origin in client.get("webOrigins") or [] if origin not in {"+", ""}]
    if origins:
        export.skip("web origins", name, "configure CORS of the system, or authorizedOriginURLs")
    if client.get("clientAuthenticatorType", "client-secret") != "client-secret" and not client.get("publicClient"):
        export.skip("client authentication", name, f"set up {client['clientAuthenticatorType']} again")
    for mapper in client.get("protocolMappers") or []:
        export.skip("mapper", f"{name}: {mapper['name']}", "claims of tokens are those of a lambda here")


def _add_group(export: Export, realm: _Realm, group: Json, inherited: frozenset[tuple[str | None, str]]) -> None:
    path = group.get("path") or f"/{group['name']}"
    group_id = stable_id("keycloak", str(group.get("id", path)))
    roles = inherited | realm.effective(group)
    realm.group_ids[path], realm.group_roles[path] = group_id, roles
    realm_roles = sorted(name for client, name in roles if client is None)
    data = without_empty({"attributes": group.get("attributes"), "realmRoles": realm_roles})
    document = {"id": group_id, "name": path.lstrip("/"), "roleIds": realm.role_ids(roles)}
    export.groups.append({**document, **({"data": {"keycloak": data}} if data else {})})
    for child in group.get("subGroups", []):
        _add_group(export, realm, {"path": f"{path}/{child['name']}", **child}, roles)


def _skip_settings(export: Export, realm: Json) -> None:
    """Report the parts of a realm that are not imported."""
    for role in realm.get("roles", {}).get("realm", []):
        if role["name"] not in _BUILT_IN_ROLES and not role["name"].startswith("default-roles-"):
            export.skip("realm role", role["name"], "it is in data.keycloak.realmRoles of users and groups")
    for provider in realm.get("identityProviders") or []:
        export.skip("identity provider", provider["alias"], "create it here; users are linked to one of the same name")
    for federation in (realm.get("components") or {}).get("org.keycloak.storage.UserStorageProvider", []):
        export.skip("user federation", str(federation.get("name")), "use a connector")
    for name, reason in _SETTINGS.items():
        if realm.get(name):
            export.skip("setting", name, reason)


def _add_user(
    export: Export, realm: _Realm, user: Json, policies: dict[str, keycloak_credentials.PasskeyPolicy]
) -> None:
    name = str(user.get("username") or user.get("email") or user.get("id", "?"))
    if "serviceAccountClientId" in user:
        export.skip("user", name, "it is the service account of a client")
        return
    user_id, groups = stable_id("keycloak", str(user.get("id", name))), user.get("groups") or []
    applications: dict[str, list[str]] = {
        application_id: [] for path in groups for application_id in _applications(realm, path)
    }
    applications |= realm.of_applications(realm.effective(user))
    attributes, actions = user.get("attributes") or {}, user.get("requiredActions") or []
    realm_roles = [role for role in user.get("realmRoles") or [] if not role.startswith("default-roles-")]
    data = without_empty({"attributes": attributes, "realmRoles": realm_roles})
    document = {
        "id": user_id,
        **{member: user.get(member) for member in ("email", "username", "firstName", "lastName")},
        "insertInstant": user.get("createdTimestamp"),
        "preferredLanguages": attributes.get("locale"),
        "data": {"keycloak": data} if data else None,
        "registrations": [{"applicationId": one, "roles": roles} for one, roles in sorted(applications.items())],
        "memberships": [{"groupId": realm.group_ids[path]} for path in groups if path in realm.group_ids],
    }
    flags = {"active": user.get("enabled", True), "verified": bool(user.get("emailVerified", False))}
    if "UPDATE_PASSWORD" in actions:
        flags["passwordChangeRequired"] = True
    for action in actions:
        if action not in _ACTIONS:
            export.skip("required action", f"{name}: {action}", "it has no counterpart")
    credentials = keycloak_credentials.members(export, name, user_id, user.get("credentials") or [], policies)
    export.users.append({**without_empty(document), **flags, **credentials})
    for account in user.get("federatedIdentities") or []:
        link = {"provider": account["identityProvider"], "identityProviderUserId": account["userId"]}
        link |= {"displayName": account.get("userName"), "userId": user_id}
        export.links.setdefault(user_id, []).append(without_empty(link))


def _applications(realm: _Realm, path: str) -> Iterable[str]:
    """Return the applications in which a group has roles: its members have them as far as they are registered."""
    return realm.of_applications(realm.group_roles.get(path, ()))
