/* Embeddings over the epochs of a training, one panel per run: the one viewer of arcset's pages.

   createViewer(element, data, options) fills `element` with controls and panels and returns the viewer. It asks
   nothing of the page but viewer.css and the custom properties --ink, --soft, --card, --line, --accent, --tint.

   data.classes   names of all classes of all runs; a class is its number here, and has the colour of that number
   data.colours   { light: [CSS colours], dark: [...] }
   data.sheets    [{ url, columns, width, height }]: thumbnails in tiles, row by row
   data.shown     numbers of the runs that are open at first
   data.runs      [{ name, group, load?, ...run }]; group is a heading over the choice of runs, or ""; load() is called
                  when the run is first opened, and gives a promise of data like this, with this one run; where all
                  runs have one, there need not be more than runs and shown. Of a run there is
     dim          of the points: 2 on a plane, 3 in space
     unit         whether only the direction counts: points belong on the circle or sphere
     flat         whether the points are a projection of more dimensions, which leaves the sphere
     radius       what the picture must hold, 1 for unit
     epochs       [0, 1, ...], one frame each; between them points move on straight lines
     known        the class of each center; centers[frame][center] is a vector (dim), or centers is empty
     means        whether the centers are mean directions of a loss that has none
     notes        sentences below the picture
     parts        [{ name, classes, sheet, frames }], name train, test or unseen; classes[i] of point i; sheet a number
                  of data.sheets, or null; frames[k] = { points, scale, angles }: points a flat array (N x dim) or
                  base64 of int16 to be multiplied with scale; angles, if there are any, base64 of three uint16 per
                  point: hundredths of a degree to its own center, to the nearest other, and the number of that one

   options.most   how many runs may be open at once
   options.partNames  { train: "training", ... } in the page's words

   Mouse: point at a sample, drag to turn a sphere or move a plane (Shift moves both), Ctrl and wheel zoom, double
   click resets. Keys, when a picture has the focus: N and P step through the points, arrows turn a sphere or step
   through the epochs, + and - zoom, 0 resets, Space plays, Escape closes. */
const RING = { train: 0.93, test: 1, unseen: 1.075 }; // of points on a circle, so that parts stay apart
const SIZE = { train: 1.5, test: 2.3, unseen: 2.6 };
const STRENGTH = { train: 0.5, test: 0.9, unseen: 0.85 };
const NO_ANGLE = 65535;
const MOST_NAMES = 60; // centers that are named
const MOST_LEGEND = 40;
const darkScheme = matchMedia("(prefers-color-scheme: dark)");
const calm = matchMedia("(prefers-reduced-motion: reduce)");
export const isDark = () => (document.documentElement.dataset.theme || (darkScheme.matches ? "dark" : "light")) === "dark";

export function createViewer(element, data, options = {}) {
  return new Viewer(element, data, options);
}

function make(tag, properties = {}, ...children) {
  const { role, label, ...others } = properties;
  const made = Object.assign(document.createElement(tag), others);
  if (role) made.setAttribute("role", role);
  if (label) made.setAttribute("aria-label", label);
  made.append(...children);
  return made;
}

const withImage = (sheet) => ({ ...sheet, image: Object.assign(new Image(), { src: sheet.url }) });

/* Always the same offset for the same point: a low-discrepancy sequence in -0.5 ... 0.5. */
const spread = (i) => ((i * 0.6180339887) % 1) - 0.5;
const degrees = (value) => `${value.toFixed(1)}°`;

function decode(text, Kind) {
  const raw = atob(text), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return new Kind(bytes.buffer);
}

/* A run's points, decoded; and where each of them is at any moment between two epochs. */
class RunData {
  constructor(raw) {
    Object.assign(this, raw);
    this.parts = raw.parts.map((part) => ({
      ...part,
      count: part.classes.length,
      screen: new Float32Array(3 * part.classes.length), // x, y, depth: where the panel drew them
      frames: part.frames.map(({ points, scale = 1, angles }) => ({
        points: typeof points === "string" ? Float32Array.from(decode(points, Int16Array), (value) => value * scale) : points,
        angles: angles ? decode(angles, Uint16Array) : null,
      })),
    }));
  }

