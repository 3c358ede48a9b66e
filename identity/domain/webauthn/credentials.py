"""Stored credentials, and the options that browsers get about them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from identity.call import Document
from identity.domain.objects.external_identifiers import Lifetimes
from identity.domain.webauthn import public_keys, relying_party
from identity.domain.webauthn.ceremonies import NewCredential
from identity.domain.webauthn.workflows import REQUIRED, Workflow
from identity.ids import base64url, new_id
from identity.instants import Instant

TYPE: Final = "public-key"
MAXIMUM_PER_USER: Final = 100


def user_handle(user_id: str) -> str:
    """Return the user handle of an authenticator: the id of the user, in base64url."""
    return base64url(user_id.encode())


def build(
    new: NewCredential, tenant_id: str, user_id: str, relying_party_id: str, now: Instant, members: Document
) -> Document:
    """Return a new credential as it is stored.

    `members` are its displayName, name, userAgent, transports and whether it is discoverable.
    """
    return {
        "id": new_id(),
        "tenantId": tenant_id,
        "userId": user_id,
        "credentialId": new.credential_id,
        "relyingPartyId": relying_party_id,
        "publicKey": new.public_key,
        "algorithm": new.algorithm,
        "attestationType": new.attestation_type,
        "authenticatorSupportsUserVerification": new.is_user_verified,
        "backupEligible": new.is_backup_eligible,
        "backedUp": new.is_backed_up,
        "signCount": new.sign_count,
        "insertInstant": now,
        "lastUseInstant": now,
        "lastUpdateInstant": now,
        **members,
    }


def descriptors(credentials: Iterable[Document]) -> list[Document]:
    """Return the PublicKeyCredentialDescriptors of credentials (section 5.8.3)."""
    return [_descriptor(credential) for credential in credentials]


def _descriptor(credential: Document) -> Document:
    transports = credential.get("transports")
    hints = {"transports": transports} if transports else {}
    return {"type": TYPE, "id": credential["credentialId"], **hints}


def usable(credentials: Iterable[Document], workflow: Workflow, relying_party_id: str | None) -> list[Document]:
    """Return the credentials that can complete a workflow; None as relying party accepts those of each."""
    return [
        credential
        for credential in credentials
        if relying_party_id in {None, credential["relyingPartyId"]}
        and (workflow.user_verification != REQUIRED or credential["authenticatorSupportsUserVerification"])
    ]


def creation_options(
    tenant: Document,
    workflow: Workflow,
    relying_party_id: str | None,
    *,
    user_id: str,
    challenge: str,
    names: Document,
    existing: Iterable[Document],
    resident_key: str,
) -> Document:
    """Return the PublicKeyCredentialCreationOptions (section 5.4); `names` are the displayName and name.

    `resident_key`: whether the credential should be discoverable: required or preferred.
    """
    selection: Document = {
        "residentKey": resident_key,
        "requireResidentKey": resident_key == "required",
        "userVerification": workflow.user_verification,
    }
    if workflow.attachment is not None:
        selection["authenticatorAttachment"] = workflow.attachment
    party: Document = {"name": relying_party.name_of(tenant)}
    if relying_party_id is not None:
        party["id"] = relying_party_id
    return {
        "attestation": "none",
        "authenticatorSelection": selection,
        "challenge": challenge,
        "excludeCredentials": descriptors(existing),
        "extensions": {"credProps": True},
        "pubKeyCredParams": [{"type": TYPE, "alg": algorithm} for algorithm in public_keys.ALGORITHMS],
        "rp": party,
        "timeout": Lifetimes.of(tenant).passkey_registration_seconds * 1000,
        "user": {"id": user_handle(user_id), **names},
    }


def request_options(
    tenant: Document,
    workflow: Workflow,
    relying_party_id: str | None,
    *,
    challenge: str,
    allowed: Iterable[Document],
) -> Document:
    """Return the PublicKeyCredentialRequestOptions (section 5.5); without `allowed`, for discoverable credentials."""
    options: Document = {
        "allowCredentials": descriptors(allowed),
        "challenge": challenge,
        "timeout": Lifetimes.of(tenant).passkey_login_seconds * 1000,
        "userVerification": workflow.user_verification,
    }
    return options if relying_party_id is None else {**options, "rpId": relying_party_id}
