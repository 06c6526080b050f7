/* Viewer: the controls, the clock, the tooltip; and the page's switch between light and dark. */
class Viewer {
  constructor(data) {
    this.classes = data.classes;
    this.colours = data.colours;
    this.sheets = data.sprites.map((sprite) => ({ ...sprite, image: Object.assign(new Image(), { src: sprite.url }) }));
    this.runs = data.runs.map((run) => new Run(run));
    this.chosen = new Set(data.shown);
    this.last = 0;
    this.time = Infinity;
    this.parts = {};
    this.pinned = this.hovered = null;
    this.playing = false;
    this.yaw = 0.6;
    this.pitch = 0.35;
    this.panels = [];
    this.calm = window.matchMedia("(prefers-reduced-motion: reduce)");
    this.find = (id) => document.getElementById(id);
    this.tip = this.find("tip");
    this.buildChoice();
    this.buildParts();
    this.buildLegend();
    this.buildClock();
    this.find("viewer").hidden = false;
    this.readTheme();
    this.showPanels();
    new ResizeObserver(() => this.redraw()).observe(this.find("panels"));
  }

  get picked() { return this.hovered ?? this.pinned; }
  get turn() {
    return { cy: Math.cos(this.yaw), sy: Math.sin(this.yaw), cp: Math.cos(this.pitch), sp: Math.sin(this.pitch) };
  }
  colour(kind) { return this.palette[kind % this.palette.length]; }

