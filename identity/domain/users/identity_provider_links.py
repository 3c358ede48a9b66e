"""Rules of links between accounts at identity providers and users.

slot  the number of a link among those of a user with one provider; a unique index on it limits their number
"""

from __future__ import annotations

from collections.abc import Iterable

from identity.call import Document
from identity.ids import TenantId, new_id
from identity.instants import Instant


def build_link(
    provider: Document, provider_user_id: str, tenant_id: TenantId, user_id: str, now: Instant, **members: object
) -> Document:
    """Build a new link without its slot; `members` are data, displayName and token, or None."""
    return {
        "id": new_id(),
        "identityProviderId": provider["id"],
        "identityProviderName": provider["name"],
        "identityProviderType": provider["type"],
        "identityProviderUserId": provider_user_id,
        "insertInstant": now,
        "lastLoginInstant": now,
        "tenantId": tenant_id,
        "userId": user_id,
        **{name: value for name, value in members.items() if value is not None},
    }


def first_free_slot(links: Iterable[Document]) -> int:
    """Return the lowest slot that none of a user's links with one provider has."""
    taken = {link["private"]["slot"] for link in links}
    return next(number for number in range(len(taken) + 1) if number not in taken)


def without_secrets(link: Document) -> Document:
    """Return the link as events contain it: without the provider's token."""
    return {name: value for name, value in link.items() if name not in {"id", "private", "token"}}


def for_api(link: Document, provider: Document | None) -> Document:
    """Return the link in API form, with the provider's current name and without empty `data`."""
    shown = {name: value for name, value in link.items() if name not in {"id", "private"}}
    if not shown.get("data"):
        shown.pop("data", None)
    return shown if provider is None else {**shown, "identityProviderName": provider["name"]}
