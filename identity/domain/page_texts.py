"""The texts of the hosted pages by key: what a theme's messages may say differently.

Where an error has a published code, the code in brackets is its key. `{0}` stands for a value, such as a name.


`{scope-message}email` says what the scope `email` means, `{scope-detail}email` more of it, each for all applications of
a theme; `[{tenant}<id>]` or `[{application}<id>]` before it makes it the text of one tenant or application.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

TEXTS: Final = MappingProxyType(
    {
        "login.title": "Sign in to {0}",
        "login.heading": "Sign in",
        "login.lead": "to continue to {0}",
        "login.loginId": "Email or username",
        "login.password": "Password",
        "login.rememberDevice": "Keep me signed in on this device",
        "login.submit": "Sign in",
        "login.next": "Next",
        "login.or": "or",
        "login.providers": "Other ways to sign in",
        "login.noAccount": "No account yet?",
        "login.register": "Create an account",
        "[InvalidOrMissingCSRFToken]": "This page was open for too long or came from somewhere else. Please try again.",
        "[InvalidLogin]": "The email, username or password is not right.",
        "[RateLimitedException]": "Too many attempts. Please wait a while and try again.",
        "[UserLockedException]": "This account is locked.",
        "[UserExpiredException]": "This account has expired.",
        "[TwoFactorRequired]": "This account asks for a second factor, which cannot be given on this page.",
        "[PasswordChangeRequired]": "The password of this account has to be changed before you can sign in.",
        "[EmailNotVerified]": "The email address of this account has to be verified before you can sign in.",
        "[RegistrationNotVerified]": (
            "Your registration for this application has to be verified before you can sign in."
        ),
        "[UserAuthorizedNotRegisteredException]": "This account is not registered for this application.",
        "[InvalidIdentityProviderId]": "The identity provider that the application asked for does not exist.",
        "[ExternalAuthenticationException]": (
            "The sign-in through the identity provider did not work. Please try again, or sign in another way."
        ),
        "[ExternalAuthenticationException]AccessDenied": (
            "The sign-in was refused or cancelled at the identity provider."
        ),
        "[ExternalAuthenticationException]OpenIDConnectToken": (
            "The identity provider gave no usable answer. Please try again, or sign in another way."
        ),
        "[ExternalAuthenticationException]OpenIDConnectUserinfo": (
            "The identity provider did not say who you are. Please try again, or sign in another way."
        ),
        "[ExternalAuthenticationException]UserDoesNotExist": (
            "Nobody here belongs to your account at the identity provider."
        ),
        "[ExternalAuthenticationExpired]": "This sign-in is over or took too long. Please try again.",
        "[LinkCountExceeded]": "You are linked to as many accounts of this identity provider as you may be.",
        "[AlreadyLinked]": "Your account at the identity provider belongs to somebody else here.",
        "[LoginPreventedException]": "This sign-in was refused.",
        "[WebhookTransactionException]": "This sign-in was refused by a check that has to agree to it.",
        "[ServiceBusy]": "Too many people are signing in right now. Please try again.",
        "fields.wrong": "Please look at what is marked:",
        "fields.optional": "(optional)",
        "fields.choose": "Please choose",
        "register.title": "Create an account for {0}",
        "register.heading": "Create an account",
        "register.lead": "to continue to {0}",
        "register.password": "Password",
        "register.confirm": "Password once more",
        "register.submit": "Create account",
        "register.login": "You have an account? Sign in",
        "completeRegistration.title": "{0} asks for more",
        "completeRegistration.heading": "Tell us a little more",
        "completeRegistration.lead": "This is what {0} has to know of you.",
        "completeRegistration.submit": "Continue",
        "registration.vetoed": "This registration was refused by a check that has to agree to it.",
        "user.email": "Email",
        "user.username": "Username",
        "user.phoneNumber": "Phone number",
        "user.firstName": "First name",
        "user.middleName": "Middle name",
        "user.lastName": "Last name",
        "user.fullName": "Full name",
        "user.birthDate": "Birth date",
        "user.mobilePhone": "Mobile phone",
        "user.preferredLanguages": "Language",
        "[blank]user.email": "Please enter your email address.",
        "[blank]user.username": "Please choose a username.",
        "[blank]user.phoneNumber": "Please enter your phone number.",
        "[blank]user.password": "Please choose a password.",
        "[blank]user.firstName": "Please enter your first name.",
        "[blank]user.middleName": "Please enter your middle name.",
        "[blank]user.lastName": "Please enter your last name.",
        "[blank]user.fullName": "Please enter your full name.",
        "[blank]user.birthDate": "Please enter your birth date.",
        "[blank]user.mobilePhone": "Please enter the number of your mobile phone.",
        "[blank]user.preferredLanguages": "Please choose a language.",
        "[notEmail]user.email": "This is not an email address.",
        "[blocked]user.email": "Email addresses of this provider cannot be used here.",
        "[duplicate]user.email": "There is an account with this email address already.",
        "[inactive]user.email": "There is an account with this email address already.",
        "[duplicate]user.username": "This username is taken.",
        "[inactive]user.username": "This username is taken.",
        "[duplicate]user.phoneNumber": "There is an account with this phone number already.",
        "[inactive]user.phoneNumber": "There is an account with this phone number already.",
        "[invalidPhone]user.phoneNumber": "Please enter the number with a plus sign and the code of its country.",
        "[doNotMatch]passwordConfirm": "The two passwords are not the same.",
        "[tooShort]user.password": "This password is too short.",
        "[tooLong]user.password": "This password is too long.",
        "[singleCase]user.password": "Please use upper and lower case letters.",
        "[onlyAlpha]user.password": "Please use a character that is neither letter nor digit.",
        "[requireNumber]user.password": "Please use a digit.",
        "[containsEmail]user.password": "The password must not contain your email address.",
        "[containsUsername]user.password": "The password must not contain your username.",
        "[containsPhoneNumber]user.password": "The password must not contain your phone number.",
        "passwordRules.length": "At least {0} characters",
        "passwordRules.mixedCase": "Upper and lower case letters",
        "passwordRules.nonAlpha": "A character that is neither letter nor digit",
        "passwordRules.number": "A digit",
        "passwordRules.loginId": "Not your email address, username or phone number",
        "passwordRules.previous": "Not a password that you used before",
        "passwordRules.breached": "Not a password that is known to others",
        "notRegistered.title": "Not registered",
        "notRegistered.heading": "You cannot go on with this account",
        "notRegistered.text": "Ask those who run {0} to let you in, or sign in with another account.",
        "notRegistered.other": "Sign in with another account",
        "consent.title": "Allow {0} to use your account?",
        "consent.heading": "{0} asks for access",
        "consent.lead": "You are signed in as {0}.",
        "consent.required": "It needs to:",
        "consent.optional": "You may also let it:",
        "consent.unknown": "It also gets:",
        "consent.target": "Your answer goes to {0}.",
        "consent.allow": "Allow",
        "consent.cancel": "Cancel",
        "{scope-message}address": "Know your postal address",
        "{scope-message}email": "Know your email address",
        "{scope-message}phone": "Know your phone number",
        "{scope-message}profile": "Know your name and what else your profile says",
        "device.title": "Connect a device to {0}",
        "device.heading": "Connect a device",
        "device.lead": "Enter the code that {0} shows on your device.",
        "device.userCode": "Code",
        "device.submit": "Continue",
        "device.signedIn": "You are signed in as {0}.",
        "device.signOut": "Not you? Sign out",
        "device.invalid": "This code is not right. Please look at your device again.",
        "device.expired": "This code is too old. Start again on your device to get another one.",
        "deviceApproval.title": "Connect this device to {0}?",
        "deviceApproval.heading": "Connect this device?",
        "deviceApproval.lead": "A device asks to use {0} with your account.",
        "deviceApproval.code": "Code on the device",
        "deviceApproval.name": "Device",
        "deviceApproval.description": "Description",
        "deviceApproval.type": "Type",
        "deviceApproval.address": "Asked from the address",
        "deviceApproval.link": "Account to be linked",
        "deviceApproval.scopes": "It asks to:",
        "deviceApproval.identity": "Know who you are",
        "deviceApproval.offline": "Stay signed in until you end it",
        "deviceApproval.warning": (
            "Allow this only if the device is in front of you and shows this code. Whoever sent you a code or a link"
            " could use your account."
        ),
        "deviceApproval.target": "Afterwards you go on to {0}.",
        "deviceApproval.allow": "Allow",
        "deviceApproval.cancel": "Deny",
        "deviceComplete.title": "Device",
        "deviceComplete.heading": "Your device is connected",
        "deviceComplete.text": "Go on at your device. You can close this page.",
        "deviceComplete.linked": "Your account at {0} is linked now.",
        "deviceComplete.denied": "Your device is not connected",
        "deviceComplete.deniedText": "You did not allow it. You can close this page.",
        "deviceComplete.failedText": "The code was used before, or is too old. Start again on your device.",
        "deviceComplete.refusedText": "It cannot be connected with this account. You can try again with another one.",
        "deviceComplete.again": "Enter another code",
        "formPost.title": "Continue",
        "formPost.heading": "One moment",
        "formPost.text": "You are being taken back to the application.",
        "formPost.on": "You are being taken on with your sign-in.",
        "formPost.submit": "Continue",
        "link.title": "Link your account at {0}",
        "link.heading": "Is this you?",
        "link.lead": "Nobody here belongs to your account at {0} yet.",
        "link.account": "There you are {0}.",
        "link.continue": (
            "Sign in with your account here to link the two and to continue to {0}. From then on either will do."
        ),
        "link.submit": "Sign in and link",
        "confirmLogout.title": "Sign out?",
        "confirmLogout.heading": "Sign out?",
        "confirmLogout.text": (
            "Another site asks to sign you out of every application that you use with this account on this device."
        ),
        "confirmLogout.submit": "Sign out",
        "logout.title": "Signing out",
        "logout.heading": "Signing you out",
        "logout.text": "Your applications are being told that you have signed out.",
        "logout.continue": "Continue",
        "loggedOut.title": "Signed out",
        "loggedOut.heading": "You are signed out",
        "loggedOut.text": "You have been signed out on this device. You can close this page.",
        "index.title": "Identity service",
        "index.heading": "Identity service",
        "index.text": (
            "This is where applications let their users sign in. Open the application that you want to use; it brings"
            " you here when you have to sign in."
        ),
        "index.loggedIn": "You are signed in on this device.",
        "index.logout": "Sign out",
        "index.configuration": "OpenID configuration",
    }
)


def scope_keys(kind: str, scope: str, application_id: str, tenant_id: str) -> tuple[str, ...]:
    """The keys under which a theme may have the `scope-message` or `scope-detail` of a scope, the first one first."""
    key = f"{{{kind}}}{scope}"
    return f"[{{application}}{application_id}]{key}", f"[{{tenant}}{tenant_id}]{key}", key
