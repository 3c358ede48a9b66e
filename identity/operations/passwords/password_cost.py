"""The cost of password hashing that a tenant can choose."""

from __future__ import annotations

from identity.call import Call, Document
from identity.errors import FieldError
from identity.password_pool import scheme_problems
from identity.services import Services

_PATH = "tenant.passwordEncryptionConfiguration"


def problems(services: Services, call: Call, document: Document, stored: Document | None) -> list[FieldError]:
    """Return the errors of a tenant's passwordEncryptionConfiguration.

    Hashing takes CPU time of the whole instance, so callers scoped to a tenant are limited to
    `passwords.maximum_factors` of the configuration. A higher cost that an administrator of the instance chose can
    stay.
    """
    configuration = document["passwordEncryptionConfiguration"]
    errors = scheme_problems(configuration, _PATH)
    if errors or call.caller.tenant_id is None or _cost(document) == _cost(stored):
        return errors
    maximum = services.config.passwords.maximum_factors.get(configuration["encryptionScheme"])
    if maximum is None or configuration["encryptionSchemeFactor"] <= maximum:
        return []
    path = f"{_PATH}.encryptionSchemeFactor"
    return [FieldError.invalid(path, f"exceeds {maximum}, the maximum for tenants of this instance")]


def _cost(tenant: Document | None) -> tuple[str, int] | None:
    if tenant is None:
        return None
    configuration = tenant["passwordEncryptionConfiguration"]
    return configuration["encryptionScheme"], configuration["encryptionSchemeFactor"]
