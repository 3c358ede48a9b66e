"""Resolution of an external identity without a link to a user, and the claims that update the user."""

from __future__ import annotations

import dataclasses

from identity.call import Call, Document
from identity.domain.objects.owner_settings import EmailVerification
from identity.domain.providers import external_identities
from identity.domain.providers.external_identities import ExternalIdentity
from identity.domain.providers.identity_providers import RECONCILE_LAMBDAS, is_email_trusted, manages
from identity.domain.providers.social_providers import PROVIDERS, missing_profile
from identity.domain.users import registrations
from identity.domain.users import users as user_rules
from identity.errors import Invalid, NotFound, Unauthorized
from identity.ids import TenantId, UserId, new_id
from identity.operations.clients.clients import Client
from identity.operations.lambdas import lambdas
from identity.operations.providers.login_trace import LoginTrace
from identity.operations.users import new_users
from identity.services import Services

_BY_EMAIL = frozenset({"LinkByEmail", "LinkByEmailForExistingUser"})
_BY_USERNAME = frozenset({"LinkByUsername", "LinkByUsernameForExistingUser"})
_CREATE_USER = frozenset({"LinkAnonymously", "LinkByEmail", "LinkByUsername"})


@dataclasses.dataclass(frozen=True, slots=True)
class ResolvedUser:
    """A user after a login: `stored` is None for a new one, `registration` is a new registration."""

    user: Document
    stored: Document | None
    registration: Document | None


async def find_or_build(
    services: Services, call: Call, tenant: Document, provider: Document, identity: ExternalIdentity
) -> tuple[Document, bool]:
    """Return the user to link an identity to, and whether the user is new.

    Raises NotFound if the strategy finds no user and creates none, Unauthorized if a claim that it requires is missing,
    Invalid for a blocked email domain.
    """
    strategy, tenant_id = provider["linkingStrategy"], TenantId(tenant["id"])
    user = None
    if strategy in _BY_EMAIL:
        _require_email(provider, identity)
        user = await services.directory.users.find_by_email(tenant_id, str(identity.email))
    elif strategy in _BY_USERNAME:
        if identity.username is None:
            raise Unauthorized(log_detail="the claims have no username")
        user = await services.directory.users.find_by_username(tenant_id, identity.username)
    if user is not None:
        return user, False
    if strategy not in _CREATE_USER:
        raise NotFound(log_detail=f"no user is linked, and {strategy} creates none")
    return await _new_user(services, call, tenant, provider, identity), True


async def apply_claims(
    services: Services,
    call: Call,
    provider: Document,
    client: Client,
    resolved: ResolvedUser,
    identity: ExternalIdentity,
    trace: LoginTrace,
) -> ResolvedUser:
    """Apply claim map and reconcile lambda to the user and the registration. Raises LambdaFailed."""
    application = client.application
    registration = resolved.registration or user_rules.find_registration(resolved.user, application["id"])
    user_members, registration_members = external_identities.map_claims(provider.get("claimMap", {}), identity.claims)
    row = PROVIDERS.get(provider["type"])
    if row is not None:
        user_members = missing_profile(row, resolved.user, identity.claims)
    user = _with_valid_members(services, resolved.user, _merge_data(resolved.user, user_members), trace)
    registered = None if registration is None else {**registration, **_merge_data(registration, registration_members)}
    lambda_id = provider["lambdaConfiguration"].get("reconcileId")
    if lambda_id is not None:
        arguments = [
            user_rules.without_secrets(user),
            registrations.without_secrets(registered or {}),
            *identity.lambda_arguments,
        ]
        results = await lambdas.invoke(services, call, lambda_id, RECONCILE_LAMBDAS[provider["type"]], *arguments)
        user = _with_valid_members(services, user, _profile(results[0]), trace)
        if identity.email is None and "email" not in user:
            user = await _with_email_of_lambda(services, call, client.tenant, provider, user, results[0], trace)
        if registered is not None:
            registered = _reconcile_registration(services, application, registered, results[1], trace)
    if registered is not None:
        user = registrations.with_registration(user, registered)
    return dataclasses.replace(resolved, user=user, registration=registered if resolved.registration else None)


