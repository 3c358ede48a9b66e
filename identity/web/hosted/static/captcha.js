// The CAPTCHA of a form: load the provider's script, show its widget, and put its token into the hidden field.

const field = document.querySelector("[data-captcha]");
const { captcha: method, script: source, siteKey, failed, missing } = field.dataset;
const isScored = method === "GoogleRecaptchaV3";
const button = field.form.querySelector("button[type=submit]");
const box = document.createElement("div");
const notice = document.createElement("p");
const api = () => (method.startsWith("H") ? window.hcaptcha : window.grecaptcha);

function report(text) {
  notice.textContent = text;
  notice.hidden = !text;
}

function render() {
  const isDark = window.matchMedia("(prefers-color-scheme: dark)").matches;
  const isNarrow = box.clientWidth < 304;
  api().render(box, {
    sitekey: siteKey,
    theme: isDark ? "dark" : "light",
    size: isNarrow ? "compact" : "normal",
    callback: (token) => {
      field.value = token;
      report("");
    },
    "expired-callback": () => {
      field.value = "";
    },
    "error-callback": () => report(failed),
  });
}

async function score(submitter) {
  try {
    field.value = await api().execute(siteKey, { action: "submit" });
  } catch {
    report(failed);
    return;
  }
  // A form ignores a submission while it dispatches the event of another one.
  setTimeout(() => field.form.requestSubmit(submitter));
}

// Buttons that skip the validation, such as those of identity providers, need no CAPTCHA.
function onSubmit(event) {
  const { submitter } = event;
  if (field.value || (submitter && submitter.formNoValidate)) return;
  event.preventDefault();
  if (!isScored || !api()?.execute) report(isScored ? failed : missing);
  else score(submitter);
}

function load() {
  const query = new URLSearchParams({
    hl: document.documentElement.lang,
    onload: "captchaLoaded",
    render: isScored ? siteKey : "explicit",
  });
  const script = document.createElement("script");
  script.src = `${source}?${query}`;
  script.addEventListener("error", () => report(failed));
  window.captchaLoaded = isScored ? () => {} : render;
  document.head.append(script);
}

box.className = "captcha";
notice.className = "alert";
notice.setAttribute("role", "alert");
notice.hidden = true;
button.before(notice, box);
field.form.addEventListener("submit", onSubmit);
load();
