// Evaluated first in every engine; all other code runs inside its evaluation, because only evaluations have a time
// limit, and even reading an error may run code of a lambda. It saves the built-in functions that it needs, so that
// changes that a lambda makes to them do not affect its arguments and results. The names of its functions end with an
// underscore, by which child.py removes them from stack traces. What only some lambdas need is in scripts of its own,
// because every engine compiles this one.
(function () {
  "use strict";
  const {parse, stringify} = JSON, {apply} = Reflect, {join} = Array.prototype, {toWellFormed} = String.prototype;
  const evaluate = eval, text = String;
  function concat_(...pieces) {
    return apply(toWellFormed, apply(join, pieces, [""]), []);
  }
  function describe_(error) {
    const stack = error !== null && typeof error === "object" ? error.stack : undefined;
    return text(error) + (typeof stack === "string" ? "\n" + stack : "");
  }
  return function sandbox_(source, json, contextJson, services) {
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
