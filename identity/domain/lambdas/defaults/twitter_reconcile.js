// Copies the profile of a Twitter user.
function reconcile(user, registration, twitterUser) {
  if (twitterUser.name) user.fullName = twitterUser.name;
  if (twitterUser.profile_image_url_https) user.imageUrl = twitterUser.profile_image_url_https;
}
