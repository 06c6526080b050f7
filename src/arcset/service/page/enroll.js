/* Enrolling a person: a name, and one image or more. */
import { ask, loadGallery, subjectPath } from "./api.js";
import { count, make, toast } from "./dom.js";
import { intake } from "./intake.js";
import { photoForm, whichFace } from "./photo.js";

/* files: to begin with; name: of a subject that is enrolled already, who gets them as samples. */
export function openEnroll(changed, files = [], name = null) {
  const chosen = [...files];
  const list = make("ul", { class: "chosen", "aria-label": "Chosen images" });
  const error = make("p", { class: "error", role: "alert", hidden: true });
  const input = make("input", { type: "text", maxlength: 256, required: true, autocomplete: "off", value: name ?? "", placeholder: "Anna Meyer" });
  const picker = make("input", { type: "file", accept: "image/*", multiple: true });
  const zone = make("div", { class: "drop slim" },
    make("p", { text: "Drop images here. Two or three different ones work best." }),
    make("label", { class: "button" }, "Choose images", picker));
  const send = make("button", { type: "submit", class: "primary", text: name === null ? "Enroll" : "Add" });
  const form = make("form", { onsubmit: submit },
    make("h2", { id: "enroll-title", text: name === null ? "Enroll a person" : `Add samples of ${name}` }),
    make("label", { class: "field" }, make("span", { text: "Name" }), input),
    zone, list, error,
    make("p", { class: "small soft", text: "Enroll only people who were informed and consented." }),
    make("div", { class: "actions" },
      make("button", { type: "button", text: "Cancel", onclick: () => dialog.close() }), send));
  const dialog = make("dialog", { "aria-labelledby": "enroll-title" }, form);
  const addresses = [];
  dialog.addEventListener("close", () => {
    addresses.forEach((address) => URL.revokeObjectURL(address));
    dialog.remove();
  });
  intake(zone, picker, (more) => { chosen.push(...more); show(); });
  document.body.append(dialog);
  show();
  dialog.showModal();
  if (name === null) input.focus();
  else send.focus();

  function show() {
    list.replaceChildren(...chosen.map((file, place) => {
      const address = URL.createObjectURL(file), image = make("img", { src: address, alt: file.name || "image" });
      addresses.push(address);
      return make("li", {}, make("button", { type: "button", class: "quiet", "aria-label": `Leave out ${file.name || "image"}`, title: "Leave out",
        onclick: () => { chosen.splice(place, 1); show(); } }, image));
    }));
  }

  async function submit(event) {
    event.preventDefault();
    const called = input.value.trim();
    if (!called) return complain("Enter a name.");
    if (!chosen.length) return complain("Add at least one image.");
    const known = name !== null && called === name;
    send.disabled = true;
    try {
      const data = await photoForm(chosen, known ? {} : { name: called });
      const found = await ask(known ? `${subjectPath(name)}/samples` : "v1/subjects", { method: "POST", form: data });
      dialog.close();
      const samples = count(found.sample_ids.length, "sample");
      toast((known ? `${samples} of ${called} added.` : `${called} was enrolled with ${samples}.`) + whichFace(found.faces));
      changed();
      loadGallery().catch(() => {});
    } catch (problem) {
      complain(problem.code === "already_exists" ? `${called} is already enrolled. Open that entry under People to add images.` : problem.message);
    } finally {
      send.disabled = false;
    }
  }

  function complain(text) {
    error.textContent = text;
    error.hidden = false;
  }
}
