"""Valid and complete documents for tests of domain rules; a test states only the members that matter."""

from __future__ import annotations

import functools
from typing import Any

from identity.call import Document
from identity.ids import new_id
from identity.schemas import Schemas

NOW = 1_763_690_000_000


@functools.cache
def _schemas() -> Schemas:
    return Schemas()


def make_tenant(**members: Any) -> Document:
    """A tenant as it is stored."""
    tenant = _schemas()["api/tenant.json"].read({"tenant": {"name": "Tenant", **members}})["tenant"]
    return {"id": new_id(), "state": "Active", "lastUpdateInstant": NOW, "issuer": "acme.com", **tenant}


def make_application(oauth: Document | None = None, **members: Any) -> Document:
    """An application as it is stored; `oauth` are members of its oauthConfiguration."""
    wanted = {"name": "Application", "oauthConfiguration": oauth or {}, **members}
    application = _schemas()["api/application.json"].read({"application": wanted})["application"]
    application_id = new_id()
    stored = application["oauthConfiguration"]
    stored |= {
        "clientId": application_id,
        "clientSecret": stored.get("clientSecret", "a-secret-of-the-client-43-characters-long-x"),
    }
    stored.setdefault("clientAuthenticationPolicy", "Required")
    return {"id": application_id, "active": True, "state": "Active", "lastUpdateInstant": NOW, **application}


def make_user(**members: Any) -> Document:
    """A user as it is stored, who is registered nowhere unless `registrations` says so."""
    user = _schemas()["api/user.json"].read({"user": {"email": "user@example.com", **members}})["user"]
    user |= {name: members[name] for name in ("verified", "registrations", "identities") if name in members}
    return {
        "id": new_id(),
        "active": True,
        "verified": False,
        "registrations": [],
        "insertInstant": NOW,
        "lastUpdateInstant": NOW,
        "private": {},
        **user,
    }


def make_registration(application: Document, *roles: str) -> Document:
    """A registration of a user for an application."""
    return {"id": new_id(), "applicationId": application["id"], "roles": list(roles), "insertInstant": NOW}
