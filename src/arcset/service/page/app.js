/* The page's frame: tabs, the line about the gallery, the key. */
import { loadGallery, newKey, session } from "./api.js";
import { $, count, make, state } from "./dom.js";
import * as embedding from "./embedding.js";
import { openEnroll } from "./enroll.js";
import * as identify from "./identify.js";
import * as people from "./people.js";
import { openPerson } from "./person.js";
import * as threshold from "./threshold.js";

const parts = { identify, people, threshold, embedding };
const TABS = Object.keys(parts);
let current = "identify";

/* The address says which tab is open; the stroke keeps the browser from scrolling to it. */
function show(name) {
  if (location.hash !== `#/${name}`) location.hash = `/${name}`;
  else select(name);
}

/* A tab asks for what it shows whenever it is opened. */
function select(name) {
  if (name !== current) window.scrollTo(0, 0);
  reveal(name);
  parts[name].show?.();
  loadGallery().catch(() => {}); // others may have changed it; what fails is told by the tab
}

function reveal(name) {
  if (name !== current) parts[current].hide?.();
  current = name;
  for (const tab of TABS) {
    const chosen = tab === name, button = $(`tab-${tab}`);
    $(tab).hidden = !chosen;
    button.setAttribute("aria-selected", chosen);
    button.tabIndex = chosen ? 0 : -1;
  }
  document.title = `${$(`tab-${name}`).textContent} · arcset`;
}

const enroll = (file, name = null) => openEnroll(changed, file ? [file] : [], name);

function changed() {
  if (!$("people").hidden) people.load();
}

function tell() {
  const { name, subjects, samples, model, version, read_only: reading } = session.gallery;
  const only = session.writes ? "" : reading ? ", read-only" : ", your key is read-only";
  $("gallery-line").textContent = `${name}: ${count(subjects, "subject")}, ${count(samples, "sample")}${only}`;
  $("foot").textContent = `arcset ${version}${model ? ` · model ${model}` : ""}`;
  $("key-button").hidden = session.key === null;
  for (const element of document.querySelectorAll("[data-writes]")) element.hidden = !session.writes;
}

async function start() {
  const own = (hash) => (TABS.includes(hash.slice(2)) ? hash.slice(2) : "identify");
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
  identify.begin({ enroll, show });
  people.begin({ person: (name) => openPerson(name, changed), enroll: () => enroll() });
  const first = own(location.hash);
  reveal(first);
  await load(); // asks for a key where one is needed, and tells what the visitor may do
  if (current === first) parts[first].show?.();
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
