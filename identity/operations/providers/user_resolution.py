"""Resolution of an external identity without a link to a user, and the claims that update the user."""

from __future__ import annotations

import dataclasses

from identity.call import Call, Document
from identity.domain.providers import external_identities
from identity.domain.providers.external_identities import ExternalIdentity
from identity.domain.providers.identity_providers import RECONCILE_LAMBDAS, is_email_trusted
from identity.domain.users import registrations
from identity.domain.users import users as rules
from identity.errors import Invalid, NotFound, Unauthorized
from identity.ids import TenantId, UserId, new_id
from identity.operations.lambdas import lambdas
from identity.operations.providers.login_trace import LoginTrace
from identity.operations.users import new_users
from identity.services import Services

_BY_EMAIL = frozenset({"LinkByEmail", "LinkByEmailForExistingUser"})
_BY_USERNAME = frozenset({"LinkByUsername", "LinkByUsernameForExistingUser"})
_MAKING = frozenset({"LinkAnonymously", "LinkByEmail", "LinkByUsername"})


@dataclasses.dataclass(frozen=True, slots=True)
class ResolvedUser:
    """A user as a login leaves them: `stored` is None for a new one, `registration` is the one that is to be made."""

    user: Document
    stored: Document | None
    registration: Document | None


async def find_or_build(
    services: Services, call: Call, tenant: Document, provider: Document, identity: ExternalIdentity
) -> tuple[Document, bool]:
    """Return the user to link an identity to, and whether the user is new.

    Raises NotFound where the strategy finds no user and creates none, Unauthorized where the provider does not say what
    the strategy goes by, Invalid for an email domain that the tenant keeps out.
    """
    strategy, tenant_id = provider["linkingStrategy"], TenantId(tenant["id"])
    found = None
    if strategy in _BY_EMAIL:
        _require_email(provider, identity)
        found = await services.directory.users.find_by_email(tenant_id, str(identity.email))
    elif strategy in _BY_USERNAME:
        if identity.username is None:
            raise Unauthorized(log_detail="the provider gives no username")
        found = await services.directory.users.find_by_username(tenant_id, identity.username)
    if found is not None:
        return found, False
    if strategy not in _MAKING:
        raise NotFound(log_detail=f"nobody is linked, and {strategy} makes no user")
    return await _new_user(services, call, tenant, provider, identity), True


async def apply_claims(
    services: Services,
    call: Call,
    provider: Document,
    application: Document,
    person: ResolvedUser,
    identity: ExternalIdentity,
    trace: LoginTrace,
) -> ResolvedUser:
    """The person with what claim map and reconcile lambda make of what the provider says. Raises LambdaFailed."""
    registration = person.registration or rules.find_registration(person.user, application["id"])
    of_user, of_registration = external_identities.map_claims(provider.get("claimMap", {}), identity.claims)
    user = _with(services, person.user, _merged(person.user, of_user), trace)
    registered = None if registration is None else {**registration, **_merged(registration, of_registration)}
    lambda_id = provider["lambdaConfiguration"].get("reconcileId")
    if lambda_id is not None:
        arguments = [
            rules.without_secrets(user),
            registrations.without_secrets(registered or {}),
            *identity.lambda_arguments,
        ]
        answered = await lambdas.invoke(services, call, lambda_id, RECONCILE_LAMBDAS[provider["type"]], *arguments)
        user = _with(services, user, _profile(answered[0]), trace)
        if registered is not None:
            registered = _reconciled(services, application, registered, answered[1], trace)
    if registered is not None:
        user = registrations.with_registration(user, registered)
    return dataclasses.replace(person, user=user, registration=registered if person.registration else None)


def links_by_email(provider: Document) -> bool:
    """Whether the provider's strategy finds users by email address."""
    return provider["linkingStrategy"] in _BY_EMAIL


def _require_email(provider: Document, identity: ExternalIdentity) -> None:
    """Require a verified address: anybody can enter an address that the provider does not verify."""
    if identity.email is None:
        raise Unauthorized(log_detail="the provider gives no email")
    if not is_email_trusted(provider, identity.is_email_verified):
        raise Unauthorized(log_detail="the provider has not verified the email, and does not have trustEmail set")


async def _new_user(
    services: Services, call: Call, tenant: Document, provider: Document, identity: ExternalIdentity
) -> Document:
    tenant_id, strategy = TenantId(tenant["id"]), provider["linkingStrategy"]
    wanted: Document = {}
    if strategy == "LinkByUsername":
        wanted["username"] = identity.username
    is_trusted = identity.email is not None and is_email_trusted(provider, identity.is_email_verified)
    if strategy == "LinkByEmail" or (
        strategy == "LinkByUsername" and is_trusted and await _is_free(services, tenant_id, identity)
    ):
        wanted["email"] = identity.email
    request = services.schemas["api/user.json"].read({"user": wanted})
    user = rules.normalize_phone_number(rules.build_user(request["user"], UserId(new_id()), tenant_id, call.now))
    user = await new_users.assign_unique_username(services, tenant, user)
    user = rules.with_verified_reason(user, "Trusted" if "email" in user else "Disabled", call.now)
    if blocked := rules.blocked_domain_problems(user, tenant["registrationConfiguration"]["blockedDomains"]):
        raise Invalid(blocked)
    return user


async def _is_free(services: Services, tenant_id: TenantId, identity: ExternalIdentity) -> bool:
    return await services.directory.users.find_by_email(tenant_id, str(identity.email)) is None


def _merged(document: Document, changes: Document) -> Document:
    """Changes in which `data` is added to what is there."""
    if "data" not in changes:
        return changes
    return {**changes, "data": {**document.get("data", {}), **changes["data"]}}


def _profile(answered: object) -> Document:
    """What a lambda left of the user's profile; a member that it took away is None."""
    given = answered if isinstance(answered, dict) else {}
    return {name: given.get(name) for name in external_identities.PROFILE_MEMBERS}


def _with(services: Services, user: Document, changes: Document, trace: LoginTrace) -> Document:
    """The user with those of the changes that a user may have; None takes a member away."""
    shape = services.schemas["api/user.json"]
    for name, value in changes.items():
        tidy, errors = shape.examine({"user": {name: value}})
        candidate = {key: member for key, member in user.items() if key != name}
        if name in tidy["user"]:
            candidate[name] = tidy["user"][name]
        paths = [error.path for error in (*errors, *rules.problems(candidate))]
        if any(path.startswith(f"user.{name}") for path in paths):
            trace.add(f"user.{name} is left as it was: what the provider or the lambda says of it cannot be used")
        else:
            user = candidate
    return user


def _reconciled(
    services: Services, application: Document, registration: Document, answered: object, trace: LoginTrace
) -> Document:
    """The registration as a lambda left it, as far as it may be like that."""
    given = answered if isinstance(answered, dict) else {}
    changed = {name: given[name] for name in external_identities.REGISTRATION_MEMBERS if given.get(name) is not None}
    tidy, errors = services.schemas["api/registration.json"].examine({"registration": changed})
    refused = [*errors, *([] if errors else registrations.role_problems(tidy["registration"]["roles"], application))]
    if refused:
        trace.add("the registration is left as it was: " + ", ".join(error.code for error in refused))
        return registration
    kept: Document = {name: tidy["registration"][name] for name in changed}
    return {**registration, **kept, "roles": sorted(kept["roles"] if "roles" in kept else registration["roles"])}
