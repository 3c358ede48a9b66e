// Evaluated after the prelude in the engines of lambdas that mention `console`; returns a function that returns what
// was printed.
(function () {
  "use strict";
  const {stringify} = JSON, {apply} = Reflect, {toWellFormed} = String.prototype;
  const text = String, limit = OUTPUT_LIMIT_BYTES;
  let printed = "";
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
  function print_(type, ...values) {
    if (printed.length > limit) return;
    let line = type;
    for (let i = 0; i < values.length; i++) line += (i ? " " : "") + format_(values[i]);
    printed += line + "\x1e";
  }
  const info = print_.bind(undefined, "I");
  globalThis.console = {
    debug: print_.bind(undefined, "D"), error: print_.bind(undefined, "E"), info, log: info, warn: info,
  };
  return () => apply(toWellFormed, printed, []);
})()
