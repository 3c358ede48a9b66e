// One login through an unmodified OpenID client: discover, send the user off, take the code back, verify, ask, refresh.
// Arguments: issuer, client id, client secret, redirect URI. Writes a JSON line with the authorization URL, reads the
// URL that the browser was sent back to, writes a JSON line with what came of it.

import * as client from 'openid-client'
import { createInterface } from 'node:readline/promises'

const [issuer, clientId, clientSecret, redirectUri] = process.argv.slice(2)

const config = await client.discovery(new URL(issuer), clientId, clientSecret, undefined, {
  execute: [client.allowInsecureRequests],
})
const verifier = client.randomPKCECodeVerifier()
const state = client.randomState()
const nonce = client.randomNonce()
const url = client.buildAuthorizationUrl(config, {
  redirect_uri: redirectUri,
  scope: 'openid profile email offline_access',
  code_challenge: await client.calculatePKCECodeChallenge(verifier),
  code_challenge_method: 'S256',
  state,
  nonce,
})
console.log(JSON.stringify({ url: url.href }))

const lines = createInterface({ input: process.stdin })
const { value: back } = await lines[Symbol.asyncIterator]().next()
lines.close()

const tokens = await client.authorizationCodeGrant(config, new URL(back), {
  pkceCodeVerifier: verifier,
  expectedState: state,
  expectedNonce: nonce,
  idTokenExpected: true,
})
const claims = tokens.claims()
const userinfo = await client.fetchUserInfo(config, tokens.access_token, claims.sub)
const refreshed = await client.refreshTokenGrant(config, tokens.refresh_token)
console.log(JSON.stringify({ claims, userinfo, refreshed: refreshed.claims() }))
