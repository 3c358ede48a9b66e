// Comfort for the hosted pages: every page works without this module.

const texts = JSON.parse(document.body.dataset.texts);

const create = (name, properties) => Object.assign(document.createElement(name), properties);

// Forms that continue by themselves.
document.querySelector("form[data-submit]")?.submit();

// Links that continue by themselves: when every frame has loaded (front-channel logout), or after five seconds.
const next = document.querySelector("a[data-continue]");
if (next) {
  const go = () => location.replace(next.href);
  if (document.readyState === "complete") {
    go();
  }
  addEventListener("load", go, { once: true });
  setTimeout(go, 5000);
}

// Passwords: a button that shows them, a hint about Caps Lock, and the strength of a new one.
for (const input of document.querySelectorAll("input[type=password]")) {
  addRevealButton(input);
  addCapsLockHint(input);
}
const chosen = document.querySelector("input[autocomplete=new-password]");
if (chosen) {
  addStrengthMeter(chosen);
}

function addRevealButton(input) {
  const button = create("button", { type: "button", className: "reveal", textContent: texts.show });
  button.setAttribute("aria-controls", input.id);
  const set = (isShown) => {
    input.type = isShown ? "text" : "password";
    button.textContent = isShown ? texts.hide : texts.show;
  };
  button.addEventListener("click", () => set(input.type === "password"));
  // A browser saves and fills in passwords only in fields of this type.
  input.form.addEventListener("submit", () => set(false));
  const box = create("div", { className: "with-reveal" });
  const focused = document.activeElement === input;
  input.replaceWith(box);
  box.append(input, button);
  if (focused) {
    input.focus();
  }
}

function addCapsLockHint(input) {
  const hint = create("p", { className: "caps", role: "status" });
  input.closest(".field").append(hint);
  for (const kind of ["keydown", "keyup"]) {
    input.addEventListener(kind, (event) => {
      hint.textContent = event.getModifierState?.("CapsLock") ? texts.capsLock : "";
    });
  }
  input.addEventListener("blur", () => { hint.textContent = ""; });
}

function addStrengthMeter(input) {
  const meter = create("meter", { min: 0, max: 4, low: 2, high: 3, optimum: 4, value: 0 });
  const text = create("p", { className: "strength-text", role: "status" });
  const box = create("div", { className: "strength", hidden: true });
  meter.setAttribute("aria-hidden", "true");
  box.append(meter, text);
  input.closest(".field").querySelector(".with-reveal").after(box);
  input.addEventListener("input", () => {
    const own = [...input.form.querySelectorAll("input:not([type=hidden], [autocomplete$=-password])")];
    meter.value = score(input.value, own.flatMap((field) => field.value.split(/[^\p{L}\p{N}]+/u)));
    text.textContent = texts.strength[meter.value];
    box.hidden = !input.value;
  });
}

// Recovery codes: copy and download.
for (const list of document.querySelectorAll("[data-recovery]")) {
  const codes = [...list.querySelectorAll("code")].map((code) => code.textContent).join("\n") + "\n";
  const copy = create("button", { type: "button", className: "second", textContent: texts.copy });
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(codes);
    copy.textContent = texts.copied;
  });
  const save = create("a", { className: "button second", textContent: texts.download, download: "recovery-codes.txt" });
  save.href = URL.createObjectURL(new Blob([codes], { type: "text/plain" }));
  const box = create("div", { className: "answers" });
  box.append(...(navigator.clipboard ? [copy, save] : [save]));
  list.after(box);
}

// Recovery codes have letters, which the keyboard for digits lacks: the hint about them changes the keyboard.
for (const hint of document.querySelectorAll("[data-letters-for]")) {
  const input = document.getElementById(hint.dataset.lettersFor);
  const button = create("button", { type: "button", className: "link", textContent: hint.textContent });
  button.addEventListener("click", () => {
    input.inputMode = "text";
    input.blur();
    input.focus();
  });
  hint.replaceChildren(button);
}

// Another message can be requested after a while: the button says when.
for (const button of document.querySelectorAll("button[data-wait-seconds]")) {
  const text = button.textContent;
  let seconds = Number(button.dataset.waitSeconds);
  const show = () => {
    button.disabled = seconds > 0;
    button.textContent = seconds > 0 ? `${text} (${seconds})` : text;
    if (seconds > 0) {
      seconds -= 1;
      setTimeout(show, 1000);
    }
  };
  show();
}

// Strength: the number of guesses that an attacker needs who tries likely passwords first, after the method of zxcvbn
// (Wheeler, USENIX Security 2016), with a short list of words.

