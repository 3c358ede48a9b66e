"""The grants that the page *Try it* performs for a client, with the inputs that each needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

from identity.call import Document
from identity.operations.grants import client_credentials, device_code, password, refresh_token

_TOKEN: Final = "/oauth2/token"  # noqa: S105 (a path)


@dataclasses.dataclass(frozen=True, slots=True)
class GrantInput:
    """A parameter that the administrator enters."""

    name: str
    label: str
    kind: str = "text"
    value: str = ""
    help: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class TrialGrant:
    """A grant: its value, its title, its inputs, and its endpoint. `is_start`: it begins a flow of several requests."""

    grant_type: str
    title: str
    inputs: Sequence[GrantInput]
    path: str = _TOKEN
    is_start: bool = False
    is_follow_up: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Exchange:
    """A request of the client and its response."""

    path: str
    form: Mapping[str, str]
    status: int
    response: Mapping[str, Any]

    @property
    def pending_device_code(self) -> str:
        """The device code of a request that the user has not approved yet; empty otherwise."""
        is_pending = self.response.get("error") in {"authorization_pending", "slow_down"}
        return self.form.get("device_code", "") if is_pending else ""


_SCOPES: Final = GrantInput("scope", "Scopes", value="openid offline_access")
_START: Final = f"{device_code.grant_type}#start"
_OF_APPLICATIONS: Final = (
    TrialGrant(
        password.grant_type,
        "Password",
        (GrantInput("loginId", "Login id"), GrantInput("password", "Password", "password"), _SCOPES),
    ),
    TrialGrant(_START, "Device", (_SCOPES,), "/oauth2/device_authorize", is_start=True),
    TrialGrant(refresh_token.grant_type, "Refresh", (GrantInput("refresh_token", "Refresh token"),)),
    TrialGrant(device_code.grant_type, "Device code", (GrantInput("device_code", "Device code"),), is_follow_up=True),
)
_OF_ENTITIES: Final = (
    TrialGrant(
        client_credentials.grant_type,
        "Client credentials",
        (
            GrantInput(
                "scope",
                "Scopes",
                help="target-entity:<id> for an entity that granted permissions to this one, optionally :<permission>.",
            ),
        ),
    ),
)


def find(grant_type: str) -> TrialGrant | None:
    """Return a grant by its value."""
    return next((grant for grant in (*_OF_APPLICATIONS, *_OF_ENTITIES) if grant.grant_type == grant_type), None)


def offered(document: Document) -> list[tuple[TrialGrant, bool]]:
    """Return the grants of a client, and whether the client enables each; a disabled one shows how it is refused."""
    if "oauthConfiguration" not in document:
        return [(grant, True) for grant in _OF_ENTITIES]
    enabled = document["oauthConfiguration"]["enabledGrants"]
    grants = (grant for grant in _OF_APPLICATIONS if not grant.is_follow_up)
    return [(grant, grant.grant_type.partition("#")[0] in enabled) for grant in grants]


def credentials_of(document: Document) -> dict[str, str]:
    """Return the credentials of a client, as parameters of a form."""
    oauth = document.get("oauthConfiguration")
    if oauth is None:
        return {"client_id": document["clientId"], "client_secret": document["clientSecret"]}
    secret = oauth.get("clientSecret") if oauth["clientAuthenticationPolicy"] != "NotRequired" else None
    return {"client_id": document["id"], **({"client_secret": secret} if secret else {})}
