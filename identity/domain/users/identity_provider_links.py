"""Links between accounts at identity providers and users: making one, numbering it, showing it."""

from __future__ import annotations

from collections.abc import Iterable

from identity.call import Document
from identity.ids import TenantId, new_id
from identity.instants import Instant


def build_link(
    provider: Document, provider_user_id: str, tenant_id: TenantId, user_id: str, now: Instant, **given: object
) -> Document:
    """A new link, without its number; `given` are data, displayName and token, where there are any."""
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
        **{name: value for name, value in given.items() if value is not None},
    }


def first_free_slot(links: Iterable[Document]) -> int:
    """The lowest number that none of a user's links with one provider has."""
    taken = {link["private"]["slot"] for link in links}
    return next(number for number in range(len(taken) + 1) if number not in taken)


def without_secrets(link: Document) -> Document:
    """The link as events carry it: without the provider's token."""
    return {name: value for name, value in link.items() if name not in {"id", "private", "token"}}


def for_api(link: Document, provider: Document | None) -> Document:
    """The link as the API shows it: under the provider's present name; no `data` rather than an empty one."""
    shown = {name: value for name, value in link.items() if name not in {"id", "private"}}
    if not shown.get("data"):
        shown.pop("data", None)
    return shown if provider is None else {**shown, "identityProviderName": provider["name"]}
