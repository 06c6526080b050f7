/* The second tab: who is enrolled, page by page. */
import { ask, session, thumbnail } from "./api.js";
import { $, count, failure, later, make, state } from "./dom.js";

const PAGE = 48;

let asked = 0; // the newest question: answers to older ones come too late
let next = null;
let openPerson = null;
let openEnroll = null;

export function begin({ person, enroll }) {
  openPerson = person;
  openEnroll = enroll;
  $("people-search").addEventListener("input", later(200, () => load()));
  $("people-more").addEventListener("click", () => load(next));
  $("enroll-open").addEventListener("click", () => enroll());
  document.addEventListener("gallery", tell);
}

export const show = () => load();

/* The list anew, or what follows after a name. */
export async function load(after = null) {
  const number = ++asked, search = $("people-search").value.trim(), list = $("people-list"), more = $("people-more");
  more.disabled = true;
  $("people-empty").hidden = true;
  if (after === null) more.hidden = true;
  try {
    const found = await ask("v1/subjects", { query: { limit: PAGE, after, search } });
    if (number !== asked) return;
    const entries = found.subjects.map(entry);
    after === null ? list.replaceChildren(...entries) : list.append(...entries);
    if (after !== null) entries[0]?.firstChild.focus();
    next = found.next;
    more.hidden = next === null;
    $("people-count").textContent = search ? `${count(found.total, "name")} with “${search}”` : count(found.total, "subject");
    if (!found.total) empty(search);
  } catch (error) {
    if (number !== asked) return;
    if (after === null) list.replaceChildren();
    failed(error, after);
  } finally {
    if (number === asked) more.disabled = false;
  }
}

function entry(subject) {
  const face = make("span", { class: "face", "aria-hidden": "true", text: initial(subject.name) });
  if (subject.image !== null) picture(face, subject.image, 256);
  return make("li", {},
    make("button", { type: "button", class: "person card", onclick: () => openPerson(subject.name) },
      face,
      make("span", { class: "name", text: subject.name, title: subject.name }),
      make("span", { class: "soft", text: count(subject.samples, "sample") })));
}

/* A kept image in place of what a face holds now. */
export async function picture(face, sample, size) {
  const address = await thumbnail(sample, size);
  if (!address) return;
  const image = make("img", { src: address, alt: "" });
  image.onload = () => image.classList.toggle("tiny", Math.max(image.naturalWidth, image.naturalHeight) <= 64);
  face.replaceChildren(image);
}

const initial = (name) => [...name.trim()][0]?.toUpperCase() ?? "?";

function empty(search) {
  const box = $("people-empty");
  box.replaceChildren(search
    ? state("No such name", `No enrolled name contains “${search}”.`,
      make("button", { type: "button", text: "Show all", onclick: () => { $("people-search").value = ""; load(); } }))
    : state("Nobody is enrolled yet",
      session.writes ? "Enroll the first person: a name and an image or two." : "Someone with a write key has to enroll people first.",
      ...(session.writes ? [make("button", { type: "button", class: "primary", text: "Enroll a person", onclick: () => openEnroll() })] : [])));
  box.hidden = false;
}

function failed(error, after) {
  const box = $("people-empty");
  box.replaceChildren(failure("The list could not be loaded", error, () => load(after)));
  box.hidden = false;
}

function tell() {
  const kept = session.gallery.keep_images;
  $("people-lead").textContent = kept
    ? "Everyone enrolled in this gallery. Select a person to see their samples."
    : "Everyone enrolled in this gallery. It stores embeddings, not images, so there are no pictures to see.";
}