  get last() { return this.epochs.at(-1); }

  /* The frames before and after `time` (in epochs), and how far between them it lies. */
  between(time) {
    const { epochs } = this;
    let low = 0;
    while (low + 1 < epochs.length && epochs[low + 1] <= time) low++;
    const high = Math.min(low + 1, epochs.length - 1), gap = epochs[high] - epochs[low];
    return { low, high, mix: gap ? Math.min(1, Math.max(0, (time - epochs[low]) / gap)) : 0 };
  }

  nearestFrame(time) {
    const { low, high, mix } = this.between(time);
    return mix < 0.5 ? low : high;
  }

  /* Point i of two frames, mixed; on the circle or sphere it stays there. */
  mixed(from, to, i, mix, out) {
    const { dim } = this;
    out[2] = 0;
    for (let d = 0; d < dim; d++) out[d] = from[i * dim + d] * (1 - mix) + to[i * dim + d] * mix;
    const length = Math.hypot(...out);
    if (this.unit && !this.flat && length > 1e-5) for (let d = 0; d < dim; d++) out[d] /= length;
    return out;
  }

  /* Mean angle of a part in a frame: to the own center (column 0) or to the nearest other (1). */
  meanAngle({ count, frames }, frame, column) {
    const { angles } = frames[frame];
    if (!count || !angles || angles[column] === NO_ANGLE) return null;
    let sum = 0;
    for (let i = 0; i < count; i++) sum += angles[3 * i + column];
    return sum / count / 100;
  }
}

/* One run drawn on a canvas, and which of its points lies under the pointer. */
class Panel {
  constructor(run, viewer) {
    Object.assign(this, { run, viewer, focus: null, zoom: 1, pan: [0, 0] }); // focus: {part, i} of the tip's point
    this.canvas = make("canvas", { tabIndex: 0, className: run.dim === 3 ? "turns" : "", role: "img" });
    this.stats = make("p", { className: "stats" });
    const button = (text, label, onclick) => make("button", { type: "button", textContent: text, label: `${label}: ${run.name}`, onclick });
    this.root = make("figure", { className: "panel" },
      make("div", { className: "head" }, make("h3", { textContent: run.name }),
        button("+", "Zoom in", () => this.zoomBy(1.4)), button("−", "Zoom out", () => this.zoomBy(1 / 1.4)), button("⟲", "Reset", () => this.reset())),
      this.canvas, this.stats, ...(run.notes ?? []).map((note) => make("p", { className: "note", textContent: note })));
    this.listen();
  }

