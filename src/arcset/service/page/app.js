/* The page's frame: tabs, the line about the gallery, the key. */
import { loadGallery, newKey, session } from "./api.js";
import { $, count, make, state } from "./dom.js";
import { begin as beginIdentify } from "./identify.js";

const TABS = ["identify", "people", "threshold", "embedding"];
let current = "identify";
const parts = {}; // modules of the tabs that have been opened

function show(name) {
  if (location.hash !== `#${name}`) location.hash = name;
  else select(name);
}

/* What a tab needs is fetched when it is first opened. */
async function select(name) {
  current = name;
  for (const tab of TABS) {
    const chosen = tab === name, button = $(`tab-${tab}`);
    $(tab).hidden = !chosen;
    button.setAttribute("aria-selected", chosen);
    button.tabIndex = chosen ? 0 : -1;
  }
  document.title = `${$(`tab-${name}`).textContent} · arcset`;
  for (const [tab, part] of Object.entries(parts)) if (tab !== name) part.hide?.();
  if (name === "identify") return;
  if (name === "people") await people();
  else if (!parts[name]) parts[name] = await import(`./${name}.js`);
  if (!$(name).hidden) parts[name]?.show();
}

async function people() {
  if (parts.people) return;
  const module = await import("./people.js");
  if (parts.people) return;
  parts.people = module;
  module.begin({
    person: async (name) => (await import("./person.js")).openPerson(name, changed),
    enroll: () => enroll(),
  });
  if (session.gallery) document.dispatchEvent(new Event("gallery"));
}

async function enroll(file, name = null) {
  (await import("./enroll.js")).openEnroll(changed, file ? [file] : [], name);
}

function changed() {
  if (parts.people && !$("people").hidden) parts.people.load();
}

function tell() {
  const { name, subjects, samples, model, version, read_only: reading } = session.gallery;
  const only = session.writes ? "" : reading ? ", read only" : ", you may look and ask";
  $("gallery-line").textContent = `${name}: ${count(subjects, "subject")}, ${count(samples, "sample")}${only}`;
  $("foot").textContent = `arcset ${version}${model ? ` · model ${model}` : ""}`;
  $("key-button").hidden = session.key === null;
  for (const element of document.querySelectorAll("[data-writes]")) element.hidden = !session.writes;
}

async function start() {
  const own = (hash) => (TABS.includes(hash.slice(1)) ? hash.slice(1) : "identify");
  const list = document.querySelector("[role=tablist]");
  list.addEventListener("click", (event) => {
    const tab = event.target.closest("[role=tab]");
    if (tab) show(tab.getAttribute("aria-controls"));
  });
  list.addEventListener("keydown", (event) => {
    const here = TABS.indexOf(current);
    const to = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: TABS.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const name = TABS[(to + TABS.length) % TABS.length];
    show(name);
    $(`tab-${name}`).focus();
  });
  window.addEventListener("hashchange", () => {
    if (location.hash !== "#main") select(own(location.hash));
  });
  document.addEventListener("gallery", tell);
  $("key-button").addEventListener("click", async () => {
    await newKey(session.key);
    location.reload();
  });
  beginIdentify({ enroll, show });
  const ready = load();
  if (own(location.hash) !== "identify") {
    await ready;
    select(own(location.hash));
  }
}

async function load() {
  try {
    await loadGallery();
  } catch (error) {
    $("answers").replaceChildren(state("The gallery cannot be reached", error.message,
      make("button", { type: "button", text: "Try again", onclick: () => { $("answers").replaceChildren(); load(); } })));
  }
}

start();
