/* The page's frame: tabs, the line about the gallery, the key. */
import { loadGallery, newKey, session } from "./api.js";
import { $, count, failure } from "./dom.js";
import * as embedding from "./embedding.js";
import { openEnroll } from "./enroll.js";
import * as identify from "./identify.js";
import * as people from "./people.js";
import { openPerson } from "./person.js";
import * as threshold from "./threshold.js";

const parts = { identify, people, threshold, embedding };
let current = null;

const show = (name) => { location.hash = `/${name}`; };

/* A part asks for what it shows whenever it is opened. */
function open() {
  reveal();
  parts[current].show?.();
  loadGallery().catch(() => {}); // others may have changed it; what fails is told by the part itself
}

/* The address says which part is open. */
function reveal() {
  if (location.hash === "#main") return; // the link that skips to the content
  const name = location.hash.slice(2) in parts ? location.hash.slice(2) : "identify";
  if (current && name !== current) {
    parts[current].hide?.();
    window.scrollTo(0, 0);
  }
  current = name;
  for (const link of document.querySelectorAll(".tabs a")) {
    const chosen = link.hash === `#/${name}`;
    $(link.hash.slice(2)).hidden = !chosen;
    chosen ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
    if (chosen) document.title = `${link.textContent} · arcset`;
  }
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

window.addEventListener("hashchange", open);
document.addEventListener("gallery", tell);
$("key-button").addEventListener("click", async () => {
  await newKey(session.key);
  location.reload();
});
identify.begin({ enroll, show });
people.begin({ person: (name) => openPerson(name, changed), enroll: () => enroll() });
reveal();
load().then(() => parts[current].show?.());

async function load() {
  try {
    await loadGallery(); // asks for a key where one is needed
  } catch (error) {
    $("answers").replaceChildren(failure("The gallery cannot be reached", error, () => {
      $("answers").replaceChildren();
      load();
    }));
  }
}
