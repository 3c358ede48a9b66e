// Evaluated after the prelude in the engines of lambdas that use `fetch` or secrets. `ask_` sends a question as JSON to
// the service and returns its answer: lambdas have no network themselves. As in the published engine, a request blocks.
(function () {
  "use strict";
  const {parse, stringify} = JSON, ask = globalThis.ask_, text = String;
  delete globalThis.ask_;
  function answer_(question) {
    const answer = parse(ask(stringify(question)));
    if (typeof answer.error === "string") throw new Error(answer.error);
    return answer;
  }
  function pairs_(headers) {
    if (headers === undefined || headers === null) return [];
    const entries = typeof headers[Symbol.iterator] === "function" ? [...headers] : Object.entries(headers);
    return entries.map(([name, value]) => [text(name), text(value)]);
  }
  function hide_(object, name, value) {
    if (!Object.hasOwn(object, name)) Object.defineProperty(object, name, {value, configurable: true, writable: true});
  }
  class Headers_ {
    #values = new Map();
    constructor(headers) {
      for (const [name, value] of pairs_(headers)) this.append(name, value);
    }
    append(name, value) {
      this.set(name, this.has(name) ? this.get(name) + ", " + text(value) : value);
    }
    delete(name) {
      this.#values.delete(text(name).toLowerCase());
    }
    get(name) {
      return this.#values.get(text(name).toLowerCase()) ?? null;
    }
    has(name) {
      return this.#values.has(text(name).toLowerCase());
    }
    set(name, value) {
      this.#values.set(text(name).toLowerCase(), text(value));
    }
    forEach(visit) {
      this.#values.forEach((value, name) => visit(value, name, this));
    }
    entries() {
      return this.#values.entries();
    }
    [Symbol.iterator]() {
      return this.entries();
    }
  }
  function fetch_(url, options) {
    const {method, headers, body, connectTimeout, readTimeout} = options ?? {};
    if (typeof url !== "string") throw new TypeError("the first argument of fetch must be a URL in a string");
    if (typeof (body ?? "") !== "string") throw new TypeError("the body of fetch must be a string");
    const request = {url, method: text(method ?? "GET"), headers: pairs_(headers), body, connectTimeout, readTimeout};
    const response = answer_({fetch: request});
    hide_(response.headers, "get", (name) => response.headers[text(name).toLowerCase()] ?? null);
    hide_(response, "text", () => response.body);
    hide_(response, "json", () => parse(response.body));
    return response;
  }
  globalThis.fetch = fetch_;
  globalThis.Headers = Headers_;
  return {secrets: {get: (name) => answer_({secret: text(name)}).secret}};
})()
