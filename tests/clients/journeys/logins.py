"""The journey's third part: users log in, get tokens, verify themselves, and administrators read the reports."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from identity.ids import new_id
from identity.instants import Instant
from tests.authenticator import RELYING_PARTY, Passkey
from tests.clients.journeys.clients import Answer, Journey
from tests.clients.journeys.configuration import search
from tests.clients.journeys.users import create
from tests.fake_provider import make_key, signed
from tests.mailbox import Mailbox
from tests.relying_party import PASSWORD, REDIRECT_URI, VERIFIER
from tests.two_factor import code as totp_code

Document = dict[str, Any]
NEW_PASSWORD = "another long battery"
Begin = Callable[[Document], Awaitable[str]]
LocalTime = Callable[[], Instant]


async def log_in(call: Journey, user: Answer, application_id: str, **members: Any) -> Answer:
    request = {"loginId": user["email"], "password": PASSWORD, "applicationId": application_id, **members}
    return await call("login", request=request)


async def logins(call: Journey, user: Answer, application: Answer) -> None:
    """Log in, keep alive, issue and validate tokens, refresh, revoke and log out."""
    application_id, user_id = application["id"], user["id"]
    first = await log_in(
        call, user, application_id, ipAddress="192.0.2.7", metaData={"device": {"name": "Phone", "type": "MOBILE"}}
    )
    await call("loginPing", userId=user_id, applicationId=application_id, callerIPAddress="192.0.2.7")
    await call("loginPingWithRequest", request={"userId": user_id, "applicationId": application_id})
    await call("validateJWT", encodedJWT=first["token"])
    await call("retrieveUserUsingJWT", encodedJWT=first["token"])
    await call("exchangeRefreshTokenForJWT", request={"refreshToken": first["refreshToken"], "token": first["token"]})
    other = (
        await call("createApplication", applicationId=None, request={"application": {"name": f"Blog {new_id()}"}})
    )["application"]
    await call("register", userId=user_id, request={"registration": {"applicationId": other["id"]}})
    await call("issueJWT", applicationId=other["id"], encodedJWT=first["token"], refreshToken=first["refreshToken"])
    await call("vendJWT", request={"claims": {"a": 1}, "timeToLiveInSeconds": 60})
    await call("retrieveJWTPublicKeyByApplicationId", applicationId=application_id)
    published = await call("retrieveJsonWebKeySet")
    for key in (published["keys"] or [])[:1]:
        await call("retrieveJWTPublicKey", keyId=key["kid"])
    await call("retrieveRefreshTokens", userId=user_id)
    await call("retrieveRefreshTokenById", tokenId=first["refreshTokenId"])
    await revocations(call, user, application_id)
    await call("logout", **{"global": False, "refreshToken": first["refreshToken"]})
    last = await log_in(call, user, application_id)
    await call("logoutWithRequest", request={"global": True, "refreshToken": last["refreshToken"]})


async def revocations(call: Journey, user: Answer, application_id: str) -> None:
    """Revoke refresh tokens in every form."""
    fresh = await log_in(call, user, application_id)
    await call("revokeRefreshToken", token=fresh["refreshToken"], userId=None, applicationId=None)
    fresh = await log_in(call, user, application_id)
    await call("revokeRefreshTokenById", tokenId=fresh["refreshTokenId"])
    fresh = await log_in(call, user, application_id)
    await call("revokeRefreshTokenByToken", token=fresh["refreshToken"])
    fresh = await log_in(call, user, application_id)
    await call("revokeRefreshTokensWithRequest", request={"token": fresh["refreshToken"]})
    await call("revokeRefreshTokensByUserIdForApplication", userId=user["id"], applicationId=application_id)
    await call("revokeRefreshTokensByUserId", userId=user["id"])
    await call("revokeRefreshTokensByApplicationId", applicationId=application_id)


async def passwordless(call: Journey, user: Answer, application_id: str) -> None:
    """Log in by a link in a mail."""
    request = {"applicationId": application_id, "loginId": user["email"], "state": {"client_id": application_id}}
    started = await call("startPasswordlessLogin", request=request)
    await call("sendPasswordlessCode", request={"code": started["code"]})
    await call("passwordlessLogin", request={"code": started["code"], "ipAddress": "192.0.2.7"})


async def passwords(call: Journey, application_id: str) -> None:
    """Reset and change passwords in every form."""
    user = await create(call)
    forgotten = {"loginId": user["email"], "sendForgotPasswordEmail": True, "state": {"a": "b"}}
    changing = (await call("forgotPassword", request=forgotten))["changePasswordId"]
    await call("retrieveUserByChangePasswordId", changePasswordId=changing)
    await call("checkChangePasswordUsingId", changePasswordId=changing)
    await call("checkChangePasswordUsingIdAndIPAddress", changePasswordId=changing, ipAddress="192.0.2.7")
    await call("changePassword", changePasswordId=changing, request={"password": NEW_PASSWORD})
    login_id = {"loginId": user["email"]}
    await call("checkChangePasswordUsingLoginId", **login_id)
    await call("checkChangePasswordUsingLoginIdAndIPAddress", **login_id, ipAddress="192.0.2.7")
    await call("checkChangePasswordUsingLoginIdAndLoginIdTypes", **login_id, loginIdTypes=["email"])
    await call(
        "checkChangePasswordUsingLoginIdAndLoginIdTypesAndIPAddress",
        **login_id,
        loginIdTypes=["email"],
        ipAddress="192.0.2.7",
    )
    await call("changePasswordByIdentity", request={**login_id, "currentPassword": NEW_PASSWORD, "password": PASSWORD})
    await call("register", userId=user["id"], request={"registration": {"applicationId": application_id}})
    token = (await log_in(call, user, application_id))["token"]
    await call("checkChangePasswordUsingJWT", encodedJWT=token)
    await call("checkChangePasswordUsingJWTAndIPAddress", encodedJWT=token, ipAddress="192.0.2.7")
    await call(
        "changePasswordUsingJWT", encodedJWT=token, request={"currentPassword": PASSWORD, "password": NEW_PASSWORD}
    )
    if call.has("changePasswordUsingJWT"):
        token = (await log_in(call, user, application_id, password=NEW_PASSWORD))["token"]
        await call(
            "changePasswordByJWT", encodedJWT=token, request={"currentPassword": NEW_PASSWORD, "password": PASSWORD}
        )


async def verifications(call: Journey) -> None:
    """Verify email addresses, registrations and identities in every form."""

    async def unverified() -> Answer:
        request = {"user": {"email": f"{new_id()}@example.com", "password": PASSWORD}}
        return await call("createUser", userId=None, request=request)

    first, second, third = await unverified(), await unverified(), await unverified()
    email = first["user"]["email"]
    await call("retrieveUserByVerificationId", verificationId=first["emailVerificationId"])
    await call("resendEmailVerification", email=email)
    generated = (await call("generateEmailVerificationId", email=email))["verificationId"]
    await call("verifyEmailAddress", request={"verificationId": generated})
    await call("verifyEmail", verificationId=second["emailVerificationId"])
    await call("verifyEmailAddressByUserId", request={"userId": third["user"]["id"]})
    await identities(call, unverified)
    await registrations(call, await create(call))


async def identities(call: Journey, unverified: Callable[[], Awaitable[Answer]]) -> None:
    """Verify identities, which replace addresses in newer releases."""
    if not call.has("startVerifyIdentity"):
        return
    first, second = (await unverified())["user"], (await unverified())["user"]
    await call("verifyIdentity", request={"loginId": first["email"], "loginIdType": "email"})
    started = await call(
        "startVerifyIdentity",
        request={"loginId": second["email"], "loginIdType": "email", "verificationStrategy": "ClickableLink"},
    )
    await call("sendVerifyIdentity", request={"verificationId": started["verificationId"]})
    await call("completeVerifyIdentity", request=started)


async def registrations(call: Journey, user: Answer) -> None:
    """Verify registrations of an application that requires it."""
    template = (await call("retrieveEmailTemplates"))["emailTemplates"][0]["id"]
    wanted = {"name": f"Verified {new_id()}", "verifyRegistration": True, "verificationEmailTemplateId": template}
    application_id = (await call("createApplication", applicationId=None, request={"application": wanted}))[
        "application"
    ]["id"]
    started = await call("register", userId=user["id"], request={"registration": {"applicationId": application_id}})
    await call("verifyRegistration", verificationId=started["registrationVerificationId"])
    other = await create(call)
    await call("register", userId=other["id"], request={"registration": {"applicationId": application_id}})
    named = {"email": other["email"], "applicationId": application_id}
    await call("resendRegistrationVerification", **named)
    generated = await call("generateRegistrationVerificationId", **named)
    await call("verifyUserRegistration", request={"verificationId": generated["verificationId"]})
    await call(
        "resendEmailVerificationWithApplicationTemplate",
        applicationId=application_id,
        email=(await create(call))["email"],
    )


async def two_factor(call: Journey, application_id: str, box: Mailbox, now: LocalTime) -> None:
    """Enable an authenticator and codes by email, log in with them, and disable them."""
    user = await create(call)
    user_id = user["id"]
    await call("register", userId=user_id, request={"registration": {"applicationId": application_id}})
    token = (await log_in(call, user, application_id))["token"]
    await call("generateTwoFactorSecretUsingJWT", encodedJWT=token)
    secret = await call("generateTwoFactorSecret")
    code = totp_code(now(), secret=secret["secret"])
    await call(
        "enableTwoFactor", userId=user_id, request={"method": "authenticator", "secret": secret["secret"], "code": code}
    )
    await call("retrieveTwoFactorRecoveryCodes", userId=user_id)
    recovery_codes = (await call("generateTwoFactorRecoveryCodes", userId=user_id))["recoveryCodes"]
    method = (await call("retrieveUser", userId=user_id))["user"]["twoFactor"]["methods"][0]
    await call("updateTwoFactor", userId=user_id, request={"methodId": method["id"], "name": "Phone"})
    waiting = await log_in(call, user, application_id)
    code = totp_code(now(), secret=secret["secret"], steps=1)
    request = {
        "twoFactorId": waiting["twoFactorId"],
        "code": code,
        "applicationId": application_id,
        "trustComputer": True,
    }
    trust = (await call("twoFactorLogin", request=request))["twoFactorTrustId"]
    await log_in(call, user, application_id, twoFactorTrustId=trust)
    await call("retrieveTwoFactorStatus", userId=user_id, applicationId=application_id, twoFactorTrustId=trust)
    await call(
        "retrieveTwoFactorStatusWithRequest",
        request={"userId": user_id, "applicationId": application_id, "twoFactorTrustId": trust},
    )
    await call("startTwoFactorLogin", request={"userId": user_id, "applicationId": application_id, "state": {"a": "b"}})
    await call("disableTwoFactor", userId=user_id, methodId=method["id"], code=recovery_codes[0])
    await codes_by_email(call, user, application_id, box)


async def codes_by_email(call: Journey, user: Answer, application_id: str, box: Mailbox) -> None:
    """Enable codes by email, log in with one, and disable them."""
    user_id = user["id"]

    async def mailed(method: str, **arguments: Any) -> str:
        count = len(box.mails)
        await call(method, **arguments)
        return str((await box.wait_for(count + 1))[-1].part("plain").strip())

    address = {"method": "email", "email": f"{new_id()}@example.com"}
    code = await mailed("sendTwoFactorCodeForEnableDisable", request={"userId": user_id, **address})
    await call("enableTwoFactor", userId=user_id, request={**address, "code": code})
    waiting = await log_in(call, user, application_id)
    method_id = waiting["methods"][0]["id"]
    two_factor_id = waiting["twoFactorId"]
    code = await mailed(
        "sendTwoFactorCodeForLoginUsingMethod", twoFactorId=two_factor_id, request={"methodId": method_id}
    )
    await call("twoFactorLogin", request={"twoFactorId": two_factor_id, "code": code, "applicationId": application_id})
    await mailed("sendTwoFactorCodeForLogin", twoFactorId=(await log_in(call, user, application_id))["twoFactorId"])
    code = await mailed("sendTwoFactorCode", request={"userId": user_id, "methodId": method_id})
    await call("disableTwoFactorWithRequest", userId=user_id, request={"methodId": method_id, "code": code})


async def passkeys(call: Journey, user: Answer, application_id: str) -> None:
    """Register, use, import and delete passkeys."""
    passkey, user_id = Passkey(), user["id"]
    wanted = {"userId": user_id, "displayName": "Phone", "workflow": "bootstrap"}
    options = (await call("startWebAuthnRegistration", request=wanted))["options"]
    credential = (await call("completeWebAuthnRegistration", request={**passkey.create(options), "userId": user_id}))[
        "credential"
    ]
    await call("retrieveWebAuthnCredential", id=credential["id"])
    for method in ("completeWebAuthnLogin", "completeWebAuthnAssertion"):
        started = await call(
            "startWebAuthnLogin", request={"userId": user_id, "applicationId": application_id, "workflow": "bootstrap"}
        )
        await call(method, request=passkey.get(started["options"]))
    await call("deleteWebAuthnCredential", id=credential["id"])
    other = Passkey()
    imported = {
        "algorithm": other.algorithm, "credentialId": other.id, "displayName": "Key",
        "name": "imported", "publicKey": other.pem(),
        "relyingPartyId": RELYING_PARTY, "userId": user_id, "signCount": 0,
    }  # fmt: skip
    await call("importWebAuthnCredential", request={"credentials": [imported]})
    await call("retrieveWebAuthnCredentialsForUser", userId=user_id)
    await call("deleteWebAuthnCredentialsForUser", userId=user_id)


async def oauth(
    call: Journey, user: Answer, application: Answer, code: Callable[..., Awaitable[str]], begin_device: Begin
) -> None:
    """Exchange codes, passwords and refresh tokens, and introspect the tokens."""
    client = {"client_id": application["id"], "client_secret": application["oauthConfiguration"]["clientSecret"]}
    with_secret = {**client, "redirect_uri": REDIRECT_URI}
    await call("exchangeOAuthCodeForAccessToken", code=await code(), **with_secret)
    proven = {**with_secret, "code_verifier": VERIFIER}
    await call("exchangeOAuthCodeForAccessTokenUsingPKCE", code=await code(pkce=True), **proven)
    request: Document = {**with_secret, "grant_type": "authorization_code", "tenantId": call.tenant_id}
    if call.has("exchangeOAuthCodeForAccessTokenWithRequest"):
        await call("exchangeOAuthCodeForAccessTokenWithRequest", request={**request, "code": await code()})
        request = {**request, "code": await code(pkce=True), "code_verifier": VERIFIER}
        await call("exchangeOAuthCodeForAccessTokenUsingPKCEWithRequest", request=request)
    scope = "openid offline_access"
    credentials = {"username": user["email"], "password": PASSWORD}
    tokens = await call("exchangeUserCredentialsForAccessToken", **credentials, **client, scope=scope, user_code=None)
    asked = {**client, "tenantId": call.tenant_id}
    request = {**asked, **credentials, "grant_type": "password", "scope": scope}
    await call("exchangeUserCredentialsForAccessTokenWithRequest", request=request)
    value = tokens["refresh_token"]
    await call("exchangeRefreshTokenForAccessToken", refresh_token=value, **client, scope=None, user_code=None)
    await call(
        "exchangeRefreshTokenForAccessTokenWithRequest",
        request={**asked, "grant_type": "refresh_token", "refresh_token": value},
    )
    await call("retrieveUserInfoFromAccessToken", encodedJWT=tokens["access_token"])
    await public_introspection(call, client["client_id"], tokens["access_token"])
    await devices(call, client, tokens["access_token"], begin_device)


async def public_introspection(call: Journey, application_id: str, token: str) -> None:
    """Introspect a token of a public client: the methods have no place for a secret."""

    async def authenticate(policy: str) -> None:
        oauth = {"clientAuthenticationPolicy": policy, "requireClientAuthentication": policy == "Required"}
        request = {"application": {"oauthConfiguration": oauth}}
        await call("patchApplication", applicationId=application_id, request=request)

    await authenticate("NotRequired")
    await call("introspectAccessToken", client_id=application_id, token=token)
    request = {"client_id": application_id, "tenantId": call.tenant_id, "token": token}
    await call("introspectAccessTokenWithRequest", request=request)
    await authenticate("Required")


async def devices(call: Journey, client: Document, token: str, begin: Begin) -> None:
    """Begin, look at and approve logins on devices; older releases have no method for the beginning."""
    started = await call("deviceAuthorize", **client, scope="openid")
    user_code = started["user_code"] or await begin(client)
    await call("retrieveUserCode", **client, user_code=user_code)
    await call("retrieveUserCodeUsingAPIKey", user_code=user_code)
    await call("validateDevice", user_code=user_code, client_id=client["client_id"])
    await call("approveDevice", **client, token=token, user_code=user_code)
    asked = {**client, "tenantId": call.tenant_id}
    started = await call("deviceAuthorizeWithRequest", request={**asked, "scope": "openid"})
    shown = {**asked, "user_code": started["user_code"]}
    await call("retrieveUserCodeWithRequest", request=shown)
    await call(
        "retrieveUserCodeUsingAPIKeyWithRequest",
        request={"tenantId": call.tenant_id, "user_code": started["user_code"]},
    )
    await call("validateDeviceWithRequest", request=shown)
    await call("approveDeviceWithRequest", request={**shown, "token": token})


async def external_users(call: Journey, application_id: str, now: LocalTime) -> None:
    """Log in through an identity provider, and manage the links."""
    key = await make_key("ES256", kid=f"theirs-{new_id()}")
    subject, pending = new_id(), new_id()
    expiry = now() // 1000 + 300
    first, second = [
        await signed(key, {"sub": sub, "email": f"{sub}@example.com", "email_verified": True, "exp": expiry})
        for sub in (subject, pending)
    ]
    public = {
        "name": f"Theirs {new_id()}",
        "type": "EC",
        "algorithm": "ES256",
        "kid": key["kid"],
        "publicKey": key["publicKey"],
    }
    key_id = (await call("importKey", keyId=None, request={"key": public}))["key"]["id"]
    wanted = {
        "type": "ExternalJWT", "name": f"External {new_id()}", "enabled": True, "defaultKeyId": key_id,
        "headerKeyParameter": "kid", "uniqueIdentityClaim": "email",
        "oauth2": {"emailClaim": "email", "uniqueIdClaim": "sub"},
        "applicationConfiguration": {application_id: {"enabled": True, "createRegistration": True}},
    }  # fmt: skip
    provider_id = (await call("createIdentityProvider", identityProviderId=None, request={"identityProvider": wanted}))[
        "identityProvider"
    ]["id"]
    request = {"applicationId": application_id, "identityProviderId": provider_id}
    user_id = (await call("identityProviderLogin", request={**request, "encodedJWT": first}))["user"]["id"]
    await call("reconcileJWT", request={**request, "encodedJWT": first})
    link = {"identityProviderId": provider_id, "identityProviderUserId": subject, "userId": user_id}
    await call("retrieveUserLink", **link)
    await call("retrieveUserLinksByUserId", identityProviderId=None, userId=user_id)
    await call("deleteUserLink", **link)
    await call("createUserLink", request={"identityProviderLink": {**link, "displayName": "Ada"}})
    change = {"identityProvider": {"type": "ExternalJWT", "linkingStrategy": "CreatePendingLink"}}
    await call("patchIdentityProvider", identityProviderId=provider_id, request=change)
    waiting = await call("identityProviderLogin", request={**request, "encodedJWT": second})
    await call("retrievePendingLink", pendingLinkId=waiting["pendingIdPLinkId"], userId=user_id)
    await call("deleteIdentityProvider", identityProviderId=provider_id)


async def reports(call: Journey, user: Answer, application_id: str, now: Instant) -> None:
    """Read the login records and the reports."""
    await call("retrieveRecentLogins", offset=0, limit=10)
    await call("retrieveUserRecentLogins", userId=user["id"], offset=0, limit=10)
    await search(call, "searchLoginRecords", userId=user["id"], applicationId=application_id)
    period = {"start": now - 86_400_000, "end": now}
    for method in (
        "retrieveLoginReport",
        "retrieveDailyActiveReport",
        "retrieveMonthlyActiveReport",
        "retrieveRegistrationReport",
    ):
        await call(method, applicationId=application_id, **period)
        await call(method, applicationId=None, **period)
    await call("retrieveUserLoginReport", applicationId=application_id, userId=user["id"], **period)
    await call("retrieveUserLoginReportByLoginId", applicationId=application_id, loginId=user["email"], **period)
    typed = {"loginId": user["email"], **period, "loginIdTypes": ["email"]}
    await call("retrieveUserLoginReportByLoginIdAndLoginIdTypes", applicationId=application_id, **typed)
    await call("retrieveTotalReport")
    await call("retrieveTotalReportWithExcludes", excludes=["applicationTotals"])


async def mail(call: Journey, template_id: str, user: Answer) -> None:
    """Send a mail."""
    request = {"userIds": [user["id"]], "requestData": {"what": "News"}, "bccAddresses": [], "ccAddresses": []}
    await call("sendEmail", emailTemplateId=template_id, request=request)
