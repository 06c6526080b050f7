/* The answers on one photo: a card for each face, linked with its box on the photo; who it is, in words, and who else came near. */
import { session, subjectPath, ask, thumbnail } from "./api.js";
import { count, make, skeleton, toast } from "./dom.js";
import { preview } from "./intake.js";
import { cutOut, shrink } from "./photo.js";

const COLOURS = 6; // of faces, in parts.css

const percent = (chance) => (chance > 0.995 ? "more than 99 %" : chance < 0.01 ? "less than 1 %" : `${Math.round(chance * 100)} %`);

function word(chance) {
  if (chance >= 0.99) return "Almost certain";
  if (chance >= 0.9) return "Very likely";
  if (chance >= 0.7) return "Likely";
  if (chance >= 0.5) return "More likely than not";
  return "Uncertain";
}

/* A photo that was asked about, with one card that waits for its answer. */
export class Photo {
  constructor(file) {
    this.file = file;
    const name = file.name || "pasted image";
    this.frame = make("div", { class: "frame" });
    this.preview = preview(file, this.frame, () => make("div", { class: "blank", text: "No preview for this kind of file" }));
    this.caption = make("figcaption", { text: name, title: file.name });
    this.pair = make("div", { class: "pair single" }, make("figure", { class: "shot" }, this.frame, this.caption));
    this.faces = make("div", { class: "faces" });
    this.root = make("section", { class: "card photo", "aria-label": name }, this.pair, this.faces);
    this.faces.append(card("", make("p", { class: "unseen", text: "Looking…" }), skeleton()));
    this.faces.firstChild.setAttribute("aria-busy", "true");
  }

  /* What is sent: { file, width, height }, smaller than the photo where that is large. */
  async prepare() {
    this.sent = await shrink(this.file);
    return this.sent;
  }

  forget() { this.preview.forget(); }

  showFailure(message, ...actions) {
    this.faces.replaceChildren(card("failed", make("p", { class: "verdict", text: "No answer for this image." }),
      make("p", { class: "soft", text: message }), ...actions));
    return `No answer: ${message}`;
  }

  /* Fill in an answer of the service; gives the sentences that were said. */
  async showAnswer(result, enroll) {
    const faces = result.faces ?? [{ ...result, box: null }], several = faces.length > 1;
    this.root.classList.toggle("several", several);
    if (several) this.caption.append(`: ${count(faces.length, "face")}`);
    const made = faces.map((face, number) => {
      const { root, said, subject } = answerCard(face, several ? number + 1 : 0, (name) => this.enroll(faces, number, name, enroll));
      return { face, root, said, subject, number };
    });
    this.faces.replaceChildren(...made.map((one) => one.root));
    await this.drawBoxes(made, several);
    return made.map((one) => (several ? `Face ${one.number + 1}: ${one.said}` : one.said)).join(" ");
  }

  showError(error) {
    if (error.code !== "no_face") return this.showFailure(error.message);
    const verdict = "No face was found.", text = "Choose a photo in which the face is larger, and seen from the front.";
    this.faces.replaceChildren(card("unknown", make("h2", { class: "verdict", text: verdict }), make("p", { class: "soft", text })));
    return verdict;
  }

  /* The boxes on the photo, and beside each card its face and an enrolled image of whom it names. */
  async drawBoxes(made, several) {
    const image = await this.preview.image, width = this.sent.width ?? image?.naturalWidth, height = this.sent.height ?? image?.naturalHeight;
    for (const { face, root, subject, number } of made) {
      const pair = several ? make("div", { class: "pair" }) : this.pair;
      if (image && face.box) {
        this.frame.append(box(face.box, width, height, several ? number + 1 : 0, root));
        if (several) pair.append(make("figure", { class: "shot" }, faceOf(image, face.box, width)));
      }
      if (several) root.prepend(pair);
      if (subject) beside(pair, subject, several ? "enrolled" : `enrolled: ${subject}`);
    }
  }

  /* Enroll one face: of several, the others are cut off, as the service takes the one in the middle. */
  async enroll(faces, number, name, enroll) {
    if (faces.length === 1) return enroll(this.file, name);
    const image = await this.preview.image;
    const face = image && await cutOut(this.file, faces[number].box, this.sent.width ?? image.naturalWidth);
    if (face) enroll(face, name);
    else toast("This browser cannot cut a face out of this kind of file. Enroll from a photo that shows one person.", "bad");
  }
}

const card = (kind, ...parts) => make("article", { class: `answer ${kind}` }, make("div", { class: "body" }, ...parts));