  listen() {
    const { canvas, run, viewer } = this;
    const on = (name, act) => canvas.addEventListener(name, act, { passive: false });
    const position = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    let from = null, dragged = false;
    on("pointerdown", (event) => {
      [from, dragged] = [[event.clientX, event.clientY], false];
      canvas.setPointerCapture(event.pointerId);
    });
    on("pointermove", (event) => {
      if (!from || !event.buttons) return event.pointerType === "mouse" && viewer.setFocus(this, this.pick(...position(event), 12));
      const x = event.clientX - from[0], y = event.clientY - from[1];
      if (!dragged && Math.hypot(x, y) <= 4) return; // a tap may tremble
      [from, dragged] = [[event.clientX, event.clientY], true];
      canvas.classList.add("dragged");
      viewer.setFocus(this, null);
      if (run.dim === 3 && !event.shiftKey) viewer.rotate(x * 0.008, y * 0.008);
      else this.moveBy(x, y);
    });
    const release = () => { from = null; canvas.classList.remove("dragged"); };
    on("pointerup", (event) => {
      if (event.pointerType !== "mouse" && !dragged) viewer.setFocus(this, this.pick(...position(event), 22));
      release();
    });
    on("pointercancel", release);
    on("pointerleave", (event) => event.pointerType === "mouse" && viewer.setFocus(this, null));
    on("blur", () => viewer.setFocus(this, null));
    on("dblclick", () => this.reset());
    on("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return; // the page scrolls
      event.preventDefault();
      this.zoomBy(Math.exp(-event.deltaY * 0.004), ...position(event));
    });
    on("keydown", (event) => this.key(event));
  }

  key(event) {
    const { viewer } = this, solid = this.run.dim === 3;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = {
      n: () => this.step(1), p: () => this.step(-1), Escape: () => viewer.setFocus(this, null), " ": () => viewer.toggle(),
      "+": () => this.zoomBy(1.4), "=": () => this.zoomBy(1.4), "-": () => this.zoomBy(1 / 1.4), 0: () => this.reset(),
      ArrowLeft: () => (solid ? viewer.rotate(-0.12, 0) : viewer.stepEpoch(-1)),
      ArrowRight: () => (solid ? viewer.rotate(0.12, 0) : viewer.stepEpoch(1)),
      ArrowUp: solid && (() => viewer.rotate(0, -0.12)), ArrowDown: solid && (() => viewer.rotate(0, 0.12)),
    }[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act) return;
    act();
    event.preventDefault();
  }

  zoomBy(factor, x = this.middle, y = this.middle) {
    const zoom = Math.min(40, Math.max(1, this.zoom * factor)), by = zoom / this.zoom;
    this.zoom = zoom;
    this.pan = zoom === 1 ? [0, 0] : [x, y].map((at, k) => at + (this.middle + this.pan[k] - at) * by - this.middle);
    this.viewer.redraw();
  }

  moveBy(x, y) {
    if (this.zoom === 1) return;
    this.pan = [this.pan[0] + x, this.pan[1] + y];
    this.viewer.redraw();
  }

  reset() {
    Object.assign(this, { zoom: 1, pan: [0, 0] });
    this.viewer.redraw();
  }

  isVisible(part, i) {
    const { parts, picked } = this.viewer;
    return parts[part.name] && (picked === null || picked === part.classes[i]);
  }

  step(by) {
    const points = this.run.parts.flatMap((part) => part.classes.map((_, i) => ({ part, i })).filter(({ i }) => this.isVisible(part, i)));
    if (!points.length) return;
    const now = this.focus ? points.findIndex(({ part, i }) => part === this.focus.part && i === this.focus.i) : by < 0 ? 0 : -1;
    this.viewer.setFocus(this, points[(now + by + points.length) % points.length]);
  }

  /* The visible point nearest to (x, y) within `within` pixels; those in front first. */
  pick(x, y, within) {
    let best = null, least = within * within;
    for (const part of this.run.parts) {
      for (let i = 0; i < part.count; i++) {
        if (!this.isVisible(part, i)) continue;
        const dx = part.screen[3 * i] - x, dy = part.screen[3 * i + 1] - y;
        const behind = this.run.dim === 3 && part.screen[3 * i + 2] < 0;
        const distance = dx * dx + dy * dy + (behind ? within * within * 0.5 : 0);
        if (distance < least) [least, best] = [distance, { part, i }];
      }
    }
    return best;
  }

  fit() {
    const side = this.canvas.clientWidth, ratio = window.devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(side * ratio)) this.canvas.width = this.canvas.height = Math.round(side * ratio);
    this.side = side;
    this.middle = side / 2;
    this.origin = this.pan.map((offset) => this.middle + offset);
    this.scale = (this.middle * (this.run.unit && this.run.dim === 2 ? 0.78 : 0.84) * this.zoom) / this.run.radius; // room for names
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, side, side);
    return context;
  }

  /* A point of the run's space to x, y and depth on the canvas; in 3-D, turned. */
  toScreen(point, out, at = 0) {
    let [x, y, z] = point;
    if (this.run.dim === 3) {
      const { yaw, pitch } = this.viewer, cy = Math.cos(yaw), sy = Math.sin(yaw), cp = Math.cos(pitch), sp = Math.sin(pitch);
      [x, z] = [x * cy + z * sy, z * cy - x * sy];
      [y, z] = [y * cp - z * sp, z * cp + y * sp];
    }
    out[at] = this.origin[0] + x * this.scale;
    out[at + 1] = this.origin[1] - y * this.scale;
    out[at + 2] = z;
    return out;
  }

  draw() {
    const context = this.fit(), { run, viewer } = this;
    if (!this.side) return;
    const { low, high, mix } = run.between(viewer.time), point = [0, 0, 0];
    const visible = run.parts.filter((part) => viewer.parts[part.name]);
    for (const part of visible) {
      for (let i = 0; i < part.count; i++) {
        run.mixed(part.frames[low].points, part.frames[high].points, i, mix, point);
        const ring = run.unit && run.dim === 2 ? (RING[part.name] ?? 1) + 0.045 * spread(i) : 1;
        this.toScreen(point.map((value) => value * ring), part.screen, 3 * i);
      }
    }
    this.drawGround(context, false);
    if (run.dim === 3) {
      for (const part of visible) this.drawPoints(context, part, true);
      this.drawGround(context, true);
    }
    this.drawCenters(context, low, high, mix);
    for (const part of visible) this.drawPoints(context, part, false);
    this.drawFocus(context);
    this.describe();
  }

  drawPoints(context, part, behind) {
    const { run, viewer } = this, size = SIZE[part.name] * Math.min(2, Math.sqrt(this.zoom)), paths = new Map();
    for (let i = 0; i < part.count; i++) {
      const x = part.screen[3 * i], y = part.screen[3 * i + 1];
      if (run.dim === 3 && part.screen[3 * i + 2] < 0 !== behind) continue;
      const kind = part.classes[i];
      if (!paths.has(kind)) paths.set(kind, new Path2D());
      paths.get(kind).moveTo(x + size, y);
      paths.get(kind).arc(x, y, size, 0, 7);
    }
    for (const [kind, path] of paths) {
      context.globalAlpha = STRENGTH[part.name] * (behind ? 0.2 : 1) * (viewer.isFaded(kind) ? 0.08 : 1);
      context.fillStyle = context.strokeStyle = viewer.colour(kind);
      context.lineWidth = 1.2;
      if (part.name === "unseen") context.stroke(path);
      else context.fill(path);
    }
    context.globalAlpha = 1;
  }

  /* Axes and circle; of a sphere its outline, meridians and parallels, the half before or behind the middle. */
  drawGround(context, front) {
    const { run, origin: [x, y], scale } = this, { radius } = run;
    [context.lineWidth, context.strokeStyle] = [1, this.viewer.ink];
    const line = (alpha, draw) => {
      context.globalAlpha = alpha;
      context.beginPath();
      draw();
      context.stroke();
    };
    if (run.dim === 2) line(0.12, () => { context.moveTo(0, y); context.lineTo(this.side, y); context.moveTo(x, 0); context.lineTo(x, this.side); });
    if (run.unit && !front) line(0.3, () => context.arc(x, y, scale, 0, 7));
    if (run.dim === 3 && run.unit) {
      for (let k = 0; k < 6; k++) {
        const a = (k * Math.PI) / 6;
        line(front ? 0.15 : 0.06, () => this.curve(context, front, (t) => [Math.cos(t) * Math.cos(a), Math.sin(t), Math.cos(t) * Math.sin(a)]));
      }
      for (const height of [-0.5, 0, 0.5]) {
        const wide = Math.sqrt(1 - height * height);
        line(front ? 0.15 : 0.06, () => this.curve(context, front, (t) => [Math.cos(t) * wide, height, Math.sin(t) * wide]));
      }
    } else if (run.dim === 3) {
      for (let axis = 0; axis < 3; axis++) {
        line(front ? 0.15 : 0.06, () => this.curve(context, front, (t) => [0, 1, 2].map((d) => (d === axis ? Math.cos(t) * radius : 0))));
      }
    }
    context.globalAlpha = 1;
  }

  curve(context, front, at) {
    const spot = [0, 0, 0];
    let drawing = false;
    for (let step = 0; step <= 72; step++) {
      this.toScreen(at((step * Math.PI) / 36), spot);
      const here = spot[2] >= 0 === front;
      if (here) context[drawing ? "lineTo" : "moveTo"](spot[0], spot[1]);
      drawing = here;
    }
  }

  /* A line to each center; and names, each where none that is nearer to the eye already stands. */
  drawCenters(context, low, high, mix) {
    const { run, viewer, origin } = this, [from, to] = [run.centers[low], run.centers[high]];
    if (!from || from.length > MOST_NAMES) return;
    const centers = from.map((start, k) => {
      const point = [0, 1, 2].map((d) => ((start[d] ?? 0) * (1 - mix) + (to[k][d] ?? 0) * mix) * (run.unit ? 1 : run.radius));
      const spot = this.toScreen(point, [0, 0, 0]), kind = run.known[k], faded = viewer.isFaded(kind);
      return { spot, kind, strength: (faded ? 0.15 : 1) * (run.dim === 3 && spot[2] < 0 ? 0.35 : 1) };
    });
    for (const { spot, kind, strength } of centers) {
      [context.globalAlpha, context.strokeStyle, context.lineWidth] = [strength, viewer.colour(kind), 2];
      context.setLineDash(run.means ? [5, 4] : []);
      context.beginPath();
      context.moveTo(...origin);
      context.lineTo(spot[0], spot[1]);
      context.stroke();
    }
    context.setLineDash([]);
    Object.assign(context, { font: "600 13px system-ui, sans-serif", textAlign: "center", textBaseline: "middle" });
    const taken = [];
    const order = [...centers].sort((a, b) => b.strength - a.strength || b.spot[2] - a.spot[2]);
    for (const { spot, kind, strength } of order) {
      const name = viewer.classes[kind], half = context.measureText(name).width / 2 + 2;
      const away = [spot[0] - origin[0], spot[1] - origin[1]], length = Math.hypot(...away) || 1;
      const first = run.unit && run.dim === 2 ? this.scale * 1.165 : length + 11 + half * Math.abs(away[0] / length) * 0.5;
      const free = [0, 15, 30].map((more) => away.map((value, k) => origin[k] + (value / length) * (first + more)))
        .find(([x, y]) => !taken.some((other) => Math.abs(other.x - x) < other.half + half && Math.abs(other.y - y) < 15));
      if (!free) continue;
      const [x, y] = free;
      taken.push({ x, y, half });
      [context.globalAlpha, context.lineWidth, context.strokeStyle, context.fillStyle] = [strength, 4, viewer.card, viewer.ink];
      context.strokeText(name, x, y);
      context.fillText(name, x, y);
    }
    context.globalAlpha = 1;
  }

  drawFocus(context) {
    if (!this.focus || !this.viewer.parts[this.focus.part.name]) return;
    const { part, i } = this.focus;
    [context.lineWidth, context.strokeStyle] = [2, this.viewer.ink];
    context.beginPath();
    context.arc(part.screen[3 * i], part.screen[3 * i + 1], 7, 0, 7);
    context.stroke();
  }

  /* What the picture says, in words and numbers. */
  describe() {
    const { run, viewer } = this, frame = run.nearestFrame(viewer.time), center = run.means ? "mean direction" : "center";
    const said = run.parts.filter((part) => part.name !== "train").map((part) => {
      const [own, other] = [run.meanAngle(part, frame, 0), run.meanAngle(part, frame, 1)];
      if (own !== null) return `Test: ${degrees(own)} to the own ${center}${other === null ? "" : `, ${degrees(other)} to the nearest other`}`;
      return other === null ? "" : `Unseen: ${degrees(other)} to the nearest ${center}`;
    }).filter(Boolean);
    const epoch = run.epochs[frame];
    const text = said.length ? `Mean angles after epoch ${epoch}. ${said.join(". ")}.` : `After epoch ${epoch}.`;
    if (this.stats.textContent === text) return;
    this.stats.textContent = text;
    const arrows = run.dim === 3 ? "arrow keys turn it" : "arrow keys step through the epochs";
    this.canvas.setAttribute("aria-label", `Embeddings of ${run.name}. ${text} N and P step through the points; ${arrows}; plus and minus zoom.`);
  }
}