const WORDS = (
  "password 123456 123456789 qwerty 12345678 111111 123123 abc123 iloveyou admin welcome monkey login letmein dragon"
  + " master sunshine princess football shadow superman michael jordan hunter baseball trustno1 killer ranger buster"
  + " soccer batman andrew tigger charlie robert thomas hockey daniel starwars george computer michelle jessica"
  + " pepper 1234 freedom maggie ginger joshua cheese amanda summer love ashley nicole chelsea biteme matthew access"
  + " yankees dallas austin thunder taylor matrix william corvette hello martin heather secret merlin diamond hammer"
  + " silver anthony justin test bailey patrick internet scooter orange golfer cookie richard samantha bigdog guitar"
  + " jackson whatever chicken sparky snoopy maverick phoenix camaro peanut morgan falcon cowboy ferrari samsung winter"
  + " spring autumn passwort hallo schatz motdepasse azerty bonjour soleil contrasena hola teamo amor ciao"
  + " juventus senha brasil wachtwoord welkom haslo polska kochanie user root guest changeme default company office"
  + " mustang flower purple banana apple google facebook london paris berlin pokemon naruto liverpool arsenal family"
  + " friends forever angel lovely babygirl hannah jennifer liberty blessed monday january february march april june"
  + " july august september october november december"
).split(" ");
const RANK = new Map(WORDS.map((word, index) => [word, index + 1]));
const ROWS = ["1234567890", "qwertyuiop", "asdfghjkl", "zxcvbnm", "qwertzuiop", "yxcvbnm", "azertyuiop", "1qaz2wsx3edc4rfv"];
const KEYS = ROWS.flatMap((row) => [row, [...row].reverse().join("")]);
const LEET = { 0: "o", 1: "i", 3: "e", 4: "a", 5: "s", 7: "t", "@": "a", "$": "s", "!": "i" };
const DATES = [
  /^\d{1,2}([-/. ]?)\d{1,2}\1(\d{2}|(19|20)\d\d)$/,
  /^(19|20)\d\d([-/. ]?)\d{1,2}\2\d{1,2}$/,
];
const LONGEST = 60;
const MOST_PARTS = 10;
const LOG_FACTORIALS = [0];
for (let count = 1; count <= MOST_PARTS; count += 1) {
  LOG_FACTORIALS[count] = LOG_FACTORIALS[count - 1] + Math.log10(count);
}
const THRESHOLDS = [3, 6, 8, 10];

// The strength of a password from 0 to 4; `own` are words that an attacker knows, such as the user's name.
export function score(password, own = []) {
  const digits = guesses(password.slice(0, LONGEST), new Set(own.filter((word) => word.length > 2).map(lower)));
  return THRESHOLDS.filter((threshold) => digits >= threshold).length;
}

const lower = (text) => text.toLowerCase();

// The decimal logarithm of the number of guesses: the cheapest way to split the password into guessable parts.
function guesses(password, own) {
  const best = [[{ cost: 0 }]];
  for (let end = 1; end <= password.length; end += 1) {
    best[end] = [];
    for (let start = 0; start < end; start += 1) {
      const part = costOfPart(password.slice(start, end), own);
      best[start].forEach((before, count) => {
        const cost = before.cost + part.cost;
        // Two neighbouring unpredictable parts are one.
        const isOne = part.isRandom && before.isRandom;
        if (!isOne && count < MOST_PARTS && cost < (best[end][count + 1]?.cost ?? Infinity)) {
          best[end][count + 1] = { cost, isRandom: part.isRandom };
        }
      });
    }
  }
  const totals = best[password.length].map(({ cost }, count) => cost + LOG_FACTORIALS[count]);
  return Math.min(...totals.filter((total) => total !== undefined));
}

function costOfPart(part, own) {
  const found = [asWord, asSequence, asRepetition, asKeys, asDate].map((guess) => guess(part, own)).filter(Boolean);
  const random = part.length + (part.length > 1 ? 0 : 0.1);
  const likely = Math.min(...found.map(Math.log10), Infinity);
  return likely < random ? { cost: likely, isRandom: false } : { cost: random, isRandom: true };
}

function asWord(part, own) {
  const word = lower(part);
  const plain = [...word].map((character) => LEET[character] ?? character).join("");
  const rank = own.has(word) || own.has(plain) ? 1 : RANK.get(word) ?? (RANK.get(plain) ?? 0) * 2;
  const spellings = part === word ? 1 : /^\p{Lu}\P{Lu}*$|^\P{Ll}*$/u.test(part) ? 2 : part.length * 2;
  return rank && rank * spellings * 2;
}

function asSequence(part) {
  const codes = [...part].map((character) => character.codePointAt(0));
  const step = codes[1] - codes[0];
  const isSequence = part.length > 2 && Math.abs(step) <= 1
    && codes.every((code, index) => !index || code - codes[index - 1] === step);
  return isSequence && (/[aAzZ019]/.test(part[0]) ? 4 : 26) * part.length;
}

function asRepetition(part) {
  const block = /^(.+?)\1+$/u.exec(part)?.[1];
  return block && 10 ** Math.min(block.length, costOfPart(block, new Set()).cost) * (part.length / block.length) * 2;
}

function asKeys(part) {
  return part.length > 3 && KEYS.some((row) => row.includes(lower(part))) && 20 * part.length;
}

function asDate(part) {
  if (/^(19|20)\d\d$/.test(part)) {
    return Math.max(Math.abs(Number(part) - new Date().getFullYear()), 20);
  }
  return DATES.some((date) => date.test(part)) && 365 * 60;
}
