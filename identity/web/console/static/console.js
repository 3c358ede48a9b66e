// Comfort for the console; every page works without it.

const REFILTER_MILLISECONDS = 350;

// Filter as you type: submit the search form once typing pauses, and keep the cursor where it was.
for (const input of document.querySelectorAll("form[data-filter] input[type=search]")) {
  let timer = 0;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => input.form.requestSubmit(), REFILTER_MILLISECONDS);
  });
  if (input.value) {
    input.focus();
    input.setSelectionRange(input.value.length, input.value.length);
  }
}

// The navigation is longer than many windows: show where in it the page is.
document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest" });

// Copy buttons at everything that is worth copying.
for (const source of document.querySelectorAll("[data-copy]")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "second small copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(source.textContent.trim());
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  source.after(button);
}

// Changes that are not saved: ask before the page is left.
let changed = document.querySelector("form[data-changed]") !== null;
for (const form of document.querySelectorAll("form[data-guard]")) {
  form.addEventListener("input", () => { changed = true; });
  form.addEventListener("submit", (event) => { changed = changed && event.submitter?.formTarget === "preview"; });
}
addEventListener("beforeunload", (event) => {
  if (changed) {
    event.preventDefault();
  }
});

// A deletion is possible once the name is typed.
for (const input of document.querySelectorAll("input[data-confirm]")) {
  const button = input.form.querySelector("button[type=submit]");
  const check = () => { button.disabled = input.value !== input.dataset.confirm; };
  input.addEventListener("input", check);
  check();
}

// Long groups of check boxes: a box that filters them.
for (const input of document.querySelectorAll("input[data-narrow]")) {
  input.hidden = false;
  const labels = document.getElementById(input.dataset.narrow).querySelectorAll("[data-row], :scope > label");
  input.addEventListener("input", () => {
    for (const label of labels) {
      label.hidden = !label.textContent.toLowerCase().includes(input.value.toLowerCase());
    }
  });
}

// Colors: a color picker next to the text, which also accepts other CSS colors and an empty value for the default.
for (const picker of document.querySelectorAll("input[data-color]")) {
  const input = document.getElementById(picker.dataset.color);
  const show = () => { picker.value = [input.value, input.placeholder].find((text) => /^#[0-9a-f]{6}$/i.test(text)) ?? "#000000"; };
  picker.hidden = false;
  picker.addEventListener("input", () => { input.value = picker.value; });
  input.addEventListener("input", show);
  show();
}

// Live previews: submit the form to the frame once typing pauses.
for (const button of document.querySelectorAll("button[data-live]")) {
  let timer = 0;
  button.form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => button.form.requestSubmit(button), REFILTER_MILLISECONDS);
  });
  button.form.requestSubmit(button);
}
