"""Rules of issuer identifiers: comparison form and duplicates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from identity.call import Document


def comparison_form(issuer: str) -> str:
    """Return the form in which issuers are unique: clients differ in how they treat case and a trailing slash."""
    return issuer.strip().rstrip("/").casefold()


def duplicates(tenants: Iterable[Document]) -> list[Document]:
    """Return `issuer` and `tenants` (id and name) of each issuer that several tenants share."""
    by_issuer = defaultdict(list)
    for tenant in tenants:
        by_issuer[comparison_form(tenant["issuer"])].append(tenant)
    return [
        {
            "issuer": sharing[0]["issuer"],
            "tenants": [{"tenantId": tenant["id"], "name": tenant["name"]} for tenant in sharing],
        }
        for _, sharing in sorted(by_issuer.items())
        if len(sharing) > 1
    ]
