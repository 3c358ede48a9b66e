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
  function print_() {
    if (printed.length > limit) return;
    let line = "";
    for (let i = 0; i < arguments.length; i++) line += (i ? " " : "") + format_(arguments[i]);
    printed += line + "\n";
  }
  function describe_(error) {
    const stack = error !== null && typeof error === "object" ? error.stack : undefined;
    return text(error) + (typeof stack === "string" ? "\n" + stack : "");
  }
  globalThis.console = {debug: print_, error: print_, info: print_, log: print_, warn: print_};
  return function sandbox_(source, json) {
    if (source === undefined) return concat_(printed);
    try {
      const lambda = evaluate(source);
      if (typeof lambda !== "function") return "?";
      if (json === undefined) return "=";
      const given = parse(json);
      apply(lambda, undefined, given);
      return concat_("=", stringify(given));
    } catch (error) {
      return concat_("!", describe_(error));
    }
  };
})()
