"""The members of stored documents that refer to documents of other collections."""

from __future__ import annotations

import dataclasses

from identity.domain.lambdas import lambdas as lambda_rules


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


_SIGNING = ("jwtConfiguration.accessTokenKeyId", "jwtConfiguration.idTokenKeyId")
_VERIFYING = ("jwtConfiguration.accessTokenVerificationKeyIds", "jwtConfiguration.idTokenVerificationKeyIds")
_RETIRED = ("private.retiredKeys.keyId",)
_WEBHOOK_KEYS = (
    "signatureConfiguration.previousSigningKeyId",
    "signatureConfiguration.signingKeyId",
    "sslCertificateKeyId",
)
_ACCESS_LIST = ("accessControlConfiguration.uiIPAccessControlListId",)
_USER_MAILS = (
    "adminTwoFactorMethodRemove",
    "emailUpdate",
    "emailVerified",
    "forgotPassword",
    "loginIdInUseOnCreate",
    "loginIdInUseOnUpdate",
    "loginNewDevice",
    "loginSuspicious",
    "passwordResetSuccess",
    "passwordUpdate",
    "passwordless",
    "setPassword",
    "twoFactorMethodAdd",
    "twoFactorMethodRemove",
)
_MAILS = (
    *(f"emailConfiguration.{name}EmailTemplateId" for name in _USER_MAILS),
    "multiFactorConfiguration.email.templateId",
)
_MESSAGES = ("multiFactorConfiguration.sms.templateId",)

TABLE = (
    Reference("tenants", (*_SIGNING, *_VERIFYING), "keys"),
    Reference("applications", (*_SIGNING, *_VERIFYING), "keys"),
    Reference("tenants", _RETIRED, "keys", until="until"),
    Reference("applications", _RETIRED, "keys", until="until"),
    Reference(
        "identity_providers",
        (
            "assertionDecryptionConfiguration.keyTransportDecryptionKeyId",
            "defaultKeyId",
            "keyId",
            "requestSigningKeyId",
            "verificationKeyIds",
        ),
        "keys",
    ),
    Reference("identity_providers", ("lambdaConfiguration.reconcileId",), "lambdas"),
    Reference("webhooks", _WEBHOOK_KEYS, "keys"),
    Reference("messengers", ("sslCertificateId",), "keys"),
    Reference("tenants", ("multiFactorConfiguration.sms.messengerId",), "messengers"),
    Reference("tenants", _MESSAGES, "message_templates"),
    Reference("applications", _MESSAGES, "message_templates"),
    Reference("api_keys", ("ipAccessControlListId",), "ip_access_control_lists"),
    Reference("tenants", _ACCESS_LIST, "ip_access_control_lists"),
    Reference("applications", _ACCESS_LIST, "ip_access_control_lists"),
    Reference("tenants", ("failedAuthenticationConfiguration.userActionId",), "user_actions"),
    Reference(
        "tenants",
        (
            *_MAILS,
            "emailConfiguration.verificationEmailTemplateId",
            "familyConfiguration.confirmChildEmailTemplateId",
            "familyConfiguration.familyRequestEmailTemplateId",
            "familyConfiguration.parentRegistrationEmailTemplateId",
            "passwordValidationRules.breachDetection.notifyUserEmailTemplateId",
        ),
        "email_templates",
    ),
    Reference(
        "applications",
        (*_MAILS, "emailConfiguration.emailVerificationEmailTemplateId", "verificationEmailTemplateId"),
        "email_templates",
    ),
    Reference("consents", ("consentEmailTemplateId", "emailPlus.emailTemplateId"), "email_templates"),
    Reference(
        "user_actions",
        ("cancelEmailTemplateId", "endEmailTemplateId", "modifyEmailTemplateId", "startEmailTemplateId"),
        "email_templates",
    ),
    Reference("tenants", tuple(lambda_rules.REFERENCES["tenant"]), "lambdas"),
    Reference("applications", tuple(lambda_rules.REFERENCES["application"]), "lambdas"),
    Reference("tenants", ("themeId",), "themes"),
    Reference("applications", ("themeId",), "themes"),
    Reference("entity_types", _RETIRED, "keys", until="until"),
    Reference(
        "entity_types", ("jwtConfiguration.accessTokenKeyId", "jwtConfiguration.accessTokenVerificationKeyIds"), "keys"
    ),
    Reference("entities", ("type.id",), "entity_types"),
    Reference("entities", ("parentId",), "entities"),
)


def members_of(source: str) -> tuple[str, ...]:
    """Return the members of a collection's documents that refer to others, which need an index."""
    return tuple(member for row in TABLE if row.source == source for member in row.members)
