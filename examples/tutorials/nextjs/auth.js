const issuer = process.env.OIDC_ISSUER

export const authOptions = {
  providers: [
    {
      id: 'identity',
      name: 'Identity',
      type: 'oauth',
      issuer,
      wellKnown: `${issuer}/.well-known/openid-configuration`,
      clientId: process.env.OIDC_CLIENT_ID,
      clientSecret: process.env.OIDC_CLIENT_SECRET,
      authorization: { params: { scope: 'openid profile email' } },
      idToken: true, // the user is that of the verified ID token
      checks: ['pkce', 'state', 'nonce'],
      profile: (claims) => ({ id: claims.sub, email: claims.email }),
    },
  ],
  callbacks: {
    // The token is stored in an encrypted cookie. The ID token is needed to sign out.
    jwt: ({ token, account }) => (account ? { ...token, idToken: account.id_token } : token),
  },
}
