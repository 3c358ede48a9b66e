"""The members of stored documents that refer to documents of other collections."""

from __future__ import annotations

import dataclasses
from typing import Final

from identity.domain.lambdas import lambdas as lambda_rules
from identity.domain.objects.data_files import load_yaml


@dataclasses.dataclass(frozen=True, slots=True)
class Reference:
    """Documents of the collection `source` refer to ids of the collection `target` in these members.

    A member is a dotted path; all items of lists along it count. With `until`, the last step is a member of objects in
    a list, and each reference is valid until the instant in the object's member of that name.
    """

    source: str
    members: tuple[str, ...]
    target: str
    until: str | None = None


TABLE: Final = (
    *(
        Reference(row["source"], tuple(row["members"]), row["target"], row.get("until"))
        for row in load_yaml(__file__, "references.yaml")
    ),
    Reference("tenants", tuple(lambda_rules.REFERENCES["tenant"]), "lambdas"),
    Reference("applications", tuple(lambda_rules.REFERENCES["application"]), "lambdas"),
)


def members_of(source: str) -> tuple[str, ...]:
    """Return the members of a collection's documents that refer to others, which need an index."""
    return tuple(member for row in TABLE if row.source == source for member in row.members)
