"""Creates the objects of an export through the API: those that do not exist, so that an import can be repeated.

The passkeys and links of a user who exists are added only if the user has never logged in, which completes an
interrupted import: later the user may have removed them.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from identity.cli.api import Api, ApiError
from identity.cli.migration.export import Export, Json, Skipped
from identity.schemas import Schemas

BATCH: Final = 500
KINDS: Final = ("application", "group", "user", "passkey", "link")
EXISTS: Final = "exists already"
_USED: Final = "the user exists and has logged in"
_SEARCHED: Final = 50
_CLIENT_ID: Final = "application.oauthConfiguration.clientId"


@dataclasses.dataclass(frozen=True, slots=True)
class Created:
    """An object that was, or in a dry run would be, created."""

    kind: str
    name: str


@dataclasses.dataclass(slots=True)
class Report:
    """What was, or in a dry run would be, created, and what was not."""

    created: list[Created] = dataclasses.field(default_factory=list)
    skipped: list[Skipped] = dataclasses.field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """Return the number of created objects by their kind."""
        return {kind: sum(one.kind == kind for one in self.created) for kind in KINDS}

    def add(self, kind: str, name: str, reason: str | None) -> None:
        """Add an object that was created, or was not for a reason."""
        if reason is None:
            self.created.append(Created(kind, name))
        else:
            self.skipped.append(Skipped(kind, name, reason))


@dataclasses.dataclass(slots=True)
class Importer:
    """Imports exports into a tenant; a dry run only reads."""

    api: Api
    tenant_id: str
    dry_run: bool
    report: Report = dataclasses.field(default_factory=Report)
    providers: dict[str, str | None] = dataclasses.field(default_factory=dict)
    """Name of an identity provider -> its id, or None if there is none."""

    def run(self, export: Export, advance: Callable[[int], Any]) -> Report:
        """Create what does not exist. `advance` gets the number of users that were dealt with."""
        self.report.skipped += export.skipped
        for kind, documents in (("application", export.applications), ("group", export.groups)):
            for document in documents:
                self._create(kind, document)
        users = list(_valid(export.users, self.report))
        advance(len(export.users) - len(users))
        for start in range(0, len(users), BATCH):
            batch = users[start : start + BATCH]
            existing = self._existing(batch)
            refused = {} if self.dry_run else self._import([user for user in batch if user.get("id") not in existing])
            for user in batch:
                reason = EXISTS if user.get("id") in existing else refused.get(id(user))
                self.report.add("user", _name(user), reason)
            self._complete(export, [user for user in batch if id(user) not in refused], existing)
            advance(len(batch))
        return self.report

    def _create(self, kind: str, document: Json) -> None:
        """Create an application or a group."""
        path, name = f"/api/{kind}/{document['id']}", str(document.get("name", document["id"]))
        if self._exchange("GET", path)[0] == 200:
            self.report.add(kind, name, EXISTS)
            return
        wrapper = {kind: {member: value for member, value in document.items() if member not in {"id", "roleIds"}}}
        wrapper |= {"roleIds": document["roleIds"]} if document.get("roleIds") else {}
        if self.dry_run:
            self.report.add(kind, name, None)
            return
        status, text = self._exchange("POST", path, wrapper)
        if status == 400 and json.loads(text).get("fieldErrors", {}).keys() == {_CLIENT_ID}:
            reason = _reason("POST", path, status, text)
            self.report.add(
                "client_id", name, f"{reason}: the client_id is the id of the application, {document['id']}"
            )
            del wrapper[kind]["oauthConfiguration"]["clientId"]
            status, text = self._exchange("POST", path, wrapper)
        self.report.add(kind, name, _reason("POST", path, status, text))

    def _existing(self, users: Sequence[Json]) -> dict[str, Json]:
        """Return the users whose ids exist."""
        found: dict[str, Json] = {}
        ids = [user["id"] for user in users if "id" in user]
        for start in range(0, len(ids), _SEARCHED):
            search = {"ids": ids[start : start + _SEARCHED], "numberOfResults": _SEARCHED}
            answer = self.api.send("POST", "/api/user/search", {"search": search}, tenant_id=self.tenant_id)
            found |= {user["id"]: user for user in answer.get("users", [])}
        return found

    def _import(self, users: Sequence[Json]) -> Mapping[int, str]:
        """Import users, and return why some were refused, by their identity. The others are sent again."""
        refused: dict[int, str] = {}
        waiting = list(users)
        while waiting:
            body = {"users": waiting, "validateDbConstraints": True}
            status, text = self._exchange("POST", "/api/user/import", body)
            reasons = _refused(text) if status == 400 else {}
            if not reasons:
                if status != 200:
                    self.api.send("POST", "/api/user/import", body, tenant_id=self.tenant_id)
                break
            refused |= {id(waiting[index]): reason for index, reason in reasons.items()}
            waiting = [user for index, user in enumerate(waiting) if index not in reasons]
        return refused

    def _complete(self, export: Export, users: Sequence[Json], existing: Mapping[str, Json]) -> None:
        """Add the passkeys and links of users who exist now, or in a dry run would."""
        passkeys: list[tuple[str, Json]] = []
        for user in users:
            user_id = user.get("id", "")
            found = self._parts_of(export, user_id, existing.get(user_id))
            for passkey in export.passkeys.get(user_id, []):
                name = f"{_name(user)}: {passkey['displayName']}"
                if found is None or passkey["credentialId"] in found:
                    self.report.add("passkey", name, EXISTS if found else _USED)
                else:
                    passkeys.append((name, passkey))
            for link in export.links.get(user_id, []):
                self._link(f"{_name(user)}: {link['provider']}", link, found)
        for start in range(0, len(passkeys), BATCH):
            self._import_passkeys(passkeys[start : start + BATCH])

    def _parts_of(self, export: Export, user_id: str, existing: Json | None) -> frozenset[str] | None:
        """Return the credential ids and linked accounts of a user; None for one who has logged in."""
        if existing is None or not (export.passkeys.get(user_id) or export.links.get(user_id)):
            return frozenset()
        if "lastLoginInstant" in existing:
            return None
        query = {"userId": user_id}
        passkeys = self.api.send("GET", "/api/webauthn", query=query, tenant_id=self.tenant_id)
        links = self.api.send("GET", "/api/identity-provider/link", query=query, tenant_id=self.tenant_id)
        accounts = {_account(link) for link in links.get("identityProviderLinks", [])}
        return frozenset({one["credentialId"] for one in passkeys.get("credentials", [])} | accounts)

    def _import_passkeys(self, named: Sequence[tuple[str, Json]]) -> None:
        """Import passkeys; all of a refused request are sent again in halves."""
        path, reason = "/api/webauthn/import", None
        if not self.dry_run:
            status, text = self._exchange("POST", path, {"credentials": [passkey for _, passkey in named]})
            if status == 400 and len(named) > 1:
                self._import_passkeys(named[: len(named) // 2])
                self._import_passkeys(named[len(named) // 2 :])
                return
            reason = _reason("POST", path, status, text)
        for name, _ in named:
            self.report.add("passkey", name, reason)

    def _link(self, name: str, link: Json, found: frozenset[str] | None) -> None:
        """Link a user to an account at the provider of the same name."""
        provider_id = self._provider_id(link["provider"])
        if provider_id is None:
            self.report.add("link", name, f"there is no identity provider with the name {link['provider']}")
            return
        body = {member: value for member, value in link.items() if member != "provider"}
        body["identityProviderId"] = provider_id
        if found is None or _account(body) in found:
            self.report.add("link", name, EXISTS if found else _USED)
            return
        path, reason = "/api/identity-provider/link", None
        if not self.dry_run:
            reason = _reason("POST", path, *self._exchange("POST", path, {"identityProviderLink": body}))
        self.report.add("link", name, reason)

    def _provider_id(self, name: str) -> str | None:
        if name not in self.providers:
            query = {"name": name, "numberOfResults": _SEARCHED}
            path = "/api/identity-provider/search"
            answer = self.api.send("GET", path, query=query, tenant_id=self.tenant_id)
            same = [one["id"] for one in answer.get("identityProviders", []) if one["name"].lower() == name.lower()]
            self.providers[name] = next(iter(same), None)
        return self.providers[name]

    def _exchange(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        status, _, text = self.api.exchange(method, path, body, {"X-FusionAuth-TenantId": self.tenant_id})
        return status, text


def _valid(users: Iterable[Json], report: Report) -> Iterable[Json]:
    """Yield the users that have the form of the API, each id once."""
    shape, seen = Schemas()["api/imported-user.json"], set[str | None]()
    for user in users:
        _, errors = shape.examine({"user": user})
        reason = ", ".join(error.code for error in errors)
        if not reason and "id" in user and user["id"] in seen:
            reason = "is in the files twice"
        if reason:
            report.add("user", _name(user), reason)
            continue
        seen.add(user.get("id"))
        yield user


def _refused(text: str) -> dict[int, str]:
    """Return the index and the reason of each refused user. A login id of a deactivated user exists as well."""
    found: dict[int, list[str]] = {}
    for path, errors in json.loads(text).get("fieldErrors", {}).items():
        if index := re.match(r"users\[(\d+)\]", path):
            found.setdefault(int(index[1]), []).extend(error["code"] for error in errors)
    return {
        index: EXISTS if all(code.startswith(("[duplicate]", "[inactive]")) for code in codes) else ", ".join(codes)
        for index, codes in found.items()
    }


def _reason(method: str, path: str, status: int, text: str) -> str | None:
    """Return why a request was refused; None for a success. Raises ApiError for other failures."""
    if 200 <= status < 300:
        return None
    if status == 409:
        return "the account is linked to another user"
    if status != 400:
        raise ApiError(f"{method} {path}: {status}")
    body = json.loads(text)
    fields = [error for errors in body.get("fieldErrors", {}).values() for error in errors]
    return ", ".join(error["code"] for error in (*fields, *body.get("generalErrors", [])))


def _account(link: Json) -> str:
    return f"{link['identityProviderId']} {link['identityProviderUserId']}"


def _name(user: Json) -> str:
    return str(user.get("email") or user.get("username") or user.get("phoneNumber") or user.get("id", "?"))
