// Copies the usual attributes of a SAML assertion, each of which may have several values.
function reconcile(user, registration, samlResponse) {
  const attributes = (samlResponse.assertion && samlResponse.assertion.attributes) || {};
  const prefix = "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/";
  const fields = {birthDate: "dateofbirth", firstName: "givenname", fullName: "name", lastName: "surname"};
  for (const name in fields) {
    const values = attributes[prefix + fields[name]];
    if (values && values[0]) user[name] = values[0];
  }
}
