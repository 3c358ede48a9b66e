// A single-page application on the official React SDK, unmodified.
import React, { useState } from 'react'
import { createRoot } from 'react-dom/client'
import { FusionAuthProvider, useFusionAuth } from '@fusionauth/react-sdk'

function App() {
  const sdk = useFusionAuth()
  const [message, setMessage] = useState('')
  const refresh = () => sdk.refreshToken().then((answer) => setMessage(`refreshed ${answer.status}`), (error) => setMessage(`failed ${error.message}`))
  const text = sdk.isLoggedIn ? `signed in as ${sdk.userInfo?.email ?? '...'}` : 'signed out'
  return (
    <main>
      <p>{text}</p>
      <p>{message}</p>
      <button id="login" onClick={() => sdk.startLogin('the state')}>Login</button>
      <button id="register" onClick={() => sdk.startRegister('the state')}>Register</button>
      <button id="refresh" onClick={refresh}>Refresh</button>
      <button id="logout" onClick={() => sdk.startLogout()}>Logout</button>
    </main>
  )
}

const config = { ...window.CONFIG, shouldAutoFetchUserInfo: true, onRedirect: (state) => { document.title = `returned with ${state}` } }
createRoot(document.getElementById('root')).render(<FusionAuthProvider {...config}><App /></FusionAuthProvider>)
