"""The cost of password hashing that a tenant may choose."""

from __future__ import annotations

from identity.call import Call, Document
from identity.errors import FieldError
from identity.password_pool import scheme_problems
from identity.services import Services

_PATH = "tenant.passwordEncryptionConfiguration"


def problems(services: Services, call: Call, document: Document, stored: Document | None) -> list[FieldError]:
    """What is wrong with the passwordEncryptionConfiguration of a tenant.

    Hashing takes the CPU time of the whole instance, so a tenant-scoped caller stays within `passwords.maximum_factors`
    of the configuration; a cost that an administrator of the instance chose may stay.
    """
    configuration = document["passwordEncryptionConfiguration"]
    errors = scheme_problems(configuration, _PATH)
    if errors or call.caller.tenant_id is None or _cost(document) == _cost(stored):
        return errors
    most = services.config.passwords.maximum_factors.get(configuration["encryptionScheme"])
    if most is None or configuration["encryptionSchemeFactor"] <= most:
        return []
    path = f"{_PATH}.encryptionSchemeFactor"
    return [FieldError.of("invalid", path, f"The [{path}] exceeds {most}, the maximum for tenants of this instance.")]


def _cost(tenant: Document | None) -> tuple[str, int] | None:
    if tenant is None:
        return None
    configuration = tenant["passwordEncryptionConfiguration"]
    return configuration["encryptionScheme"], configuration["encryptionSchemeFactor"]
