// Copies the profile of a Facebook user.
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
