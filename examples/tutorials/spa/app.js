import { UserManager } from 'oidc-client-ts'

const home = `${location.origin}/`
const manager = new UserManager({
  authority: window.OIDC.issuer,
  client_id: window.OIDC.clientId,
  redirect_uri: home,
  post_logout_redirect_uri: home,
  scope: 'openid profile email offline_access',
  automaticSilentRenew: true, // refreshes a minute before the access token expires
})

function show(user, what) {
  document.querySelector('#status').textContent = user ? `${what} ${user.profile.email}` : 'Signed out'
  document.querySelector('#login').hidden = Boolean(user)
  document.querySelector('#refresh').hidden = document.querySelector('#logout').hidden = !user
}

document.querySelector('#login').onclick = () => manager.signinRedirect()
document.querySelector('#refresh').onclick = async () => show(await manager.signinSilent(), 'Refreshed for')
document.querySelector('#logout').onclick = () => manager.signoutRedirect()

const parameters = new URLSearchParams(location.search)
if (parameters.has('state') && (parameters.has('code') || parameters.has('error'))) {
  await manager.signinRedirectCallback() // verifies the state, exchanges the code with PKCE
  history.replaceState({}, '', home)
}
show(await manager.getUser(), 'Signed in as')
