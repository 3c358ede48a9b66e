import { getServerSession } from 'next-auth'
import { authOptions } from '../../../auth'

export async function GET() {
  const session = await getServerSession(authOptions)
  if (!session) return new Response(null, { status: 401 })
  return Response.json({ user: session.user.email, orders: [] })
}