  readTheme() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(name).trim();
    [this.grid, this.ink, this.card] = [read("--grid"), read("--ink"), read("--card")];
    this.palette = this.colours[isDark() ? "dark" : "light"];
    document.querySelectorAll("#legend .mark").forEach((mark, kind) => { mark.style.color = this.colour(kind); });
    this.redraw();
  }

  buildChoice() {
    const groups = new Map();
    this.runs.forEach((run, place) => {
      if (!groups.has(run.group)) {
        const box = element("fieldset", {}, element("legend", { textContent: run.group || "Runs" }));
        groups.set(run.group, box);
        this.find("choice").append(box);
      }
      groups.get(run.group).append(this.chip(run.name, this.chosen.has(place), (on) => {
        if (on) this.chosen.add(place);
        else this.chosen.delete(place);
        this.showPanels();
      }));
    });
  }

  chip(text, checked, changed, ...before) {
    const box = element("input", { type: "checkbox", checked });
    box.addEventListener("change", () => changed(box.checked));
    return element("label", { className: "chip" }, box, ...before, text);
  }

  buildParts() {
    const counts = new Map();
    for (const run of this.runs) {
      for (const part of run.parts) counts.set(part.name, Math.max(counts.get(part.name) ?? 0, part.classes.length));
    }
    for (const name of ["train", "test", "unseen"].filter((name) => counts.get(name))) {
      this.parts[name] = name !== "train" || !counts.has("test");
      const chip = this.chip(name, this.parts[name], (on) => {
        this.parts[name] = on;
        this.hideTip();
        this.redraw();
      }, element("span", { className: `mark ${name}` }));
      chip.dataset.part = name;
      this.find("parts").append(chip);
    }
  }

  buildLegend() {
    const legend = this.find("legend"), most = 40;
    this.classes.slice(0, most).forEach((name, kind) => {
      const button = element("button", { type: "button" }, element("span", { className: "mark" }), name);
      button.setAttribute("aria-pressed", "false");
      const hover = (to) => () => { this.hovered = to; this.redraw(); };
      button.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && hover(kind)());
      button.addEventListener("pointerleave", hover(null));
      button.addEventListener("click", () => {
        this.pinned = this.pinned === kind ? null : kind;
        legend.querySelectorAll("button").forEach((other, place) => other.setAttribute("aria-pressed", String(place === this.pinned)));
        this.hideTip();
        this.redraw();
      });
      legend.append(button);
    });
    if (this.classes.length > most) legend.append(`and ${this.classes.length - most} more`);
  }

  buildClock() {
    const slider = this.find("epoch");
    slider.addEventListener("input", () => { this.stop(); this.setTime(Number(slider.value)); });
    this.find("play").addEventListener("click", () => (this.playing ? this.stop() : this.start()));
  }

  setTime(time) {
    this.time = Math.min(Math.max(time, 0), this.last);
    const epoch = Math.floor(this.time + 1e-6), text = `Epoch ${epoch} of ${this.last}`;
    this.find("epoch").value = epoch;
    this.find("epoch").setAttribute("aria-valuetext", epoch ? text : `${text}, before training`);
    this.find("epoch-text").textContent = text;
    this.redraw();
  }

  start() {
    if (this.time >= this.last) this.setTime(0);
    this.playing = true;
    this.showPlay("❚❚", "Pause");
    let before = null;
    const pace = Math.max(1 / 1.1, this.last / 14); // epochs per second: at most 14 seconds in all
    let exact = this.time;
    const step = (now) => {
      if (!this.playing) return;
      const passed = before === null ? 0 : Math.min((now - before) / 1000, 0.1);
      before = now;
      exact = Math.min(exact + passed * pace, this.last);
      if (!this.calm.matches) this.yaw += passed * 0.25;
      this.setTime(this.calm.matches ? Math.floor(exact + 1e-6) : exact);
      if (exact >= this.last) this.stop();
      else requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }

  stop() {
    if (!this.playing) return;
    this.playing = false;
    this.showPlay("▶", "Play");
  }

  showPlay(sign, word) {
    this.find("play").replaceChildren(element("span", { textContent: sign, ariaHidden: "true" }), ` ${word}`);
  }

  showPanels() {
    this.hideTip();
    this.panels = [...this.chosen].sort((a, b) => a - b).map((place) => new Panel(this.runs[place], this));
    const empty = element("p", { className: "empty", textContent: "Choose a run above." });
    this.find("panels").replaceChildren(...(this.panels.length ? this.panels.map((panel) => panel.root) : [empty]));
    for (const panel of this.panels) this.listen(panel);
    this.fitLegend();
    const ended = this.time >= this.last; // who looks at the end stays there
    this.last = Math.max(1, ...this.panels.map((panel) => panel.run.last));
    this.find("epoch").max = this.last;
    this.setTime(ended ? this.last : this.time);
  }

  /* Only the classes that the open runs have, hollow where none of those runs knows them. */
  fitLegend() {
    const runs = this.panels.map((panel) => panel.run);
    const known = new Set(runs.flatMap((run) => run.known));
    const present = new Set(runs.flatMap((run) => run.parts.flatMap((part) => part.classes)));
    this.find("legend").querySelectorAll("button").forEach((button, kind) => {
      button.hidden = runs.length > 0 && !present.has(kind) && !known.has(kind);
      button.firstChild.className = known.has(kind) ? "mark" : "mark unseen";
    });
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

  listen(panel) {
    const canvas = panel.canvas;
    const turns = panel.run.dim === 3;
    let from = null;
    canvas.addEventListener("pointerdown", (event) => {
      from = { x: event.clientX, y: event.clientY };
      if (turns) canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (from && turns && event.buttons) {
        const far = Math.hypot(event.clientX - from.x, event.clientY - from.y) > 4; // a tap may tremble
        if (!far && !canvas.classList.contains("turning")) return;
        canvas.classList.add("turning");
        this.hideTip();
        this.rotate((event.clientX - from.x) * 0.008, (event.clientY - from.y) * 0.008);
        from = { x: event.clientX, y: event.clientY };
      } else if (event.pointerType === "mouse") this.point(panel, event, 12);
    });
    canvas.addEventListener("pointerup", (event) => {
      if (event.pointerType !== "mouse" && !canvas.classList.contains("turning")) this.point(panel, event, 22);
      canvas.classList.remove("turning");
      from = null;
    });
    canvas.addEventListener("pointercancel", () => { from = null; canvas.classList.remove("turning"); });
    canvas.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && this.hideTip());
    canvas.addEventListener("blur", () => this.hideTip());
    canvas.addEventListener("keydown", (event) => this.key(panel, event));
  }

  rotate(yaw, pitch) {
    this.yaw += yaw;
    this.pitch = Math.min(Math.max(this.pitch + pitch, -1.5), 1.5);
    this.redraw();
  }

  key(panel, event) {
    const turns = { ArrowLeft: [-0.12, 0], ArrowRight: [0.12, 0], ArrowUp: [0, -0.12], ArrowDown: [0, 0.12] };
    const step = { n: 1, p: -1 }[event.key.toLowerCase()];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") this.hideTip();
    else if (panel.run.dim === 3 && turns[event.key]) this.rotate(...turns[event.key]);
    else if (step) this.stepPoint(panel, step);
    else return;
    event.preventDefault();
  }

  stepPoint(panel, step) {
    const points = panel.run.pieces.filter((part) => this.parts[part.name]).flatMap((part) =>
      part.classes.map((kind, i) => ({ part, i, kind })).filter(({ kind }) => this.picked === null || kind === this.picked));
    if (!points.length) return;
    const now = panel.focus ? points.findIndex(({ part, i }) => part === panel.focus.part && i === panel.focus.i) : -1;
    this.setFocus(panel, points[(now + step + points.length) % points.length]);
  }

  point(panel, event, within) {
    const box = panel.canvas.getBoundingClientRect();
    this.setFocus(panel, panel.pick(event.clientX - box.left, event.clientY - box.top, within));
  }

  setFocus(panel, focus) {
    for (const other of this.panels) other.focus = null;
    panel.focus = focus;
    if (!focus) this.tip.hidden = true;
    this.redraw();
  }

  hideTip() {
    for (const panel of this.panels) panel.focus = null;
    this.tip.hidden = true;
    this.redraw();
  }

  showTip(panel) {
    const { part, i } = panel.focus, sheet = this.sheets[part.sprite], picture = this.find("tip-image");
    [picture.width, picture.height] = [sheet.width, sheet.height];
    if (sheet.image.complete) {
      picture.getContext("2d").drawImage(sheet.image, (i % sheet.columns) * sheet.width, Math.floor(i / sheet.columns) * sheet.height,
        sheet.width, sheet.height, 0, 0, sheet.width, sheet.height);
    }
    const lines = this.words(panel.run, part, i), text = this.find("tip-text");
    if (text.dataset.said !== lines.join()) { // said aloud only when it changes
      text.dataset.said = lines.join();
      text.replaceChildren(...lines.map((line, place) => element(place ? "span" : "b", { textContent: line })));
    }
    this.tip.hidden = false;
    const box = panel.canvas.getBoundingClientRect(), size = this.tip.getBoundingClientRect();
    const x = box.left + part.screen[3 * i], y = box.top + part.screen[3 * i + 1];
    const left = Math.min(Math.max(x + 16, 8), document.documentElement.clientWidth - size.width - 8);
    const top = y - size.height - 14 < 8 ? y + 18 : y - size.height - 14;
    this.tip.style.left = `${left + window.scrollX}px`;
    this.tip.style.top = `${top + window.scrollY}px`;
  }

  /* A point in words, at the kept epoch that is nearest to the moment shown. */
  words(run, part, i) {
    const [own, other, which] = part.frames[run.nearestFrame(this.time)].angles.subarray(3 * i, 3 * i + 3);
    const degrees = (steps) => `${(steps / 100).toFixed(1)}°`, what = run.means ? "mean direction" : "center";
    const title = `${this.classes[part.classes[i]]} · ${part.name}`;
    const name = this.classes[run.known[which]];
    if (own === NO_ANGLE) return [title, `nearest ${what}: ${name}, ${degrees(other)} away`];
    if (other === NO_ANGLE) return [title, `own ${what}: ${degrees(own)}`];
    return [title, `own ${what}: ${degrees(own)}`, `nearest other: ${name}, ${degrees(other)}`, ...(other < own ? [`nearer to ${name} than to its own`] : [])];
  }

  /* Where a point is in the window, for programs that look at the page. */
  position(panel, name, i) {
    this.drawNow();
    const part = this.panels[panel].run.pieces.find((piece) => piece.name === name);
    const box = this.panels[panel].canvas.getBoundingClientRect();
    return { x: box.left + part.screen[3 * i], y: box.top + part.screen[3 * i + 1], depth: part.screen[3 * i + 2] };
  }
}

const darkScheme = window.matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme || (darkScheme.matches ? "dark" : "light")) === "dark";

(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const button = document.getElementById("theme");
  if (data.runs.length) window.arcsetViewer = new Viewer(data);
  const show = () => {
    button.textContent = isDark() ? "☀ Light" : "☾ Dark";
    button.setAttribute("aria-label", isDark() ? "Light page" : "Dark page");
    if (window.arcsetViewer) window.arcsetViewer.readTheme();
  };
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    show();
  });
  darkScheme.addEventListener("change", show);
  button.hidden = false;
  show();
})();
