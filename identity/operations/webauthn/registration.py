"""Registration of passkeys: options for the browser, and the verification of its response (WebAuthn section 7.1)."""

from __future__ import annotations

import dataclasses
import functools

from identity.call import Call, Document
from identity.domain.users import users as user_rules
from identity.domain.webauthn import ceremonies, credentials, relying_party, workflows
from identity.domain.webauthn.ceremonies import Expected
from identity.errors import Duplicate, Invalid, NotFound
from identity.events.changes import Change
from identity.ids import TenantId
from identity.operations.groups import administrators
from identity.operations.objects import user_lookup
from identity.operations.webauthn import challenges, relying_parties
from identity.operations.webauthn.challenges import Ceremony, Challenge
from identity.operations.webauthn.rejections import log_rejection
from identity.services import Services

_START = "api/webauthn-register-start.request.json"
_COMPLETE = "api/webauthn-register-complete.request.json"


@dataclasses.dataclass(frozen=True, slots=True)
class NewPasskey:
    """What a user registers: the display name, the name and the user agent of the browser."""

    display_name: str
    name: str | None = None
    user_agent: str | None = None


async def start(services: Services, call: Call, body: Document) -> Document:
    """Return the `options` to create a passkey. Raises Invalid, and Unauthorized for a protected administrator."""
    request = services.schemas[_START].read(body)
    user = await _get_user(services, call, request["userId"])
    await administrators.require_authority(services, call, user)
    tenant = await services.configuration.tenants.get_cached(None, TenantId(user["tenantId"]))
    passkey = NewPasskey(request["displayName"], request.get("name"), request.get("userAgent"))
    party = relying_party.configured_id(tenant)
    return {"options": await begin(services, tenant, user, request["workflow"], passkey, party)}


async def complete(services: Services, call: Call, body: Document) -> Document:
    """Verify the response of the browser, and return the stored `credential`. Raises Invalid."""
    request = services.schemas[_COMPLETE].read(body)
    challenge = await challenges.consume(
        services, call.tenant_id, "registration", request["credential"]["response"]["clientDataJSON"]
    )
    if challenge.user_id != request["userId"].lower():
        raise Invalid.field("invalid", "userId", "The registration was started for another user.")
    relying_parties.require(challenge.tenant, request)
    return {"credential": await finish(services, call, challenge, request)}


async def begin(
    services: Services,
    tenant: Document,
    user: Document,
    workflow_name: str,
    passkey: NewPasskey,
    relying_party_id: str | None,
    *,
    ceremony: Ceremony = "registration",
    session: str | None = None,
) -> Document:
    """Return the options to create a passkey; without a relying party id, for the domain of the page.

    A `session` is stored with the challenge, for the page that completes the registration.

    Raises Invalid if the tenant disables passkeys, or the user has too many.
    """
    workflow = workflows.effective(tenant, None, workflow_name)
    if not workflows.is_enabled(tenant):
        raise Invalid.whole("[WebAuthnDisabled]", "The tenant does not enable passkeys.")
    existing = await services.directory.webauthn_credentials.find_of_user(TenantId(tenant["id"]), user["id"])
    if len(existing) >= credentials.MAXIMUM_PER_USER:
        message = f"A user may have {credentials.MAXIMUM_PER_USER} passkeys."
        raise Invalid.field("tooMany", "userId", message)
    names = {"displayName": passkey.display_name, "name": passkey.name or _default_name(user)}
    settings = {
        "names": names,
        "userAgent": passkey.user_agent,
        "session": session,
        "requiresUserVerification": workflow.user_verification == workflows.REQUIRED,
    }
    challenge = await challenges.issue(services, tenant, ceremony, user["id"], settings)
    return credentials.creation_options(
        tenant,
        workflow,
        relying_party_id,
        resident_key="required" if ceremony == "hosted-registration" else "preferred",
        user_id=user["id"],
        challenge=challenge,
        names=names,
        existing=existing,
    )


async def finish(
    services: Services, call: Call, challenge: Challenge, request: Document, *, display_name: str | None = None
) -> Document:
    """Verify a response with its challenge, whose user and relying party were checked; store the credential.

    `display_name` replaces that of the start.

    Raises Invalid, also if the passkey is registered already.
    """
    expected = Expected(
        challenge.value, request["origin"], request["rpId"], challenge.settings["requiresUserVerification"]
    )
    response = request["credential"]
    try:
        verified = ceremonies.verify_registration(response, expected)
    except Invalid as error:
        await log_rejection(services, call, challenge.tenant, challenge.user_id, error)
        raise
    user = await services.directory.users.find(challenge.tenant_id, challenge.user_id)
    if user is None:
        raise NotFound(log_detail="the user of a registration was deleted")
    members = {
        **challenge.settings["names"],
        "discoverable": response.get("clientExtensionResults", {}).get("credProps", {}).get("rk", False),
        "transports": response.get("transports", []),
        "userAgent": challenge.settings.get("userAgent"),
    }
    if display_name is not None:
        members["displayName"] = display_name
    stored = {name: value for name, value in members.items() if value is not None}
    credential = credentials.build(verified, user["tenantId"], user["id"], request["rpId"], call.now, stored)
    insert = functools.partial(services.directory.webauthn_credentials.insert, challenge.tenant_id, credential)
    try:
        await services.bus.commit(call.within(challenge.tenant_id), Change([insert]))
    except Duplicate as error:
        raise Invalid.field("duplicate", "credential.id", "The passkey is registered already.") from error
    return credential


async def _get_user(services: Services, call: Call, user_id: str) -> Document:
    try:
        return await user_lookup.retrieve(services, call, user_id)
    except NotFound as error:
        raise Invalid.field("invalid", "userId", "The [userId] must name a user of the tenant.") from error


def _default_name(user: Document) -> str:
    """Return the email address of a user or, without one, another login id."""
    login_ids = user_rules.login_ids(user)
    return str(login_ids.get("email") or login_ids.get("username") or next(iter(login_ids.values()), user["id"]))
