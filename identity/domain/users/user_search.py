"""The fields by which users can be searched and sorted."""

from __future__ import annotations

from identity.domain.objects.index_search import Fields
from identity.domain.users.users import SEARCH_FIELDS

_SORT = {
    "birthDate": "birthDate",
    "email": "email",
    "fullName": "fullName",
    "id": "_id",
    "insertInstant": "insertInstant",
    "lastLoginInstant": "lastLoginInstant",
    "login": "private.login",
    "phoneNumber": "phoneNumber",
    "tenantId": "tenantId",
    "username": "username",
}

FIELDS = Fields(
    texts=frozenset({*SEARCH_FIELDS, "birthDate", "middleName", "mobilePhone", "phoneNumber", "uniqueUsername"}),
    ids={"id": "_id", "registrations.applicationId": "registrations.applicationId", "tenantId": "tenantId"},
    sort=_SORT,
    termed=frozenset(SEARCH_FIELDS),
    flags=frozenset({"active", "verified"}),
    optional=frozenset(_SORT.values()) - {"_id", "insertInstant", "tenantId"},
)
