/* One subject in a dialog: the samples, and for those who may write, changes. */
import { ask, loadGallery, session, subjectPath } from "./api.js";
import { confirmChange, count, failure, make, skeleton, toast } from "./dom.js";
import { intake } from "./intake.js";
import { picture } from "./people.js";
import { photoForm, whichFace } from "./photo.js";

export function openPerson(name, changed) {
  const dialog = make("dialog", { "aria-labelledby": "person-title" });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  const person = new Person(dialog, name, changed);
  dialog.showModal();
  return person.load();
}

class Person {
  constructor(dialog, name, changed) {
    this.dialog = dialog;
    this.name = name;
    this.changed = changed;
    this.title = make("h2", { id: "person-title", text: name });
    this.samples = make("div", {}, skeleton(4));
    const close = make("button", { type: "button", class: "close", "aria-label": "Close", text: "×", onclick: () => dialog.close() });
    dialog.append(make("div", { class: "who" }, this.title, close), this.samples);
    if (session.writes) dialog.append(this.changes());
  }

  async load() {
    try {
      const { samples } = await ask(`${subjectPath(this.name)}/samples`);
      this.samples.replaceChildren(
        make("p", { class: "soft", text: this.describe(samples) }),
        make("ul", { class: "samples" }, ...samples.map((sample) => this.entry(sample, samples.length))));
    } catch (error) {
      this.samples.replaceChildren(failure("The samples could not be loaded", error, () => this.load()));
    }
  }

  describe(samples) {
    const kept = samples.filter((sample) => sample.has_image).length;
    const first = new Date(samples[0].added).toLocaleDateString("en-GB", { day: "numeric", month: "long", year: "numeric" });
    const images = kept === samples.length ? "" : kept ? ` Images of ${kept} of them are stored.` : " Only their embeddings are stored, not the images.";
    return `${count(samples.length, "sample")}, the first added on ${first}.${images}`;
  }

  entry(sample, total) {
    const face = make("div", { class: "face", text: sample.has_image ? "" : "image not stored" });
    if (sample.has_image) picture(face, sample.id, 256);
    const source = sample.source ?? `sample ${sample.id}`, short = source.split(/[\\/]/).at(-1);
    return make("li", {}, face, make("p", { text: short, title: source }),
      session.writes
        ? make("button", { type: "button", text: "Remove", "aria-label": `Remove the sample ${short}`, onclick: () => this.removeSample(sample, total) })
        : null);
  }

  changes() {
    const input = make("input", { type: "file", accept: "image/*", multiple: true });
    const zone = make("div", { class: "drop slim" },
      make("p", { text: "Drop more images here. Different light or another day helps." }),
      make("label", { class: "button" }, "Add images", input));
    intake(zone, input, (files) => this.add(files));
    const name = make("input", { type: "text", maxlength: 256, required: true, autocomplete: "off", value: this.name });
    this.nameInput = name;
    const form = make("form", { class: "rename", onsubmit: (event) => { event.preventDefault(); this.rename(name.value.trim()); } },
      make("label", { class: "field" }, make("span", { text: "Name" }), name),
      make("button", { type: "submit", text: "Rename" }));
    return make("div", {}, zone, form, make("hr"),
      make("div", { class: "actions" },
        make("button", { type: "button", class: "danger", text: "Remove from the gallery", onclick: () => this.remove() })));
  }

  async change(what, done) {
    try {
      const answer = await what();
      toast(done(answer));
      this.changed();
      loadGallery().catch(() => {});
      return true;
    } catch (error) {
      toast(error.message, "bad");
      return false;
    }
  }

  async add(files) {
    const send = async () => ask(`${subjectPath(this.name)}/samples`, { method: "POST", form: await photoForm(files) });
    const done = (answer) => `${count(answer.sample_ids.length, "sample")} of ${this.name} added.${whichFace(answer.faces)}`;
    if (await this.change(send, done)) await this.load();
  }

  async rename(name) {
    if (!name || name === this.name) return;
    const old = this.name;
    if (await this.change(() => ask(subjectPath(old), { method: "PATCH", json: { name } }), () => `${old} was renamed to ${name}.`)) {
      this.name = name;
      this.title.textContent = name;
    }
  }

  async removeSample(sample, total) {
    const last = total === 1;
    const text = last
      ? `It is the only sample, so ${this.name} will be removed too. This cannot be undone.`
      : "Its embedding, and its image if stored, will be overwritten. This cannot be undone.";
    if (!await confirmChange(last ? `Remove ${this.name}?` : "Remove this sample?", text, "Remove")) return;
    if (!await this.change(() => ask(`v1/samples/${sample.id}`, { method: "DELETE" }), () => "The sample was removed.")) return;
    last ? this.dialog.close() : await this.load();
  }

  async remove() {
    const text = "The name, images and embeddings will be overwritten. This cannot be undone.";
    if (!await confirmChange(`Remove ${this.name}?`, text, "Remove")) return;
    if (await this.change(() => ask(subjectPath(this.name), { method: "DELETE" }), () => `${this.name} was removed.`)) this.dialog.close();
  }
}
