/* The first tab: images in, answers out. */
import { ask, session } from "./api.js";
import { $, make, shareInWords, state } from "./dom.js";
import { Photo } from "./answer.js";
import { intake, onPaste } from "./intake.js";

const TOGETHER = 8; // images per request, so that the first answers come soon
const MOST_SHOWN = 60;
const UNCALIBRATED = "This model has no calibrated threshold yet.";

const photos = []; // that are on the page, newest first

export function begin({ enroll, show }) {
  const take = (files) => identify(files, enroll, show);
  intake($("identify"), $("identify-files"), take, $("identify-drop"));
  onPaste("identify", take);
  document.addEventListener("gallery", learnPoint);
  document.addEventListener("threshold", tellPoint);
}

async function identify(files, enroll, show) {
  const asked = files.map((file) => new Photo(file));
  $("answers").querySelector(".state")?.remove();
  $("answers").prepend(...asked.map((photo) => photo.root));
  $("identify-drop").classList.add("slim"); // room for the answers
  photos.unshift(...asked);
  for (const old of photos.splice(MOST_SHOWN)) {
    old.root.remove();
    old.forget();
  }
  const limits = session.gallery?.limits ?? {};
  const most = Math.min(TOGETHER, limits.max_images ?? TOGETHER), room = (limits.max_body ?? 32 << 20) * 0.95;
  let group = [], bytes = 0;
  for (const photo of asked) {
    const { size } = (await photo.prepare()).file;
    if (group.length >= most || (group.length && bytes + size > room)) {
      await answer(group, enroll, show);
      [group, bytes] = [[], 0];
    }
    group.push(photo);
    bytes += size;
  }
  if (group.length) await answer(group, enroll, show);
}

async function answer(group, enroll, show) {
  const form = new FormData();
  for (const { sent, file } of group) form.append("image", sent.file, file.name || "image");
  try {
    const { results, threshold } = await ask("v1/identify", {
      method: "POST", form, query: { candidates: 5, threshold: session.threshold },
    });
    if (!threshold) return choose(group, show, UNCALIBRATED);
    tell(await Promise.all(group.map((photo, number) => {
      const result = results[number];
      return result.error ? photo.showError(result.error) : photo.showAnswer(result, enroll);
    })));
  } catch (error) {
    tell(group.map((photo) => photo.showError(error)));
  }
}

/* Without a threshold for the usual rate: a person can choose where "known" begins. */
function choose(group, show, why) {
  for (const photo of group) {
    photo.showFailure(`${why} Choose one for this session and try again.`, make("div", { class: "actions" },
      make("button", { type: "button", class: "primary", text: "Choose a threshold", onclick: () => show("threshold") })));
  }
  tell([`No answer: ${why} Choose a threshold.`]);
}

const tell = (sentences) => { $("identify-said").textContent = sentences.join(" "); };

/* The line below the drop zone: which threshold answers go by. */
let point = null; // the calibrated one, where there is one

async function learnPoint() {
  try {
    point = (await ask("v1/threshold")).working_point;
  } catch {
    point = null;
  }
  tellPoint();
}

function tellPoint() {
  const line = $("identify-point"), chosen = session.threshold;
  if (session.gallery && !session.gallery.subjects) {
    line.hidden = true;
    return emptyGallery();
  }
  $("answers").querySelector(".state")?.remove();
  line.hidden = chosen === null && point === null;
  if (chosen !== null) {
    line.replaceChildren(make("span", {}, "Threshold ", make("strong", { text: chosen.toFixed(3) }), ", set by you for this session."),
      make("button", { type: "button", class: "quiet", text: point ? "Use the calibrated threshold" : "Clear", onclick: () => { session.threshold = null; } }));
  } else if (point) {
    const rate = point.published
      ? `: published (${point.published}), not measured here.` : point.fpir === null
      ? ": a rough estimate, from too few identities to say how many strangers would be mistaken for an enrolled person."
      : `: ${shareInWords(point.fpir)} strangers would be mistaken for an enrolled person.`;
    line.replaceChildren(make("span", {}, "Threshold ", make("strong", { text: point.threshold.toFixed(3) }), rate));
  }
}

function emptyGallery() {
  if ($("answers").children.length) return;
  $("answers").append(state("Nobody is enrolled yet",
    session.writes ? "Enroll a person under People with an image or two, then try again." : "Someone with a write key has to enroll people first."));
}
