/* The third tab: what every threshold would do, and one of them for this session. */
import { ask, session } from "./api.js";
import { at, Chart } from "./chart.js";
import { $, count, failure, later, make, shareInWords, skeleton } from "./dom.js";

const STEP = 0.005;
let shown = null;

export async function show() {
  const body = $("threshold-body");
  if (!shown) body.replaceChildren(make("div", { class: "card chart" }, skeleton(6)));
  try {
    const found = await ask("v1/threshold");
    const same = shown && JSON.stringify(found) === JSON.stringify(shown.found);
    if (!same) shown = new Explorer(found);
    body.replaceChildren(shown.root);
    shown.chart.fit();
  } catch (error) {
    shown = null;
    body.replaceChildren(failure("The curves could not be loaded", error, show));
  }
}

document.addEventListener("threshold", () => shown?.follow());

class Explorer {
  constructor(found) {
    this.found = found;
    this.curves = found.curves;
    const point = found.working_point, [low, high] = [this.curves.thresholds[0], this.curves.thresholds.at(-1)];
    this.calibrated = point?.threshold ?? null;
    const strictest = this.curves.false_accept.findLastIndex((one) => one !== null);
    this.usual = this.calibrated ?? (strictest < 0 ? 0.5 : this.curves.thresholds[strictest]);
    this.chart = new Chart(this.curves, this.calibrated, (value) => this.choose(value));
    this.sentence = make("p", { class: "sentence" });
    this.spoken = make("p", { class: "unseen", role: "status" });
    this.speak = later(700, (text) => { this.spoken.textContent = text; });
    this.slider = make("input", { type: "range", id: "threshold-slider", min: low, max: high, step: STEP,
      oninput: () => this.choose(Number(this.slider.value)) });
    this.back = make("button", { type: "button", text: "Use the calibrated threshold", onclick: () => { session.threshold = null; } });
    this.fact = make("p", { class: "small" });
    this.fact.style.margin = "0";
    this.root = make("div", {}, this.sentence, this.spoken,
      make("div", { class: "card chart" },
        make("ul", { class: "keys" },
          make("li", { class: "accepts", text: "strangers mistaken for an enrolled person" }),
          make("li", { class: "rejects", text: "enrolled samples not recognized" })),
        this.chart.svg,
        make("div", { class: "slide" },
          make("label", { for: "threshold-slider", text: "Threshold" }), this.slider,
          make("div", { class: "slide-ends" }, make("span", { text: "lets more in" }), make("span", { text: "keeps more out" }))),
        make("div", { class: "facts" }, this.back, this.fact)),
      ...this.notes());
    this.follow();
  }

  notes() {
    const { why, working_point: point, curves, subjects } = this.found, notes = [];
    const put = (text, kind = "") => text && notes.push(make("p", { class: `notice ${kind}`, text }));
    if (curves.false_accept.some((one) => one !== null)) put(why, "warn"); // else the curves' own note says so
    put(capital(point?.note));
    put(capital(curves.note), point ? "" : "warn");
    const from = curves.genuine ? ` Misses are counted on ${count(curves.genuine, "sample")} of ${count(curves.subjects, "subject")}, each left out in turn.` : "";
    notes.push(make("p", { class: "small soft", text: `For the gallery as it is now, with ${count(subjects, "subject")}. As it grows, the same threshold lets more strangers in.${from}` }));
    notes.forEach((note) => { note.style.marginTop = "1rem"; });
    return notes;
  }

  choose(value) {
    session.threshold = Number((Math.round(value / STEP) * STEP).toFixed(3));
  }

  /* Show the session's threshold, or the calibrated one. */
  follow() {
    const chosen = session.threshold, value = chosen ?? this.usual;
    if (Number(this.slider.value) !== value) this.slider.value = value;
    this.slider.setAttribute("aria-valuetext", this.describe(value).textContent);
    this.back.hidden = chosen === null || this.calibrated === null;
    this.fact.textContent = chosen === null
      ? this.calibrated === null ? "Not in use yet: move the slider to choose a threshold for this session." : `This is the calibrated threshold${this.found.working_point.rough ? ", a rough one" : ""}, which is in use.`
      : "In use under Identify, in this session only. Nothing changes for others.";
    this.chart.mark(value);
    this.sentence.replaceChildren(this.describe(value));
    this.speak(this.sentence.textContent);
  }

  describe(value) {
    const { thresholds, false_accept: accepts, false_reject: rejects } = this.curves;
    const bold = (kind, text) => make("b", { class: kind, text });
    const made = document.createDocumentFragment();
    made.append("At ", bold("", value.toFixed(3).replace(/(\.\d\d)0$/, "$1")), ": ", ...this.describeAccepts(at(thresholds, accepts, value), value, bold));
    if (rejects === null) made.append("; how many enrolled people are missed is not known yet.");
    else {
      const text = shareInWords(at(thresholds, rejects, value));
      if (text === "none") made.append("; ", bold("rejects", "every"), " enrolled sample is recognized.");
      else if (text === "all") made.append("; ", bold("rejects", "no"), " enrolled sample is recognized.");
      else made.append("; ", bold("rejects", text), ` enrolled samples ${text.startsWith("1 in") ? "is" : "are"} not recognized.`);
    }
    return made;
  }

  describeAccepts(share, value, bold) {
    const { thresholds, false_accept: all } = this.curves;
    const ending = (text) => (text.startsWith("1 in ") ? " strangers is mistaken for an enrolled person" : " strangers are mistaken for an enrolled person");
    if (share !== null) return [bold("accepts", shareInWords(share)), ending(shareInWords(share))];
    const first = all.findIndex((one) => one !== null), last = all.findLastIndex((one) => one !== null);
    if (first < 0) return ["how many strangers are mistaken for an enrolled person is not known"];
    if (value > thresholds[last]) return ["fewer than ", bold("accepts", shareInWords(all[last])), " strangers are mistaken for an enrolled person"];
    return ["more than ", bold("accepts", shareInWords(all[first])), " strangers are mistaken for an enrolled person"];
  }
}

const capital = (text) => (text ? `${text[0].toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}` : "");
