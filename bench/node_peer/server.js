// node oidc-provider with its in-memory adapter: client credentials with a signed JWT (RS256).
// Arguments: port.

import * as jose from 'jose'
import { Provider } from 'oidc-provider'

const port = Number(process.argv[2])
const { privateKey } = await jose.generateKeyPair('RS256', { modulusLength: 2048, extractable: true })

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{
    client_id: 'bench',
    client_secret: 'a-secret-of-the-benchmarks-0123456789',
    grant_types: ['client_credentials'],
    redirect_uris: [],
    response_types: [],
  }],
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: false },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => 'urn:bench',
      getResourceServerInfo: () => ({ scope: 'read', accessTokenFormat: 'jwt', jwt: { sign: { alg: 'RS256' } } }),
    },
  },
  jwks: { keys: [{ ...(await jose.exportJWK(privateKey)), alg: 'RS256', use: 'sig', kid: 'bench' }] },
})
provider.listen(port, '127.0.0.1')
