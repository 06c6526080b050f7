/* One answer on one image: what it is, in words, and who else came near. */
import { session, subjectPath, ask, thumbnail } from "./api.js";
import { make, skeleton } from "./dom.js";
import { preview } from "./intake.js";

const percent = (chance) => (chance > 0.995 ? "more than 99 %" : chance < 0.01 ? "less than 1 %" : `${Math.round(chance * 100)} %`);

function word(chance) {
  if (chance >= 0.99) return "Almost certain";
  if (chance >= 0.9) return "Very likely";
  if (chance >= 0.7) return "Likely";
  if (chance >= 0.5) return "More likely than not";
  return "Uncertain";
}

/* The card while the answer is awaited. */
export function card(file) {
  const shot = make("figure", { class: "shot" }, make("figcaption", { text: file.name || "pasted image", title: file.name }));
  const forget = preview(file, shot, () => make("div", { class: "blank", text: "No preview for this kind of file" }));
  const body = make("div", { class: "body" }, make("p", { class: "unseen", text: "Looking…" }), skeleton());
  const pair = make("div", { class: "pair single" }, shot);
  const root = make("article", { class: "card answer", "aria-busy": "true" }, pair, body);
  return { root, pair, body, file, forget };
}

export function failed(shown, message) {
  finish(shown, "failed", make("p", { class: "verdict", text: "No answer for this image." }), make("p", { class: "soft", text: message }));
  return `No answer: ${message}`;
}

/* Fill in an answer of the service; gives the sentence that was said. */
export function answered(shown, match, enroll) {
  const nearest = match.candidates[0];
  if (!nearest) {
    finish(shown, "unknown", make("p", { class: "verdict", text: "Nobody is enrolled yet." }),
      make("p", { class: "soft", text: "Enroll a person first." }), offer(null));
    return "Nobody is enrolled yet.";
  }
  const known = match.subject !== null;
  const verdict = known ? `This is ${match.subject}.` : "No enrolled person matches.";
  const chance = known ? likelihood(match) : `The closest is ${nearest.subject}, but not close enough`;
  finish(shown, known ? "known" : "unknown",
    make("h2", { class: "verdict", text: verdict }),
    make("p", { class: "chance", text: chance }),
    bars(match),
    make("p", { class: "scale-note", text: `Similarity; the ${match.rough ? "rough threshold" : "threshold"} is ${match.threshold.toFixed(3).replace(/0$/, "")}` }),
    offer(known ? match.subject : null));
  if (known) beside(shown, match.subject);
  return `${verdict} ${chance}.`;

  function offer(name) {
    if (!session.writes) return null;
    const text = name === null ? "Enroll as a new person" : "Add as a sample";
    const label = name === null ? text : `${text} of ${name}`;
    return make("div", { class: "actions" },
      make("button", { type: "button", text, "aria-label": label, onclick: () => enroll(shown.file, name) }));
  }
}

function likelihood(match) {
  if (match.probability === null) return `Similarity ${match.cosine.toFixed(2)}`;
  return `${word(match.probability)}: ${percent(match.probability)}`;
}

function bars(match) {
  const place = (cosine) => `${Math.max(0, Math.min(1, cosine)) * 100}%`;
  return make("ol", { class: "bars", "aria-label": "The closest, most similar first" }, ...match.candidates.map((one, number) => {
    const fill = make("span", { class: "fill" }), cut = make("span", { class: "cut" });
    fill.style.width = place(one.cosine);
    cut.style.left = place(match.threshold);
    const over = one.cosine >= match.threshold;
    return make("li", { class: `${number ? "" : "first"} ${over ? "over" : ""}` },
      make("span", { class: "name", text: one.subject, title: one.subject }),
      make("span", { class: "track", "aria-hidden": "true" }, fill, cut),
      make("span", { class: "value", text: one.cosine.toFixed(2) }),
      make("span", { class: "unseen", text: over ? "above the threshold" : "below the threshold" }));
  }));
}

/* Beside the image asked with, one that was enrolled, where the gallery keeps them. */
async function beside(shown, name) {
  if (!session.gallery?.keep_images) return;
  try {
    const subject = await ask(subjectPath(name));
    const address = subject.image === null ? null : await thumbnail(subject.image, 256);
    if (!address) return;
    const image = make("img", { src: address, alt: "" });
    image.onload = () => image.classList.toggle("tiny", Math.max(image.naturalWidth, image.naturalHeight) <= 64);
    shown.pair.classList.remove("single");
    shown.pair.append(make("figure", { class: "shot" }, image, make("figcaption", { text: `enrolled: ${name}` })));
  } catch { /* the answer stands without it */ }
}

function finish(shown, kind, ...parts) {
  shown.root.classList.add(kind);
  shown.root.removeAttribute("aria-busy");
  shown.body.replaceChildren(...parts.filter(Boolean));
}