/* The controls, the clock and the tip. */
class Viewer {
  constructor(element, data, { most = Infinity, partNames = {} }) {
    Object.assign(this, { classes: [...(data.classes ?? [])], colours: data.colours, most, partNames, entries: data.runs });
    this.sheets = (data.sheets ?? []).map(withImage);
    this.loaded = new Map(); // number of a run to its RunData, to a promise of it, or to why there is none
    this.chosen = new Set(data.shown);
    Object.assign(this, { parts: {}, panels: [], last: 0, time: Infinity, pinned: null, hovered: null, playing: false, yaw: 0.6, pitch: 0.35 });
    const group = (className, label) => make("div", { className, role: "group", label });
    this.choice = group("choice", "Runs to show");
    this.playButton = make("button", { type: "button", className: "play", onclick: () => this.toggle() });
    this.epochText = make("span", { className: "epoch-text", textContent: "Epoch" });
    this.slider = make("input", { type: "range", className: "epoch", min: 0, max: 1, step: 1, value: 0, label: "Epoch" });
    this.slider.addEventListener("input", () => { this.stop(); this.setTime(Number(this.slider.value)); });
    this.partBox = group("parts", "Samples to show");
    this.legend = group("legend", "Classes: press one to pick it out");
    this.grid = make("div", { className: "panels" });
    this.tipImage = make("canvas", { ariaHidden: "true" });
    this.tipText = make("div");
    this.tip = make("div", { className: "tip", role: "status", hidden: true }, this.tipImage, this.tipText);
    this.buildChoice();
    element.classList.add("viewer");
    element.replaceChildren(this.choice,
      make("div", { className: "controls" }, this.playButton, make("label", { className: "slider" }, this.epochText, this.slider), this.partBox),
      this.legend, this.grid, this.tip);
    this.stop();
    this.repaint();
    this.showPanels();
    new ResizeObserver(() => this.redraw()).observe(this.grid);
    darkScheme.addEventListener("change", () => this.repaint());
  }