async def _with_email_of_lambda(
    services: Services,
    call: Call,
    tenant: Document,
    provider: Document,
    user: Document,
    result: object,
    trace: LoginTrace,
) -> Document:
    """Return the user with the address that a lambda set, for a provider that states none.

    The address is verified only if the provider has `trustEmail`: a claim that its user chose may be its source. It
    leads to no other user, and is ignored if another one has it.
    """
    given = result.get("email") if isinstance(result, dict) else None
    if given is None:
        return user
    changed = _with_valid_members(services, user, {"email": given}, trace)
    email = changed.get("email")
    if email is None:
        return user
    blocked = user_rules.blocked_domain_problems(changed, tenant["registrationConfiguration"]["blockedDomains"])
    is_taken = await services.directory.users.find_by_email(TenantId(tenant["id"]), email) is not None
    if blocked or is_taken or not manages(provider, email):
        trace.add("user.email is unchanged: its domain is blocked or not managed, or another user has the address")
        return user
    unverified = "Pending" if EmailVerification.of(tenant).verify_email else "Disabled"
    reason = "Trusted" if is_email_trusted(provider, None) else unverified
    return user_rules.with_verified_reason(changed, reason, call.now)


def links_by_email(provider: Document) -> bool:
    """Return whether the linking strategy finds users by email address."""
    return provider["linkingStrategy"] in _BY_EMAIL


def _require_email(provider: Document, identity: ExternalIdentity) -> None:
    """Require a verified address: an unverified one may belong to another person."""
    if identity.email is None:
        raise Unauthorized(log_detail="the claims have no email")
    if not is_email_trusted(provider, identity.is_email_verified):
        raise Unauthorized(log_detail="the provider has not verified the email, and does not have trustEmail set")


async def _new_user(
    services: Services, call: Call, tenant: Document, provider: Document, identity: ExternalIdentity
) -> Document:
    tenant_id, strategy = TenantId(tenant["id"]), provider["linkingStrategy"]
    members: Document = {}
    if strategy == "LinkByUsername":
        members["username"] = identity.username
    is_trusted = identity.email is not None and is_email_trusted(provider, identity.is_email_verified)
    is_unused = is_trusted and await services.directory.users.find_by_email(tenant_id, str(identity.email)) is None
    if strategy == "LinkByEmail" or (strategy == "LinkByUsername" and is_unused):
        members["email"] = identity.email
    request = services.schemas["api/user.json"].read({"user": members})
    user = user_rules.normalize_phone_number(
        user_rules.build_user(request["user"], UserId(new_id()), tenant_id, call.now)
    )
    user = await new_users.assign_unique_username(services, tenant, user)
    user = user_rules.with_verified_reason(user, "Trusted" if "email" in user else "Disabled", call.now)
    if blocked := user_rules.blocked_domain_problems(user, tenant["registrationConfiguration"]["blockedDomains"]):
        raise Invalid(blocked)
    return user


def _merge_data(document: Document, changes: Document) -> Document:
    """Return changes whose `data` is merged with the existing one."""
    if "data" not in changes:
        return changes
    return {**changes, "data": {**document.get("data", {}), **changes["data"]}}


def _profile(result: object) -> Document:
    """Return the profile that a lambda returned; removed members are None."""
    members = result if isinstance(result, dict) else {}
    return {name: members.get(name) for name in external_identities.PROFILE_MEMBERS}


def _with_valid_members(services: Services, user: Document, changes: Document, trace: LoginTrace) -> Document:
    """Return the user with the valid ones of the changes; None removes a member."""
    schema = services.schemas["api/user.json"]
    for name, value in changes.items():
        read, errors = schema.examine({"user": {name: value}})
        candidate = {key: member for key, member in user.items() if key != name}
        if name in read["user"]:
            candidate[name] = read["user"][name]
        paths = [error.path for error in (*errors, *user_rules.problems(candidate))]
        if any(path.startswith(f"user.{name}") for path in paths):
            trace.add(f"user.{name} is unchanged: the value of the provider or lambda is invalid")
        else:
            user = candidate
    return user


def _reconcile_registration(
    services: Services, application: Document, registration: Document, result: object, trace: LoginTrace
) -> Document:
    """Return the registration with the members that a lambda returned, or unchanged if they are invalid."""
    members = result if isinstance(result, dict) else {}
    changed = {
        name: members[name] for name in external_identities.REGISTRATION_MEMBERS if members.get(name) is not None
    }
    read, errors = services.schemas["api/registration.json"].examine({"registration": changed})
    invalid = [*errors, *([] if errors else registrations.role_problems(read["registration"]["roles"], application))]
    if invalid:
        trace.add("the registration is unchanged: " + ", ".join(error.code for error in invalid))
        return registration
    valid: Document = {name: read["registration"][name] for name in changed}
    return {**registration, **valid, "roles": sorted(valid["roles"] if "roles" in valid else registration["roles"])}
