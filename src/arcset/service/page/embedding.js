/* The fourth tab: up to four runs side by side, at the same epoch, turned the same way. */
import { ask } from "./api.js";
import { $, later, make, skeleton, state } from "./dom.js";
import { Panel } from "./panel.js";
import { RunData } from "./run.js";

const MOST = 4;
const PER_SECOND = 1.6; // epochs, while it plays
const PART_NAMES = { train: "training", test: "test", unseen: "never seen" };

/* Ten colours that stay apart in every common kind of colour blindness, on light and dark ground. */
const COLOURS = {
  light: ["#0072B2", "#E69F00", "#009E73", "#882255", "#56B4E9", "#D55E00", "#CC79A7", "#8A8A1A", "#333333", "#332288"],
  dark: ["#4A97DB", "#E69F00", "#12B886", "#C2527F", "#93D5FF", "#F0692B", "#EBA3CD", "#B5B53A", "#E8E8E8", "#8672EA"],
};
const dark = matchMedia("(prefers-color-scheme: dark)");

let view = null;

export async function show() {
  if (view) return view.resume();
  const body = $("embedding-body");
  body.replaceChildren(make("div", { class: "card panel" }, skeleton(6)));
  try {
    const { runs } = await ask("v1/views");
    const pictured = runs.filter((run) => run.pictured !== false);
    if (!runs.length) {
      return body.replaceChildren(state("There are no runs to show",
        "Start the server with some: arcset serve GALLERY --runs runs/demo. Only embeddings of two or three dimensions can be drawn; arcset demo trains such runs."));
    }
    if (!pictured.length) {
      return body.replaceChildren(state("None of these runs can be drawn",
        `${runs.length === 1 ? "The run has" : "They have"} ${[...new Set(runs.map((run) => run.dim))].join(", ")} dimensions. Only two or three can be drawn: train a run with --dim 3.`));
    }
    view = new View(body, runs);
    await view.begin();
  } catch (error) {
    view = null;
    body.replaceChildren(state("The runs could not be loaded", error.message,
      make("button", { type: "button", text: "Try again", onclick: show })));
  }
}

export const hide = () => view?.pause();

class View {
  constructor(body, runs) {
    this.runs = runs;
    this.loaded = new Map(); // id to a promise of a RunData
    this.panels = [];
    this.time = 0;
    this.picked = null; // the class that is picked out
    this.parts = { train: true, test: true, unseen: true };
    this.classes = new Map(); // name to its number, for colours that are the same in every panel
    this.turn = { yaw: -0.6, pitch: 0.45 };
    this.turnBy(0, 0);
    this.choice = make("div", { class: "chips", role: "group", "aria-label": "Runs" }, ...runs.map((run) => this.chip(run)));
    this.summary = make("summary");
    this.playButton = make("button", { type: "button", class: "primary", onclick: () => this.toggle() });
    this.output = make("output", { text: "Epoch 0" });
    this.slider = make("input", { type: "range", min: 0, max: 1, step: 1, value: 0, "aria-label": "Epoch",
      oninput: () => { this.stop(); this.seek(Number(this.slider.value)); } });
    this.legend = make("div", { class: "legend", role: "group", "aria-label": "Classes: press one to highlight it" });
    this.partBox = make("div", { class: "chips", role: "group", "aria-label": "Samples to show" });
    this.grid = make("div", { class: "panels" });
    this.hint = make("p", { class: "small soft" });
    this.said = make("p", { class: "unseen", role: "status" });
    this.say = later(300, (text) => { this.said.textContent = text; });
    body.replaceChildren(make("details", { class: "runs", open: runs.length <= 8 }, this.summary, this.choice),
      make("div", { class: "card time" }, this.playButton, make("label", {}, this.output, this.slider)),
      this.grid, make("div", { class: "below" }, this.legend, this.partBox),
      this.hint, this.said);
    new ResizeObserver(() => this.draw()).observe(this.grid);
    dark.addEventListener("change", () => this.paint());
    this.stop();
  }

  chip(run) {
    const box = make("input", { type: "checkbox", value: run.id, disabled: run.pictured === false, onchange: () => this.chosen(box) });
    const why = run.pictured === false ? (run.dim > 3 ? `${run.dim} dimensions cannot be drawn` : "no epoch was saved") : null;
    return make("label", { class: "chip", title: why }, box, run.title, why ? make("span", { class: "soft", text: `${run.dim}-D` }) : null);
  }

