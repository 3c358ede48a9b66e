// Evaluated first in every engine; all other code runs inside its evaluation, because only evaluations have a time
// limit, and even reading an error may run code of a lambda. It saves the built-in functions that it needs, so that
// changes that a lambda makes to them do not affect its arguments and results. The names of its functions end with an
// underscore, by which child.py removes them from stack traces.
(function () {
  "use strict";
  const {parse, stringify} = JSON, {apply} = Reflect, {join} = Array.prototype, {toWellFormed} = String.prototype;
  const evaluate = eval, text = String, limit = OUTPUT_LIMIT_BYTES;
  let printed = "";
  function concat_(...pieces) {
    return apply(toWellFormed, apply(join, pieces, [""]), []);
  }
  function format_(value) {
    if (typeof value === "string") return value;
    try {
      const json = stringify(value);
      return json === undefined ? text(value) : json;
    } catch (error) {
      return "(a value that cannot be shown)";
    }
  }
  // Each line is preceded by the first letter of its event log type, and followed by a record separator.
  function print_(type, values) {
    if (printed.length > limit) return;
    let line = type;
    for (let i = 0; i < values.length; i++) line += (i ? " " : "") + format_(values[i]);
    printed += line + "\x1e";
  }
  function debug_() { print_("D", arguments); }
  function error_() { print_("E", arguments); }
  function info_() { print_("I", arguments); }
  function describe_(error) {
    const stack = error !== null && typeof error === "object" ? error.stack : undefined;
    return text(error) + (typeof stack === "string" ? "\n" + stack : "");
  }
  globalThis.console = {debug: debug_, error: error_, info: info_, log: info_, warn: info_};
  return function sandbox_(source, json, contextJson, services) {
    if (source === undefined) return concat_(printed);
    try {
      const lambda = evaluate(source);
      if (typeof lambda !== "function") return "?";
      if (json === undefined) return "=";
      const given = parse(json), count = given.length, context = parse(contextJson);
      if (services !== undefined) context.services = services;
      given[count] = context;
      apply(lambda, undefined, given);
      given.length = count;
      return concat_("=", stringify(given));
    } catch (error) {
      return concat_("!", describe_(error));
    }
  };
})()