  get picked() { return this.hovered ?? this.pinned; }
  isFaded(kind) { return this.picked !== null && this.picked !== kind; }
  colour(kind) { return this.palette[kind % this.palette.length]; }

  /* Take over the page's colours, when it turns light or dark. */
  repaint() {
    const style = getComputedStyle(document.documentElement);
    [this.ink, this.card] = ["--ink", "--card"].map((name) => style.getPropertyValue(name).trim());
    this.palette = this.colours?.[isDark() ? "dark" : "light"];
    for (const button of this.legend.querySelectorAll("button")) button.style.setProperty("--mark", this.colour(button.value));
    this.redraw();
  }

  buildChoice() {
    const groups = new Map(), title = this.most < this.entries.length ? `Runs (${this.most} at once)` : "Runs";
    this.chips = this.entries.map(({ name, group = "" }, number) => {
      if (!groups.has(group)) groups.set(group, make("fieldset", {}, make("legend", { textContent: group || title })));
      const chip = this.chip(name, this.chosen.has(number), (on) => {
        this.chosen[on ? "add" : "delete"](number);
        if (this.loaded.get(number) instanceof Error) this.loaded.delete(number); // tried again when it is next opened
        this.showPanels();
      });
      groups.get(group).append(chip);
      return chip;
    });
    this.choice.append(...groups.values());
    this.choice.hidden = this.entries.length < 2;
  }

