// Passkeys on the hosted pages: the login page uses one, the account page creates one. Both work without this script.

const BINARY = ["challenge", "id"];
const MAXIMUM_ROUNDS = 10;

function toBytes(text) {
  const padded = text.replaceAll("-", "+").replaceAll("_", "/");
  return Uint8Array.from(atob(padded), (character) => character.charCodeAt(0));
}

function toText(buffer) {
  const characters = Array.from(new Uint8Array(buffer), (byte) => String.fromCharCode(byte));
  return btoa(characters.join("")).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function withBytes(value) {
  if (Array.isArray(value)) return value.map(withBytes);
  if (value === null || typeof value !== "object") return value;
  const entries = Object.entries(value).map(([name, member]) => [
    name,
    BINARY.includes(name) && typeof member === "string" ? toBytes(member) : withBytes(member),
  ]);
  return Object.fromEntries(entries);
}

// The relying party id is a domain, unlike the other members named id.
function decoded(options) {
  const { rp, ...others } = options;
  return rp === undefined ? withBytes(others) : { ...withBytes(others), rp };
}

function encoded(credential) {
  const { response } = credential;
  const found = { id: credential.id, type: credential.type, response: { clientDataJSON: toText(response.clientDataJSON) } };
  if (response.attestationObject) {
    found.response.attestationObject = toText(response.attestationObject);
    found.transports = response.getTransports ? response.getTransports() : [];
    const { credProps } = credential.getClientExtensionResults();
    if (credProps) found.clientExtensionResults = { credProps: { rk: credProps.rk === true } };
  } else {
    found.response.authenticatorData = toText(response.authenticatorData);
    found.response.signature = toText(response.signature);
    if (response.userHandle) found.response.userHandle = toText(response.userHandle);
  }
  return JSON.stringify(found);
}

function send(form, credential) {
  form.elements.credential.value = encoded(credential);
  form.submit();
}

function show(form, isFailed) {
  form.querySelector("[role=alert]").hidden = !isFailed;
}

async function requestOptions(form, mediation) {
  const names = ["client_id", "tenantId", "csrf_token"];
  const fields = names.filter((name) => form.elements[name]).map((name) => [name, form.elements[name].value]);
  const body = new URLSearchParams([...fields, ["mediation", mediation]]);
  const answer = await fetch(form.dataset.start, { method: "POST", body, headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  return decoded((await answer.json()).options);
}

class Login {
  constructor(form) {
    this.form = form;
    this.pending = null;
    this.isAsked = false;
    this.suggestion = null;
  }

  // Suggest passkeys at the login id field. The challenge expires, and is then replaced by a new one.
  async suggest() {
    for (let round = 0; round < MAXIMUM_ROUNDS && !this.isAsked; round += 1) {
      const pending = new AbortController();
      this.pending = pending;
      let expiry;
      try {
        const publicKey = await requestOptions(this.form, "conditional");
        if (this.isAsked) return;
        expiry = setTimeout(() => pending.abort("expired"), publicKey.timeout * 0.9);
        const options = { publicKey, mediation: "conditional", signal: pending.signal };
        this.finish(await navigator.credentials.get(options));
        return;
      } catch (error) {
        // Suggestions are an addition to the form, which works without them.
        if (error !== "expired") return;
      } finally {
        clearTimeout(expiry);
      }
    }
  }

  async ask() {
    this.isAsked = true;
    this.pending?.abort("asked");
    show(this.form, false);
    // Browsers reject a second request until the first one has ended.
    await this.suggestion;
    try {
      this.finish(await navigator.credentials.get({ publicKey: await requestOptions(this.form, "") }));
    } catch {
      show(this.form, true);
    }
  }

  finish(credential) {
    const remember = document.getElementById("rememberDevice");
    this.form.elements.rememberDevice.value = remember?.checked ? "true" : "";
    send(this.form, credential);
  }
}

async function beginLogin(form) {
  const login = new Login(form);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    login.ask();
  });
  form.hidden = false;
  if (await PublicKeyCredential.isConditionalMediationAvailable?.()) login.suggestion = login.suggest();
}

function beginCreation(form) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    show(form, false);
    try {
      send(form, await navigator.credentials.create({ publicKey: decoded(JSON.parse(form.dataset.options)) }));
    } catch {
      show(form, true);
    }
  });
  document.getElementById("passkey-unsupported").hidden = true;
  form.hidden = false;
}

if (window.PublicKeyCredential) {
  const login = document.getElementById("passkey");
  const creation = document.getElementById("passkey-add");
  if (login) beginLogin(login);
  if (creation) beginCreation(creation);
}
