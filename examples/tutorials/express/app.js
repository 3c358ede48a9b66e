import express from 'express'
import session from 'express-session'
import * as client from 'openid-client'

const { APP_URL, OIDC_ISSUER, OIDC_CLIENT_ID, OIDC_CLIENT_SECRET, SESSION_SECRET } = process.env
const options = OIDC_ISSUER.startsWith('http://localhost') ? { execute: [client.allowInsecureRequests] } : {}
const config = await client.discovery(new URL(OIDC_ISSUER), OIDC_CLIENT_ID, OIDC_CLIENT_SECRET, undefined, options)

const app = express()
app.use(session({ secret: SESSION_SECRET, resave: false, saveUninitialized: false, cookie: { sameSite: 'lax' } }))

const escape = (text) => text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`)

app.get('/', ({ session: { user } }, response) => {
  response.send(
    user
      ? `<p>Signed in as ${escape(user.email)}</p><form method="post" action="/logout"><button>Sign out</button></form>`
      : '<a href="/login">Sign in</a>',
  )
})

app.get('/login', async (request, response) => {
  const codeVerifier = client.randomPKCECodeVerifier()
  const login = { state: client.randomState(), nonce: client.randomNonce() }
  request.session.login = { ...login, codeVerifier }
  const url = client.buildAuthorizationUrl(config, {
    ...login,
    redirect_uri: `${APP_URL}/callback`,
    scope: 'openid profile email offline_access',
    code_challenge: await client.calculatePKCECodeChallenge(codeVerifier),
    code_challenge_method: 'S256',
  })
  response.redirect(url.href)
})

app.get('/callback', async (request, response) => {
  const { state, nonce, codeVerifier } = request.session.login ?? {}
  const tokens = await client.authorizationCodeGrant(config, new URL(request.originalUrl, APP_URL), {
    expectedState: state,
    expectedNonce: nonce,
    pkceCodeVerifier: codeVerifier,
  })
  await new Promise((resolve) => request.session.regenerate(resolve)) // a new session for the new user
  request.session.user = tokens.claims()
  store(request.session, tokens)
  response.redirect('/')
})

app.post('/logout', (request, response) => {
  const url = client.buildEndSessionUrl(config, {
    id_token_hint: request.session.tokens?.idToken ?? '',
    post_logout_redirect_uri: `${APP_URL}/`,
  })
  request.session.destroy(() => response.redirect(303, url.href))
})

app.get('/profile', async ({ session }, response) => {
  if (!session.user) return response.sendStatus(401)
  response.json(await client.fetchUserInfo(config, await accessToken(session), session.user.sub))
})

function store(session, tokens) {
  session.tokens = {
    accessToken: tokens.access_token,
    expiresAt: Date.now() + tokens.expiresIn() * 1000,
    refreshToken: tokens.refresh_token ?? session.tokens?.refreshToken,
    idToken: tokens.id_token ?? session.tokens?.idToken,
  }
}

async function accessToken(session) {
  if (session.tokens.expiresAt < Date.now() + 60_000) {
    store(session, await client.refreshTokenGrant(config, session.tokens.refreshToken))
  }
  return session.tokens.accessToken
}

app.listen(new URL(APP_URL).port, 'localhost', () => console.log(`Open ${APP_URL}`))
