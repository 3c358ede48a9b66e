"""The lambdas that an instance comes with: each takes over what its identity provider says of a user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_OPENID = """
// Takes over the standard claims of an OpenID provider. jwt holds what its userinfo endpoint says.
function reconcile(user, registration, jwt, idToken, tokens) {
  const fields = {
    birthDate: jwt.birthdate,
    firstName: jwt.given_name,
    fullName: jwt.name,
    imageUrl: jwt.picture,
    lastName: jwt.family_name,
    middleName: jwt.middle_name,
    mobilePhone: jwt.phone_number,
    timezone: jwt.zoneinfo,
  };
  for (const name in fields) {
    if (fields[name]) user[name] = fields[name];
  }
}
"""

_CLAIMS = """
// Takes over the claims of the ID token.
function reconcile(user, registration, idToken) {
  const fields = {
    firstName: idToken.given_name,
    fullName: idToken.name,
    imageUrl: idToken.picture,
    lastName: idToken.family_name,
  };
  for (const name in fields) {
    if (fields[name]) user[name] = fields[name];
  }
}
"""

_FACEBOOK = """
// Takes over what Facebook says of the user.
function reconcile(user, registration, facebookUser) {
  const picture = facebookUser.picture && facebookUser.picture.data;
  const fields = {
    firstName: facebookUser.first_name,
    fullName: facebookUser.name,
    imageUrl: picture && !picture.is_silhouette ? picture.url : undefined,
    lastName: facebookUser.last_name,
    middleName: facebookUser.middle_name,
  };
  for (const name in fields) {
    if (fields[name]) user[name] = fields[name];
  }
}
"""

_TWITTER = """
// Takes over what Twitter says of the user.
function reconcile(user, registration, twitterUser) {
  if (twitterUser.name) user.fullName = twitterUser.name;
  if (twitterUser.profile_image_url_https) user.imageUrl = twitterUser.profile_image_url_https;
}
"""

_SAML = """
// Takes over the usual attributes of a SAML assertion, each of which may have several values.
function reconcile(user, registration, samlResponse) {
  const attributes = (samlResponse.assertion && samlResponse.assertion.attributes) || {};
  const prefix = "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/";
  const fields = {birthDate: "dateofbirth", firstName: "givenname", fullName: "name", lastName: "surname"};
  for (const name in fields) {
    const values = attributes[prefix + fields[name]];
    if (values && values[0]) user[name] = values[0];
  }
}
"""

BODIES: Final[Mapping[str, str]] = {
    "AppleReconcile": _CLAIMS,
    "FacebookReconcile": _FACEBOOK,
    "GoogleReconcile": _CLAIMS,
    "OpenIDReconcile": _OPENID,
    "SAMLv2Reconcile": _SAML,
    "TwitterReconcile": _TWITTER,
}
"""Type -> body."""