  chip(text, checked, changed, ...before) {
    const box = make("input", { type: "checkbox", checked, onchange: () => changed(box.checked) });
    return make("label", { className: "chip" }, box, ...before, text);
  }

  buildParts() {
    const present = ["train", "test", "unseen"].filter((name) => this.panels.some(({ run }) => run.parts.some((part) => part.name === name)));
    this.partBox.replaceChildren(...present.map((name) => {
      this.parts[name] ??= name !== "train" || !present.includes("test");
      const chip = this.chip(this.partNames[name] ?? name, this.parts[name], (on) => { this.parts[name] = on; this.setFocus(null); },
        make("span", { className: `mark ${{ train: "small", unseen: "hollow" }[name] ?? ""}` }));
      chip.dataset.part = name;
      return chip;
    }));
  }

  /* The classes of the open runs, hollow where none of those runs knows them. */
  buildLegend() {
    const runs = this.panels.map((panel) => panel.run), known = new Set(runs.flatMap((run) => run.known));
    const present = new Set([...known, ...runs.flatMap((run) => run.parts.flatMap((part) => part.classes))]);
    if (!present.has(this.pinned)) this.pinned = null;
    const kinds = [...present].sort((a, b) => a - b), more = kinds.length - MOST_LEGEND;
    this.legend.replaceChildren(...kinds.slice(0, MOST_LEGEND).map((kind) => this.legendButton(kind, known.has(kind))));
    if (more > 0) this.legend.append(make("span", { className: "note", textContent: `and ${more} more` }));
  }

