"""The indexes that the searches of a collection need, to avoid collection scans and sorts in memory.

A page is read in the order of an index after the prefix of the tenant, if documents have one, and of one exact
criterion. An index is read in both directions, so that an order and its reverse share one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from identity.domain.objects import name_suffixes, search
from identity.domain.objects.resource_definition import SearchRules, Unique

Order = tuple[tuple[str, int], ...]

NEWEST_FIRST: Order = (("insertInstant", -1), ("_id", -1))
"""The default order of lists."""


def of_searches(rules: SearchRules, unique: Iterable[Unique], *, tenant_scoped: bool) -> list[Order]:
    """Return the keys of every index for criteria searches and lists, except those that a unique index serves."""
    orders = [NEWEST_FIRST, *(search.order_of(rules, name) for name in rules.order_by)]
    default = search.order_of(rules, rules.default)
    exact = [((member, 1), *default) for member in _members(rules, "exact")]
    of_tenants = [((member, 1), *default) for member in ("tenantIds", "global") if "tenants" in rules.criteria.values()]
    texts: list[Order] = [((member, 1), ("_id", 1)) for member in _members(rules, "text") if member not in rules.long]
    if has_name_suffixes(rules):
        texts.append(((name_suffixes.MEMBER, 1),))
    return of_orders([*orders, default, *exact, *of_tenants, *texts], unique, tenant_scoped=tenant_scoped)


def has_name_suffixes(rules: SearchRules) -> bool:
    """Return whether documents store the suffixes of their names, because names are searched."""
    return rules.criteria.get("name") == "text" and "name" not in rules.members


def of_orders(orders: Iterable[Order], unique: Iterable[Unique], *, tenant_scoped: bool) -> list[Order]:
    """Return the keys of the indexes for these orders, within each tenant and across all tenants."""
    there = [unique.keys for unique in unique if not unique.sparse]
    wanted = [
        _indexed(order, scope, there) for scope in ((("tenantId",), ()) if tenant_scoped else ((),)) for order in orders
    ]
    served = {tuple((key, 1) for key in keys) for keys in there} | {(), (("_id", 1),)}
    needed = [keys for keys in dict.fromkeys(wanted) if keys not in served]
    return [keys for keys in needed if not any(_begins(other, keys) for other in needed)]


def shortened(order: Order, scope: Iterable[str], unique: Iterable[tuple[str, ...]]) -> Order:
    """Return an order without its redundant fields: the scope itself, and all fields after a unique one."""
    scope, told_apart = tuple(scope), {"_id"}
    told_apart |= {keys[-1] for keys in unique if set(keys[:-1]) <= set(scope)}
    short = []
    for member, direction in order:
        if member in scope:
            continue
        short.append((member, direction))
        if member in told_apart:
            break
    return tuple(short)


def _begins(keys: Order, first: Order) -> bool:
    """Return whether an index with these keys serves every query of an index with only its first keys."""
    return keys != first and keys[: len(first)] == first


def _indexed(order: Order, scope: tuple[str, ...], unique: Iterable[tuple[str, ...]]) -> Order:
    keys = shortened(order, scope, unique)
    if len({direction for _, direction in keys}) == 1:
        keys = tuple((member, 1) for member, _ in keys)
    return (*((member, 1) for member in scope), *keys)


def _members(rules: SearchRules, kind: str) -> Iterator[str]:
    for name, found in rules.criteria.items():
        if found == kind:
            yield rules.members.get(name, name)
