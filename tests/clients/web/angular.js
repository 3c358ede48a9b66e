// A page on the service of the official Angular SDK, unmodified; the compiler links the published package.
import '@angular/compiler'
import { FusionAuthService } from '@fusionauth/angular-sdk'

const config = { ...window.CONFIG, onRedirect: (state) => { document.title = `returned with ${state}` } }
const sdk = new FusionAuthService(config, 'browser')
const root = document.getElementById('root')
root.innerHTML = '<p id="text"></p><p id="message"></p><button id="login">Login</button><button id="register">Register</button><button id="refresh">Refresh</button><button id="logout">Logout</button>'
const write = (id, text) => { document.getElementById(id).textContent = text }
const on = (id, act) => document.getElementById(id).addEventListener('click', act)

on('login', () => sdk.startLogin('the state'))
on('register', () => sdk.startRegistration('the state'))
on('refresh', () => sdk.refreshToken().then((answer) => write('message', `refreshed ${answer.status}`), (error) => write('message', `failed ${error.message}`)))
on('logout', () => sdk.logout())
if (sdk.isLoggedIn()) sdk.getUserInfo().then((user) => write('text', `signed in as ${user.email}`))
else write('text', 'signed out')
