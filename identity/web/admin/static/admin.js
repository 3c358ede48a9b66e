// The administrators' page: lists, shows and changes objects through /api, with the key that was entered.
// The key stays in this module's memory and is gone when the page is left.

const KINDS = [
  {
    // A PUT without webhookIds would take the tenant from its webhooks; a merge patch leaves them alone.
    title: 'Tenants', path: '/api/tenant', name: 'tenant', plural: 'tenants', search: 'name', blank: { name: '' },
    patches: true,
  },
  {
    title: 'Applications', ofTenant: true, path: '/api/application', name: 'application', plural: 'applications', search: 'name',
    blank: { name: '', oauthConfiguration: { authorizedRedirectURLs: [] }, roles: [] }, soft: true,
  },
  {
    title: 'Users', ofTenant: true, path: '/api/user', name: 'user', plural: 'users', search: 'queryString',
    blank: { email: '', password: '' }, soft: true, fallback: { queryString: '*' },
  },
  {
    title: 'Keys', path: '/api/key', name: 'key', plural: 'keys', search: 'name', create: '/api/key/generate',
    blank: { name: '', algorithm: 'RS256', length: 2048 },
  },
  {
    title: 'Webhooks', path: '/api/webhook', name: 'webhook', plural: 'webhooks', search: 'url',
    blank: { url: '', connectTimeout: 1000, readTimeout: 2000, global: true, eventsEnabled: {} },
  },
  {
    title: 'Access lists', path: '/api/ip-acl', name: 'ipAccessControlList', plural: 'ipAccessControlLists',
    search: 'name', blank: { name: '', entries: [{ startIPAddress: '*', action: 'Allow' }] },
  },
]

const MERGE_PATCH = 'application/merge-patch+json'

const at = (id) => document.getElementById(id)
let key = ''
let kind = KINDS[0]
let openId = null

async function call(method, path, body) {
  const headers = { Authorization: key }
  if (kind.ofTenant) headers['X-FusionAuth-TenantId'] = at('tenant').value
  if (body !== undefined) headers['Content-Type'] = method === 'PATCH' ? MERGE_PATCH : 'application/json'
  const answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) })
  const text = await answer.text()
  const json = text ? JSON.parse(text) : {}
  if (answer.ok) return json
  throw new Refusal(answer.status, json)
}

class Refusal extends Error {
  constructor(status, body) {
    super(Refusal.words[status] ?? `The service answered ${status}.`)
    const fields = Object.values(body.fieldErrors ?? {}).flat()
    this.details = [...fields, ...(body.generalErrors ?? [])].map((entry) => `${entry.code} ${entry.message}`)
  }
  static words = {
    400: 'The service refused this.',
    401: 'The key is not valid, or may not do this.',
    404: 'The object does not exist.',
    503: 'The service cannot answer now.',
  }
}

function tell(message, details = []) {
  at('message').textContent = message
  at('errors').replaceChildren(...details.map((text) => element('li', text)))
}

function element(tag, text, attributes = {}) {
  const made = document.createElement(tag)
  made.textContent = text
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value)
  return made
}

// Every action goes through here, so that what fails is always told.
function doing(action) {
  return async (event) => {
    event?.preventDefault()
    try {
      tell('')
      await action(event)
    } catch (error) {
      tell(error.message, error.details ?? [])
    }
  }
}

async function connect() {
  key = at('key').value.trim()
  kind = KINDS[0]
  const { tenants } = await call('GET', '/api/tenant')
  // The API answers the newest first; the default tenant is the oldest.
  at('tenant').replaceChildren(...tenants.reverse().map((tenant) => element('option', tenant.name, { value: tenant.id })))
  at('key').value = ''
  at('tenant-choice').hidden = false
  at('work').hidden = false
  await show(KINDS[0])
}

async function show(chosen) {
  kind = chosen
  at('term').value = ''
  for (const button of at('kinds').children) {
    button.toggleAttribute('aria-current', button.textContent === kind.title)
  }
  at('list-title').textContent = kind.title
  at('detail').hidden = true
  await list()
}

async function list() {
  const term = at('term').value.trim()
  const criteria = term ? { [kind.search]: term } : (kind.fallback ?? {})
  const found = await call('POST', `${kind.path}/search`, { search: { ...criteria, numberOfResults: 100 } })
  at('rows').replaceChildren(...found[kind.plural].map(row))
  at('total').textContent = `${found.total} in all`
}

function row(object) {
  const made = document.createElement('tr')
  const open = element('button', label(object), { type: 'button', class: 'link' })
  open.addEventListener('click', doing(() => show_object(object.id)))
  const first = document.createElement('td')
  first.append(open)
  const changed = new Date(object.lastUpdateInstant).toLocaleString()
  made.append(first, element('td', object.id), element('td', changed))
  return made
}

function label(object) {
  return object.name ?? object.email ?? object.username ?? object.url ?? object.id
}

async function show_object(id) {
  edit((await call('GET', `${kind.path}/${id}`))[kind.name], id)
}

function edit(object, id) {
  openId = id
  at('detail').hidden = false
  at('detail-title').textContent = id === null ? `New: ${kind.title}` : label(object)
  at('json').value = JSON.stringify(object, null, 2)
  at('delete').hidden = id === null
  at('deactivate').hidden = id === null || !kind.soft
  at('detail').scrollIntoView({ block: 'nearest' })
  at('json').focus()
  at('json').setSelectionRange(0, 0)
  at('json').scrollTop = 0
}

async function save() {
  const object = JSON.parse(at('json').value)
  const path = openId === null ? (kind.create ?? kind.path) : `${kind.path}/${openId}`
  const method = openId === null ? 'POST' : kind.patches ? 'PATCH' : 'PUT'
  const saved = (await call(method, path, { [kind.name]: object }))[kind.name]
  edit(saved, saved.id)
  await list()
  tell('Saved.')
}

async function remove(suffix, question) {
  if (!window.confirm(question)) return
  await call('DELETE', `${kind.path}/${openId}${suffix}`)
  at('detail').hidden = true
  await list()
  tell('Done.')
}

at('kinds').append(
  ...KINDS.map((one) => {
    const button = element('button', one.title, { type: 'button' })
    button.addEventListener('click', doing(() => show(one)))
    return button
  }),
)
at('connect').addEventListener('submit', doing(connect))
at('search').addEventListener('submit', doing(list))
at('tenant').addEventListener('change', doing(() => show(kind)))
at('new').addEventListener('click', doing(() => edit(kind.blank, null)))
at('save').addEventListener('click', doing(save))
at('deactivate').addEventListener('click', doing(() => remove('', 'Deactivate this object?')))
at('delete').addEventListener(
  'click',
  doing(() => remove(kind.soft ? '?hardDelete=true' : '', 'Delete this object and everything that hangs on it?')),
)