  get boxes() { return [...this.choice.querySelectorAll("input")]; }

  /* Begin with one run, or two of different losses and the same dimension. */
  async begin() {
    const can = this.runs.filter((run) => run.pictured !== false);
    const dim = can.some((run) => run.dim === 3) ? 3 : 2, among = can.filter((run) => run.dim === dim);
    const plain = among.find((run) => run.loss === "softmax"), margin = among.find((run) => run.loss === "arcface");
    const first = plain ?? among[0], other = (margin !== first ? margin : undefined) ?? among.find((run) => run.loss !== first.loss);
    for (const box of this.boxes) box.checked = box.value === first.id || box.value === other?.id;
    await this.update();
  }

  async chosen(box) {
    if (this.boxes.filter((one) => one.checked).length > MOST) {
      box.checked = false;
      this.say(`At most ${MOST} runs at once.`);
      return;
    }
    await this.update();
  }

  async update() {
    const wanted = this.boxes.filter((box) => box.checked).map((box) => box.value);
    const atEnd = !this.panels.length || this.time >= this.lastEpoch;
    const full = wanted.length >= MOST;
    this.summary.textContent = `Runs: ${wanted.length} of ${this.runs.length} shown, up to ${MOST} side by side`;
    for (const box of this.boxes) {
      box.disabled = (full && !box.checked) || this.runs.find((run) => run.id === box.value).pictured === false;
    }
    this.panels = this.panels.filter((panel) => wanted.includes(panel.run.id));
    const waiting = wanted.filter((id) => !this.panels.some((panel) => panel.run.id === id));
    this.arrange(wanted, waiting);
    for (const id of waiting) {
      try {
        const run = await this.load(id);
        if (this.boxes.some((box) => box.value === id && box.checked) && !this.panels.some((panel) => panel.run.id === id)) {
          this.panels.push(new Panel(run, this));
        }
      } catch (error) {
        this.boxes.find((box) => box.value === id).checked = false;
        this.loaded.delete(id);
        this.say(error.message);
        this.problem = make("p", { class: "notice warn", text: error.message });
      }
    }
    const now = this.boxes.filter((box) => box.checked).map((box) => box.value);
    this.arrange(now, now.filter((id) => !this.panels.some((panel) => panel.run.id === id)));
    this.slider.max = this.lastEpoch;
    if (atEnd) this.seek(this.lastEpoch);
    this.paint();
  }

  arrange(wanted, waiting) {
    const shown = wanted.map((id) => this.panels.find((panel) => panel.run.id === id)?.root
      ?? (waiting.includes(id) ? make("figure", { class: "card panel", "aria-busy": "true" }, make("h3", { text: id }), skeleton(6)) : null));
    this.grid.replaceChildren(...shown.filter(Boolean));
    if (this.problem) this.grid.append(this.problem);
    this.problem = null;
    this.grid.classList.toggle("one", wanted.length === 1);
    this.grid.classList.toggle("four", wanted.length === 4);
    if (!wanted.length) this.grid.append(state("Choose a run", "Select one of the names above."));
  }

  load(id) {
    if (!this.loaded.has(id)) {
      const path = `v1/views/${encodeURIComponent(id)}`;
      this.loaded.set(id, Promise.all([ask(path), ask(`${path}/sprite.png`, { blob: true }).then((found) => createImageBitmap(found)).catch(() => null)])
        .then(([content, sheet]) => new RunData(content, sheet)));
    }
    return this.loaded.get(id);
  }

  get lastEpoch() { return Math.max(1, ...this.panels.map((panel) => panel.run.lastEpoch)); }

