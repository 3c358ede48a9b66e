// Copies the standard claims of an OpenID provider. jwt is the response of its userinfo endpoint.
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
