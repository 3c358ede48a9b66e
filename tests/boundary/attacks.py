"""Calls that aim at the administrators: each is a route by which a caller has become one somewhere."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping
from typing import Any, Final

from identity.app import ADMINISTRATOR_APPLICATION_ID as CONSOLE
from identity.ids import new_id
from tests import two_factor
from tests.authenticator import RELYING_PARTY, Passkey
from tests.boundary.calls import Request
from tests.boundary.world import DEFAULT_TENANT, PASSWORD, World, provider_of

Document = dict[str, Any]

STOLEN_PASSWORD: Final = "another password of the thief"
MARK: Final = "a page of the thief"
SCIM: Final = "/api/scim/resource/v2"
PATCH_OP: Final = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
SCIM_USER: Final = "urn:ietf:params:scim:schemas:core:2.0:User"


@dataclasses.dataclass(frozen=True)
class Target:
    """The world of an attack, with the administrator that it aims at."""

    world: World
    user: Document
    rng: random.Random

    @property
    def places(self) -> Mapping[str, str]:
        """The values of the parameters of paths."""
        found = {**self.world.known.first(), **self.world.planted}
        person = self.world.attacker.person["id"]
        return {**found, "tenantId": DEFAULT_TENANT, "victimId": self.user["id"], "personId": person,
                "console": CONSOLE, "applicationId": self.world.rp.client_id}  # fmt: skip

    def known(self, name: str) -> Any:
        """Return a value of a name."""
        return self.rng.choice(self.world.known.of(name))


Make = Callable[[Target], Any]


@dataclasses.dataclass(frozen=True)
class Attack:
    """A call; `path` has the names of `Target.places` in braces."""

    method: str
    path: str
    body: Make | None = None
    query: Make | None = None

    def request(self, target: Target) -> Request:
        """Return the call."""
        places = target.places
        path = self.path.format_map({name: places[name] for name in places})
        kind = "application/merge-patch+json" if self.method == "PATCH" else "application/json"
        kind = "application/scim+json" if self.path.startswith(SCIM) else kind
        query = {} if self.query is None else self.query(target)
        body = None if self.body is None else self.body(target)
        return Request(f"attack {self.method} {self.path}", self.method, path, query, body, kind)


def tenant(**members: Any) -> Make:
    return lambda _: {"tenant": members}


def mails(target: Target) -> Document:
    template = target.world.planted["emailTemplateId"]
    names = ("forgotPasswordEmailTemplateId", "passwordlessEmailTemplateId", "emailUpdateEmailTemplateId",
             "verificationEmailTemplateId", "setPasswordEmailTemplateId")  # fmt: skip
    return {
        "tenant": {"emailConfiguration": target.world.attacker.mailbox.configuration(**dict.fromkeys(names, template))}
    }


def provider(*extra: str, **members: Any) -> Make:
    def make(target: Target) -> Document:
        applications = (target.world.rp.client_id, *extra)
        return provider_of(target.world.attacker.provider, *applications, **members)

    return make


def registration(roles: list[str], **members: Any) -> Make:
    return lambda target: {
        "registration": {"applicationId": CONSOLE, "roles": roles, "data": {"tenantId": DEFAULT_TENANT}, **members}
    }


def new_user(**members: Any) -> Document:
    return {"username": new_id(), "password": PASSWORD, **members}


def passkey(user_id: str) -> Document:
    made = Passkey()
    return {"algorithm": made.algorithm, "authenticatorSupportsUserVerification": True, "credentialId": made.id,
            "displayName": "Key", "name": "imported", "publicKey": made.pem(), "relyingPartyId": RELYING_PARTY,
            "userId": user_id}  # fmt: skip


def scim_patch(path: str, value: Any) -> Make:
    return lambda target: {"schemas": [PATCH_OP], "Operations": [
        {"op": "replace", "path": path, "value": value(target) if callable(value) else value}]}  # fmt: skip


def members_of(target: Target) -> list[Document]:
    return [{"value": target.world.attacker.person["id"]}]


def code(target: Target) -> str:
    return two_factor.code(target.world.service.services.clock.now())