/* One face; number: from 1, of several. */
function answerCard(match, number, enroll) {
  const nearest = match.candidates[0], known = match.subject !== null;
  const badge = number ? make("span", { class: `badge face-${(number - 1) % COLOURS}`, "aria-label": `Face ${number}: `, text: number }) : null;
  const heading = (text) => make("h2", { class: "verdict" }, badge, text);
  const offer = (name) => {
    if (!session.writes) return null;
    const text = name === null ? "Enroll as a new person" : "Add as a sample";
    const label = name === null ? text : `${text} of ${name}`;
    return make("div", { class: "actions" }, make("button", { type: "button", text, "aria-label": label, onclick: () => enroll(name) }));
  };
  if (!nearest) {
    const said = "Nobody is enrolled yet.";
    return { said, root: card("unknown", heading(said), make("p", { class: "soft", text: "Enroll a person first." }), offer(null)) };
  }
  const verdict = known ? `This is ${match.subject}.` : "No enrolled person matches.";
  const chance = known ? likelihood(match) : `The closest is ${nearest.subject}, but not close enough`;
  const root = card(known ? "known" : "unknown", heading(verdict), make("p", { class: "chance", text: chance }), bars(match),
    make("p", { class: "scale-note", text: `Similarity; the ${match.rough ? "rough threshold" : "threshold"} is ${match.threshold.toFixed(3).replace(/0$/, "")}` }),
    offer(match.subject));
  return { root, said: `${verdict} ${chance}.`, subject: match.subject };
}

function likelihood(match) {
  if (match.probability === null) return `Similarity ${match.cosine.toFixed(2)}`;
  const doubt = match.note ? "; more likely wrong than right" : "";
  return `${word(match.probability)}: ${percent(match.probability)} among ${count(match.subjects, "subject")}, if half of those who come are enrolled${doubt}`;
}

function bars(match) {
  const along = (cosine) => `${Math.max(0, Math.min(1, cosine)) * 100}%`;
  return make("ol", { class: "bars", "aria-label": "The closest, most similar first" }, ...match.candidates.map((one, number) => {
    const fill = make("span", { class: "fill" }), cut = make("span", { class: "cut" });
    fill.style.width = along(one.cosine);
    cut.style.left = along(match.threshold);
    const over = one.cosine >= match.threshold;
    return make("li", { class: `${number ? "" : "first"} ${over ? "over" : ""}` },
      make("span", { class: "name", text: one.subject, title: one.subject }),
      make("span", { class: "track", "aria-hidden": "true" }, fill, cut),
      make("span", { class: "value", text: one.cosine.toFixed(2) }),
      make("span", { class: "unseen", text: over ? "above the threshold" : "below the threshold" }));
  }));
}

/* A box on the photo, in percent of it; where there are several, a button that leads to its card, and each lights up with the other. */
function box([x, y, wide, high], width, height, number, root) {
  const made = number ? make("button", { type: "button", class: `box face-${(number - 1) % COLOURS}`, "aria-label": `Face ${number}`, onclick: go })
    : make("span", { class: "box face-0" });
  const [left, top] = [Math.max(0, x), Math.max(0, y)], [right, bottom] = [Math.min(width, x + wide), Math.min(height, y + high)];
  Object.assign(made.style, { left: `${left / width * 100}%`, top: `${top / height * 100}%`, width: `${(right - left) / width * 100}%`, height: `${(bottom - top) / height * 100}%` });
  if (!number) return made;
  made.append(make("span", { class: "number", text: number }));
  for (const element of [made, root]) {
    for (const event of ["pointerenter", "focusin"]) element.addEventListener(event, () => light(true));
    for (const event of ["pointerleave", "focusout"]) element.addEventListener(event, () => light(false));
  }
  root.tabIndex = -1;
  return made;

  function light(on) { for (const element of [made, root]) element.classList.toggle("lit", on); }
  function go() {
    root.scrollIntoView({ block: "nearest" });
    root.focus({ preventScroll: true });
  }
}

/* A face cut out of the photo that is shown, a little wider than its box. */
function faceOf(image, [x, y, wide, high], width) {
  const by = image.naturalWidth / width, side = Math.max(wide, high) * 1.3 * by, canvas = make("canvas", { width: 168, height: 168, "aria-hidden": "true" });
  canvas.getContext("2d").drawImage(image, (x + wide / 2) * by - side / 2, (y + high / 2) * by - side / 2, side, side, 0, 0, 168, 168);
  return canvas;
}

/* An enrolled image of a subject, where the gallery keeps them. */
async function beside(pair, name, caption) {
  if (!session.gallery?.keep_images) return;
  try {
    const subject = await ask(subjectPath(name));
    const address = subject.image === null ? null : await thumbnail(subject.image, 256);
    if (!address) return;
    const image = make("img", { src: address, alt: "" });
    image.onload = () => image.classList.toggle("tiny", Math.max(image.naturalWidth, image.naturalHeight) <= 64);
    pair.classList.remove("single");
    pair.append(make("figure", { class: "shot" }, image, make("figcaption", { text: caption, title: name })));
  } catch { /* the answer stands without it */ }
}
