// One round trip through an unmodified OpenID client, which verifies every ID token by the published keys.
// Arguments: what to do, and the settings as JSON: issuer, clientId, clientSecret, redirectUri, key (a private JWK).
// Where a person is needed, writes a JSON line with what the person is to be shown and reads a line with what came of
// it: the URL that the browser was sent back to, or nothing. The last line it writes is the result.

import * as client from 'openid-client'
import { createInterface } from 'node:readline/promises'

const [what, text] = process.argv.slice(2)
const given = JSON.parse(text)
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const checked = [client.allowInsecureRequests, client.enableNonRepudiationChecks]

async function person(shown) {
  console.log(JSON.stringify(shown))
  return (await lines.next()).value
}

async function privateKey(usages) {
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256' }
  return { key: await crypto.subtle.importKey('jwk', given.key, algorithm, false, usages), kid: given.key.kid }
}

async function discovered(authentication, ...execute) {
  const secret = authentication ? undefined : given.clientSecret
  return client.discovery(new URL(given.issuer), given.clientId, secret, authentication, {
    execute: [...checked, ...execute],
  })
}

// Sends the user off and exchanges the code that comes back; `url` makes the authorization request.
async function login(config, url, options, more = {}) {
  const verifier = client.randomPKCECodeVerifier()
  const [state, nonce] = [client.randomState(), client.randomNonce()]
  const asked = {
    redirect_uri: given.redirectUri,
    scope: 'openid profile email offline_access',
    code_challenge: await client.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    state,
    nonce,
    ...more,
  }
  const back = new URL(await person({ url: (await url(config, asked)).href }))
  const checks = { pkceCodeVerifier: verifier, expectedState: state, expectedNonce: nonce, idTokenExpected: true }
  return { tokens: await client.authorizationCodeGrant(config, back, checks, undefined, options) }
}

// What the tokens are good for: userinfo, refresh, introspection, and none of it after a revocation.
async function used(config, { tokens }, options) {
  const claims = tokens.claims()
  const userinfo = await client.fetchUserInfo(config, tokens.access_token, claims.sub, options)
  const refreshed = await client.refreshTokenGrant(config, tokens.refresh_token, undefined, options)
  const refreshToken = refreshed.refresh_token ?? tokens.refresh_token
  const before = await client.tokenIntrospection(config, refreshed.access_token)
  await client.tokenRevocation(config, refreshToken)
  const after = await client.tokenIntrospection(config, refreshed.access_token)
  return {
    claims,
    userinfo,
    idToken: tokens.id_token,
    accessToken: tokens.access_token,
    tokenType: tokens.token_type,
    refreshed: refreshed.claims(),
    before,
    after,
  }
}

const does = {
  async code() {
    const config = await discovered()
    return used(config, await login(config, client.buildAuthorizationUrl))
  },

  async hybrid() {
    const config = await discovered(undefined, client.useCodeIdTokenResponseType)
    return used(config, await login(config, client.buildAuthorizationUrl))
  },

  async par() {
    const config = await discovered()
    return used(config, await login(config, client.buildAuthorizationUrlWithPAR))
  },

  async jar() {
    const config = await discovered()
    const key = await privateKey(['sign'])
    return used(config, await login(config, (it, asked) => client.buildAuthorizationUrlWithJAR(it, asked, key)))
  },

  async private_key_jwt() {
    const config = await discovered(client.PrivateKeyJwt(await privateKey(['sign'])))
    return used(config, await login(config, client.buildAuthorizationUrlWithPAR))
  },

  async client_secret_jwt() {
    const config = await discovered(client.ClientSecretJwt(given.clientSecret))
    return used(config, await login(config, client.buildAuthorizationUrl))
  },

  async dpop() {
    const config = await discovered()
    const options = { DPoP: client.getDPoPHandle(config, await client.randomDPoPKeyPair()) }
    const url = (it, asked) => client.buildAuthorizationUrlWithPAR(it, asked, options)
    return used(config, await login(config, url, options), options)
  },

  async implicit() {
    const config = await discovered(undefined, client.useIdTokenResponseType)
    const [state, nonce] = [client.randomState(), client.randomNonce()]
    const asked = { redirect_uri: given.redirectUri, scope: 'openid email', state, nonce }
    const back = new URL(await person({ url: client.buildAuthorizationUrl(config, asked).href }))
    return { claims: await client.implicitAuthentication(config, back, nonce, { expectedState: state }) }
  },

  async device() {
    const config = await discovered()
    const device = await client.initiateDeviceAuthorization(config, { scope: 'openid profile email offline_access' })
    await person({ userCode: device.user_code })
    // The user has agreed by now: the first question may come at once.
    return used(config, { tokens: await client.pollDeviceAuthorizationGrant(config, { ...device, interval: 0 }) })
  },

  async client_credentials() {
    const config = await discovered()
    const tokens = await client.clientCredentialsGrant(config, { scope: given.scope })
    return { accessToken: tokens.access_token, before: await client.tokenIntrospection(config, tokens.access_token) }
  },
}

console.log(JSON.stringify(await does[what]()))
process.exit(0)
