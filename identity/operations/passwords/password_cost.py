"""The cost of password hashing that a caller can choose.

Hashing takes CPU time of the whole instance. `passwords.maximum_factors` of the configuration limits every caller
except the administrators of the instance: API keys, and persons, with all permissions.
"""

from __future__ import annotations

from identity.call import ApiKeyCaller, Call, Document
from identity.domain.configuration import administrator_roles
from identity.domain.configuration.administrator_roles import Authority
from identity.errors import FieldError
from identity.password_pool import scheme_problems
from identity.services import Services

_PATH = "tenant.passwordEncryptionConfiguration"
_EVERYTHING = Authority({})


def maximum_factor(services: Services, call: Call, scheme: str) -> int | None:
    """Return the highest factor that the caller may choose for a scheme, or None without a limit."""
    caller = call.caller
    if isinstance(caller, ApiKeyCaller) and administrator_roles.of_caller(caller).covers(_EVERYTHING):
        return None
    return services.config.passwords.maximum_factors.get(scheme)


def factor_problems(
    services: Services, call: Call, tenant: Document, scheme: str, factor: int, path: str = "user.factor"
) -> list[FieldError]:
    """Return the error of a factor that a request names for passwords of a tenant. That of the tenant is permitted."""
    maximum = maximum_factor(services, call, scheme)
    if maximum is None or factor <= maximum or (scheme, factor) == _cost(tenant):
        return []
    return [FieldError.invalid(path, f"exceeds {maximum}, the maximum of this instance for {scheme}")]


def problems(services: Services, call: Call, document: Document, stored: Document | None) -> list[FieldError]:
    """Return the errors of a tenant's passwordEncryptionConfiguration.

    A higher cost that an administrator of the instance chose can stay.
    """
    errors = scheme_problems(document["passwordEncryptionConfiguration"], _PATH)
    if errors or _cost(document) == _cost(stored):
        return errors
    scheme, factor = _cost(document)
    maximum = maximum_factor(services, call, scheme)
    if maximum is None or factor <= maximum:
        return []
    path = f"{_PATH}.encryptionSchemeFactor"
    return [FieldError.invalid(path, f"exceeds {maximum}, the maximum for tenants of this instance")]


def _cost(tenant: Document | None) -> tuple[str, int]:
    if tenant is None:
        return "", 0
    configuration = tenant["passwordEncryptionConfiguration"]
    return configuration["encryptionScheme"], configuration["encryptionSchemeFactor"]
