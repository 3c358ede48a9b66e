// Calls the methods of an official TypeScript client: one call per line of the input, one outcome per line of the output.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const [packageName, baseUrl] = process.argv.slice(2);
const { FusionAuthClient } = createRequire(import.meta.url)(packageName);
const prototype = FusionAuthClient.prototype;

function methods() {
  return Object.getOwnPropertyNames(prototype).filter((name) => name !== 'constructor');
}

function parameters(method) {
  return /\(([^)]*)\)/.exec(prototype[method].toString())[1].split(',').map((name) => name.trim()).filter(Boolean);
}

// Arguments are given in the published order; their names differ between releases. One that a caller does not have is
// undefined in JavaScript.
function ordered(method, given) {
  const names = parameters(method);
  if (Object.keys(given).length !== names.length) throw new Error(`${method} has the parameters ${names}`);
  const isNamed = Object.keys(given).every((name) => names.includes(name));
  return (isNamed ? names.map((name) => given[name]) : Object.values(given)).map((value) => value ?? undefined);
}

async function call({ method, arguments: given, key, tenantId }) {
  const client = new FusionAuthClient(key || undefined, baseUrl, tenantId ?? undefined);
  try {
    const answer = await client[method](...ordered(method, given));
    return { status: answer.statusCode, ok: true, body: answer.response ?? null };
  } catch (refusal) {
    return { status: refusal.statusCode ?? 0, ok: false, body: refusal.exception ?? String(refusal) };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  process.stdout.write(`${JSON.stringify(request.method ? await call(request) : methods())}\n`);
}
