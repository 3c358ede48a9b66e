// Copies the claims of the ID token.
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