  legendButton(kind, isKnown) {
    const name = this.classes[kind], label = isKnown ? name : `${name}, ${this.partNames.unseen ?? "unseen"}`;
    const button = make("button", { type: "button", value: kind, label, ariaPressed: String(this.pinned === kind) },
      make("span", { className: isKnown ? "mark" : "mark hollow" }), name);
    button.style.setProperty("--mark", this.colour(kind));
    const hover = (to) => { this.hovered = to; this.redraw(); };
    button.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && hover(kind));
    button.addEventListener("pointerleave", () => hover(null));
    button.addEventListener("click", () => {
      this.pinned = this.pinned === kind ? null : kind;
      for (const other of this.legend.querySelectorAll("button")) other.ariaPressed = String(other.value === String(this.pinned));
      this.setFocus(null);
    });
    return button;
  }

  /* The run of data that came later; its classes and sheets get numbers that follow those of the others. */
  adopt({ classes, colours, sheets, runs: [run] }) {
    const before = new Map(this.classes.map((name, kind) => [name, kind])), firstSheet = this.sheets.length;
    const kinds = classes.map((name) => before.get(name) ?? this.classes.push(name) - 1), renumber = (numbers) => numbers.map((number) => kinds[number]);
    this.sheets.push(...sheets.map(withImage));
    if (!this.colours) {
      this.colours = colours;
      this.repaint();
    }
    const parts = run.parts.map((part) => ({ ...part, classes: renumber(part.classes), sheet: part.sheet === null ? null : firstSheet + part.sheet }));
    return { ...run, known: renumber(run.known), parts };
  }

  showPanels() {
    const numbers = [...this.chosen].sort((a, b) => a - b);
    for (const number of numbers.filter((each) => !this.loaded.has(each))) {
      const entry = this.entries[number], keep = (run) => this.loaded.set(number, run);
      if (!entry.load) keep(new RunData(entry));
      else keep(entry.load().then((later) => keep(new RunData({ ...this.adopt(later), ...entry }))).catch(keep).then(() => this.showPanels()));
    }
    this.chips.forEach((chip, number) => { chip.control.disabled = !this.chosen.has(number) && this.chosen.size >= this.most; });
    const found = numbers.map((number) => this.loaded.get(number));
    const panels = found.filter((run) => run instanceof RunData).map((run) => this.panels.find((panel) => panel.run === run) ?? new Panel(run, this));
    this.setFocus(null);
    this.panels = panels;
    const said = found.flatMap((run) => (run instanceof Error ? [run.message] : run instanceof Promise ? ["Loading …"] : []));
    if (!numbers.length) said.push("Choose a run above.");
    this.grid.replaceChildren(...panels.map((panel) => panel.root), ...said.map((textContent) => make("p", { className: "empty", textContent })));
    this.buildParts();
    this.buildLegend();
    const ended = this.time >= this.last; // who looks at the end stays there
    this.last = Math.max(1, ...panels.map((panel) => panel.run.last));
    this.slider.max = this.last;
    this.setTime(ended ? this.last : this.time);
  }

  setTime(time) {
    this.time = Math.min(Math.max(time, 0), this.last);
    const epoch = Math.floor(this.time + 1e-6), text = `Epoch ${epoch} of ${this.last}`;
    this.slider.value = epoch;
    this.slider.setAttribute("aria-valuetext", epoch ? text : `${text}, before training`);
    this.epochText.textContent = text;
    this.redraw();
  }

  stepEpoch(by) {
    this.stop();
    this.setTime(Math.round(this.time) + by);
  }

  toggle() { return this.playing ? this.stop() : this.play(); }

  play() {
    if (this.time >= this.last) this.setTime(0);
    this.playing = true;
    this.playButton.textContent = "❚❚ Pause";
    const pace = Math.max(1 / 1.1, this.last / 14); // epochs per second: at most 14 seconds in all
    let before = null, exact = this.time;
    const step = (now) => {
      if (!this.playing) return;
      const passed = before === null ? 0 : Math.min((now - before) / 1000, 0.1);
      before = now;
      exact = Math.min(exact + passed * pace, this.last);
      if (!calm.matches) this.yaw += passed * 0.25;
      this.setTime(calm.matches ? Math.floor(exact + 1e-6) : exact);
      if (exact >= this.last) this.stop();
      else requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }

  stop() {
    this.playing = false;
    this.playButton.textContent = "▶ Play";
  }

  rotate(yaw, pitch) {
    this.yaw += yaw;
    this.pitch = Math.min(Math.max(this.pitch + pitch, -1.5), 1.5);
    this.redraw();
  }

  redraw() {
    this.waiting ??= requestAnimationFrame(() => this.drawNow());
  }

  drawNow() {
    this.waiting = null;
    for (const panel of this.panels) panel.draw();
    const focused = this.panels.find((panel) => panel.focus);
    if (focused) this.showTip(focused);
  }

  /* Show the tip of a panel's point {part, i}; hide every tip without one. */
  setFocus(panel, focus = null) {
    for (const other of this.panels) other.focus = other === panel ? focus : null;
    if (!focus) this.tip.hidden = true;
    this.redraw();
  }

  showTip(panel) {
    const { part, i } = panel.focus, sheet = this.sheets[part.sheet];
    this.tipImage.hidden = !sheet?.image.complete;
    if (!this.tipImage.hidden) {
      const { width, height, columns } = sheet;
      Object.assign(this.tipImage, { width, height });
      this.tipImage.getContext("2d").drawImage(sheet.image, (i % columns) * width, Math.floor(i / columns) * height, width, height, 0, 0, width, height);
    }
    const lines = this.words(panel.run, part, i);
    if (this.said !== lines.join()) { // read aloud only when it changes
      this.said = lines.join();
      this.tipText.replaceChildren(...lines.map((textContent, number) => make(number ? "span" : "b", { textContent })));
    }
    this.tip.hidden = false;
    const box = panel.canvas.getBoundingClientRect(), size = this.tip.getBoundingClientRect();
    const x = box.left + part.screen[3 * i], y = box.top + part.screen[3 * i + 1];
    const left = Math.min(Math.max(x + 16, 8), document.documentElement.clientWidth - size.width - 8);
    const top = y - size.height - 14 < 8 ? y + 18 : y - size.height - 14;
    Object.assign(this.tip.style, { left: `${left + scrollX}px`, top: `${top + scrollY}px` });
  }

  /* A point in words, at the kept epoch that is nearest to the moment shown. */
  words(run, part, i) {
    const title = `${this.classes[part.classes[i]]} · ${this.partNames[part.name] ?? part.name}`;
    const { angles } = part.frames[run.nearestFrame(this.time)], center = run.means ? "mean direction" : "center";
    if (!angles) return [title];
    const [own, other, which] = angles.subarray(3 * i, 3 * i + 3), name = this.classes[run.known[which]];
    if (own === NO_ANGLE) return [title, `nearest ${center}: ${name}, ${degrees(other / 100)} away`];
    if (other === NO_ANGLE) return [title, `own ${center}: ${degrees(own / 100)}`];
    const nearer = other < own ? [`nearer to ${name} than to its own`] : [];
    return [title, `own ${center}: ${degrees(own / 100)}`, `nearest other: ${name}, ${degrees(other / 100)}`, ...nearer];
  }

  /* Where a point is in the window, for programs that look at the page. */
  position(panel, name, i) {
    this.drawNow();
    const part = this.panels[panel].run.parts.find((each) => each.name === name), box = this.panels[panel].canvas.getBoundingClientRect();
    return { x: box.left + part.screen[3 * i], y: box.top + part.screen[3 * i + 1], depth: part.screen[3 * i + 2] };
  }
}