  /* Colours, the legend, and everything drawn anew. */
  paint() {
    const style = getComputedStyle(document.documentElement);
    this.ink = style.getPropertyValue("--ink");
    this.card = style.getPropertyValue("--card");
    const known = new Set();
    for (const { run } of this.panels) {
      for (const name of run.classes) if (!this.classes.has(name)) this.classes.set(name, this.classes.size);
      for (const label of run.known) known.add(run.classes[label]);
    }
    const names = [...this.classes.keys()].filter((name) => this.panels.some(({ run }) => run.classes.includes(name)));
    if (names.every((name) => /^\d+$/.test(name))) {
      names.sort((a, b) => a - b);
      names.forEach((name, place) => this.classes.set(name, place));
    }
    if (!names.includes(this.picked)) this.picked = null;
    this.legend.hidden = names.length > 40;
    this.legend.replaceChildren(...names.slice(0, 40).map((name) => {
      const mark = make("span", { class: `mark ${known.has(name) ? "" : "open"}` });
      mark.style.color = this.colour(name);
      return make("button", { type: "button", "aria-pressed": String(this.picked === name), onclick: () => {
        this.picked = this.picked === name ? null : name;
        this.paint();
      } }, mark, name, known.has(name) ? null : make("span", { class: "unseen", text: "(never seen)" }));
    }));
    const parts = ["train", "test", "unseen"].filter((part) => this.panels.some(({ run }) => run.parts.includes(part)));
    this.partBox.hidden = parts.length < 2;
    this.hint.textContent = this.reading();
    this.partBox.replaceChildren(...parts.map((part) => {
      const box = make("input", { type: "checkbox", onchange: () => { this.parts[part] = box.checked; this.draw(); } });
      box.checked = this.parts[part];
      return make("label", { class: "chip" }, box, PART_NAMES[part]);
    }));
    this.draw();
  }

  /* What one has to know to read what is drawn. */
  reading() {
    const has = (what) => this.panels.some(({ run }) => what(run));
    return [
      has((run) => run.dim === 3) && "Drag a sphere to turn it; all turn together.",
      has((run) => run.dim === 2 && run.unit) && "On a circle only the direction matters, so the parts are drawn as rings: training inside, test on the circle, never seen outside.",
      has((run) => !run.unit) && "Where length matters, points are drawn at their own distance from the center.",
      has(({ frames }) => !frames.at(-1).centers) && "A loss drawn without lines has no class directions.",
      `Keyboard, when a picture has the focus: arrows ${has((run) => run.dim === 3) ? "turn a sphere" : "step through the epochs"}, N and P step through the points, Space plays.`,
    ].filter(Boolean).join(" ");
  }

  colour(name) {
    const colours = COLOURS[dark.matches ? "dark" : "light"];
    return colours[this.classes.get(name) % colours.length];
  }

  draw() {
    for (const panel of this.panels) if (panel.root.isConnected) panel.draw();
  }

  turnBy(yaw, pitch) {
    this.turn.yaw += yaw;
    this.turn.pitch = Math.max(-1.5, Math.min(1.5, this.turn.pitch + pitch));
    Object.assign(this.turn, {
      cy: Math.cos(this.turn.yaw), sy: Math.sin(this.turn.yaw), cp: Math.cos(this.turn.pitch), sp: Math.sin(this.turn.pitch),
    });
    if (this.panels) this.draw();
  }

  seek(time) {
    this.time = Math.max(0, Math.min(this.lastEpoch, time));
    const whole = Math.round(this.time);
    this.slider.value = whole;
    this.output.textContent = `Epoch ${whole}`;
    this.slider.setAttribute("aria-valuetext", whole ? `after epoch ${whole}` : "before training");
    this.draw();
  }

  stepBy(by) {
    this.stop();
    this.seek(Math.round(this.time) + by);
  }

  toggle() { this.playing ? this.stop() : this.play(); }

  play() {
    if (this.time >= this.lastEpoch) this.time = 0;
    let before = performance.now();
    const step = (now) => {
      if (!this.playing) return;
      this.seek(this.time + ((now - before) / 1000) * PER_SECOND * Math.max(1, this.lastEpoch / 16));
      before = now;
      if (this.time >= this.lastEpoch) return this.stop();
      this.playing = requestAnimationFrame(step);
    };
    this.playing = requestAnimationFrame(step);
    this.playButton.textContent = "❚❚ Pause";
    this.playButton.setAttribute("aria-label", "Pause");
  }

  stop() {
    cancelAnimationFrame(this.playing);
    this.playing = 0;
    this.playButton.textContent = "▶ Play";
    this.playButton.setAttribute("aria-label", "Play");
  }

  pause() { this.stop(); }
  resume() { this.draw(); }
}
