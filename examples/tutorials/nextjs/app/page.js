import { getServerSession } from 'next-auth'
import { authOptions } from '../auth'

export default async function Home() {
  const session = await getServerSession(authOptions)
  if (!session) return <a href="/api/auth/signin">Sign in</a>
  return (
    <form method="post" action="/logout">
      <p>{`Signed in as ${session.user.email}`}</p>
      <button>Sign out</button>
    </form>
  )
}
