/* Small helpers for elements. Texts are always set as text, never as markup. */

export const $ = (id) => document.getElementById(id);

/* make("p", {class: "soft", text: "…", onclick: f, "aria-label": "…"}, child, …) */
export function make(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  put(made, properties);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const DRAWN = "http://www.w3.org/2000/svg";

export function draw(tag, properties = {}, ...children) {
  const made = document.createElementNS(DRAWN, tag);
  put(made, properties);
  made.append(...children);
  return made;
}

function put(element, properties) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") element.textContent = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
}

/* A sentence that comes and goes at the foot of the page, and is read out; where a dialog is open,
 * within that, as everything behind it is out of reach. */
export function toast(text, kind = "") {
  const shown = make("p", { class: `toast ${kind}`, text }), box = $("toasts");
  const open = [...document.querySelectorAll("dialog[open]")].at(-1);
  if (open && box.parentNode !== open) {
    open.append(box);
    open.addEventListener("close", () => document.body.append(box), { once: true });
  }
  box.append(shown);
  setTimeout(() => shown.remove(), 6000);
}

export const count = (number, one, many = `${one}s`) =>
  `${number.toLocaleString("en")} ${number === 1 ? one : many}`;

/* “1 in 100”, “3 in 100”, “all”, “none”: a share as one would say it. */
export function shareInWords(share) {
  if (share <= 0) return "none";
  if (share >= 0.995) return "all";
  if (share >= 0.095) return `${Math.round(share * 10) === 10 ? 9 : Math.round(share * 10)} in 10`;
  if (share >= 0.0095) return `${Math.round(share * 100)} in 100`;
  if (share >= 0.00095) return `${Math.round(share * 1000)} in 1,000`;
  return `1 in ${Number((1 / share).toPrecision(2)).toLocaleString("en")}`;
}

/* Calls what is given once nothing was asked for `wait` milliseconds. */
export function later(wait, what) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => what(...given), wait);
  };
}

/* A question before what cannot be undone; resolves to true or false. */
export function confirmChange(title, text, yes) {
  return new Promise((resolve) => {
    const dialog = make("dialog", { class: "small-dialog", "aria-labelledby": "confirm-title" },
      make("form", { method: "dialog" },
        make("h2", { id: "confirm-title", text: title }),
        make("p", { text }),
        make("div", { class: "actions" },
          make("button", { value: "no", text: "Cancel", autofocus: true }),
          make("button", { value: "yes", class: "danger", text: yes }))));
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

export function skeleton(lines = 3) {
  return make("div", { class: "skeleton", "aria-hidden": "true" },
    ...Array.from({ length: lines }, () => make("span")));
}

/* What is shown where something could not be loaded. */
export const failure = (title, error, again) => state(title, error.message, make("button", { type: "button", text: "Try again", onclick: again }));

/* What is shown where something is missing or went wrong: a heading, a sentence, something to do. */
export function state(title, text, ...actions) {
  return make("div", { class: "state" },
    make("h2", { text: title }), make("p", { text }),
    actions.length ? make("div", { class: "actions" }, ...actions) : null);
}
