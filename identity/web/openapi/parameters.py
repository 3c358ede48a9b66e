"""What the query parameters of the management API are for, by their names: the same name means the same everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

DESCRIPTIONS: Final[Mapping[str, str]] = {
    "active": "Whether actions that are live are wanted, or those that are not; all, where it is not said.",
    "accurateTotal": "Whether to count beyond ten thousand.",
    "applicationId": "The application that is asked about.",
    "async": "Whether to answer before everything is removed.",
    "changePasswordId": "The id with which somebody may change a password.",
    "code": "A code of the method, or a recovery code.",
    "dateTimeSecondsFormat": "How the export writes an instant.",
    "domain": "The email domain of a login.",
    "email": "The email address of the user.",
    "end": "Only what happened before this instant.",
    "event": "Only events whose body holds this text.",
    "eventResult": "Only events that ended like this.",
    "eventType": "Only events of this type.",
    "groupId": "The group that is asked about.",
    "callerIPAddress": "As ipAddress, by its older name.",
    "global": "Whether every refresh token and session of the user ends, too.",
    "refreshToken": "A refresh token of the user.",
    "token": "The value of a refresh token.",
    "ipAddress": "The address of the user, where the caller stands between.",
    "hardDelete": "Whether to remove for good what would only be deactivated.",
    "identityProviderId": "The identity provider of the link.",
    "identityProviderUserId": "The user at the identity provider.",
    "ids": "The objects that are wanted, whatever else is asked.",
    "inactive": "Whether to list what is deactivated instead of what is in use.",
    "kid": "The id of the key in the header of tokens.",
    "limit": "How many rows at most.",
    "offset": "How many of the newest rows to leave out.",
    "retrieveTotal": "Whether to count all that match.",
    "loginId": "What the user logs in with.",
    "loginIdTypes": "Which kinds of login id are meant.",
    "methodId": "The two-factor method of the user.",
    "message": "Only rows whose message holds this text; a * stands for anything.",
    "name": "The name of the object.",
    "newValue": "Only rows whose new value holds this text.",
    "nextResults": "What the answer with the page before gave.",
    "numberOfResults": "How many objects at most.",
    "oldValue": "Only rows whose old value holds this text.",
    "orderBy": "The fields to sort by, separated by commas, each with ASC or DESC.",
    "preventingLogin": "Whether only actions are wanted that keep the user from logging in now.",
    "queryString": "A `*`, one term, or `field:term`.",
    "reactivate": "Whether to bring a deactivated object back; the body is not read then.",
    "reason": "Only rows whose reason holds this text.",
    "recipientEntityId": "The entity that holds the grant.",
    "sortFields[0].missing": "Where objects without the first field to sort by stand: _first or _last.",
    "sortFields[0].name": "The first field to sort by; further ones are numbered on.",
    "sortFields[0].order": "In which direction: asc or desc.",
    "sendVerifyEmail": "Whether a mail is sent; only a caller with an API key may say no.",
    "sendVerifyPasswordEmail": "As sendVerifyRegistrationEmail, by the name that published clients send.",
    "sendVerifyRegistrationEmail": "Whether a mail is sent; only a caller with an API key may say no.",
    "start": "Only what happened at this instant or later.",
    "startRow": "How many objects to leave out.",
    "tenantId": "The tenant that is asked about.",
    "type": "Only objects of this type.",
    "user": "Only rows of this user.",
    "userId": "The user that is asked about.",
    "username": "The username of the user.",
    "verificationId": "The id of a verification that the user was sent.",
    "zoneId": "The time zone of the export.",
}


def described(name: str) -> str:
    """What a parameter is for."""
    return DESCRIPTIONS.get(name, f"The {name}.")
