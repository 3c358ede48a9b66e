import { NextResponse } from 'next/server'
import { getToken } from 'next-auth/jwt'

export async function POST(request) {
  const token = await getToken({ req: request })
  const metadata = await (await fetch(`${process.env.OIDC_ISSUER}/.well-known/openid-configuration`)).json()
  const url = new URL(metadata.end_session_endpoint)
  url.searchParams.set('id_token_hint', token?.idToken ?? '')
  url.searchParams.set('post_logout_redirect_uri', `${process.env.NEXTAUTH_URL}/`)
  const response = NextResponse.redirect(url, 303)
  for (const { name } of request.cookies.getAll()) {
    if (name.includes('next-auth.session-token')) response.cookies.delete({ name, secure: name.startsWith('__Secure-') })
  }
  return response
}
