/* One run on a canvas: a circle or a sphere, its points, and the one under the pointer. */
import { make } from "./dom.js";

const RING = { train: 0.93, test: 1, unseen: 1.075 }; // of points on a circle, so that parts stay apart
const SIZE = { train: 1.7, test: 2.7, unseen: 2.9 };
const STRENGTH = { train: 0.45, test: 0.9, unseen: 0.9 };

/* Always the same small offset for the same point, in −0.5 … 0.5. */
const spread = (i) => ((i * 0.6180339887) % 1) - 0.5;

export class Panel {
  constructor(run, view) {
    this.run = run;
    this.view = view;
    this.focus = null; // the number of the point that is shown
    this.canvas = make("canvas", { tabindex: 0, role: "img", class: run.dim === 3 ? "turns" : "" });
    this.epoch = make("span", { class: "soft" });
    this.tipImage = make("canvas", { width: 64, height: 64 });
    this.tipText = make("div");
    this.tip = make("div", { class: "tip card", hidden: true }, this.tipImage, this.tipText);
    this.root = make("figure", { class: "card panel" },
      make("figcaption", {}, make("h3", { text: run.title }), this.epoch), this.canvas, this.tip);
    this.listen();
  }

  listen() {
    const { canvas, run, view } = this;
    const place = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    let from = null, moved = 0;
    canvas.addEventListener("pointerdown", (event) => {
      from = [event.clientX, event.clientY];
      moved = 0;
      if (run.dim !== 3) return;
      canvas.setPointerCapture(event.pointerId);
      canvas.classList.add("turning");
    });
    canvas.addEventListener("pointermove", (event) => {
      if (run.dim === 3 && canvas.hasPointerCapture(event.pointerId)) {
        const [x, y] = [event.clientX - from[0], event.clientY - from[1]];
        moved += Math.abs(x) + Math.abs(y);
        view.turnBy(x * 0.01, y * 0.01);
        from = [event.clientX, event.clientY];
        this.point(null);
      } else if (event.pointerType === "mouse") this.point(this.pick(...place(event), 14));
    });
    const release = () => canvas.classList.remove("turning");
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("click", (event) => { if (moved < 8) this.point(this.pick(...place(event), 24)); });
    canvas.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") this.point(null); });
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("blur", () => this.point(null));
  }

  key(event) {
    const { view, run } = this, turn = 0.12;
    const turns = { ArrowLeft: [-turn, 0], ArrowRight: [turn, 0], ArrowUp: [0, -turn], ArrowDown: [0, turn] };
    if (event.key === "n" || event.key === "p") this.step(event.key === "n" ? 1 : -1);
    else if (event.key === " ") view.toggle();
    else if (event.key === "Escape") this.point(null);
    else if (run.dim === 3 && event.key in turns) view.turnBy(...turns[event.key]);
    else if (event.key === "ArrowLeft" || event.key === "ArrowRight") view.stepBy(event.key === "ArrowRight" ? 1 : -1);
    else return;
    event.preventDefault();
  }

  step(by) {
    const { run } = this;
    let i = this.focus ?? (by > 0 ? -1 : run.count);
    for (let tried = 0; tried < run.count; tried++) {
      i = (i + by + run.count) % run.count;
      if (this.visible(i) && !(run.dim === 3 && run.screen[3 * i + 2] < 0)) return this.point(i);
    }
  }

  visible(i) {
    const name = this.run.classes[this.run.labels[i]];
    return this.view.parts[this.run.parts[i]] && (this.view.picked === null || this.view.picked === name);
  }

  /* Show the image of a point, or hide it. */
  point(i) {
    if (i === this.focus) return;
    this.focus = i;
    this.draw();
    this.tip.hidden = i === null;
    if (i === null) return;
    const { run } = this, name = run.classes[run.labels[i]], part = run.parts[i];
    run.drawImage(this.tipImage.getContext("2d"), i, 64);
    this.tipText.replaceChildren(make("b", { text: name }),
      make("span", { text: part === "unseen" ? "never seen in training" : part === "train" ? "from the training set" : "from the test set" }));
    const x = run.screen[3 * i] + this.canvas.offsetLeft, y = run.screen[3 * i + 1] + this.canvas.offsetTop;
    const width = this.tip.offsetWidth, height = this.tip.offsetHeight;
    this.tip.style.left = `${Math.max(4, Math.min(this.root.clientWidth - width - 4, x + 14))}px`;
    this.tip.style.top = `${y - height - 12 < 0 ? y + 14 : y - height - 12}px`;
    this.view.say(`${name}, ${this.tipText.lastChild.textContent}`);
  }

  pick(x, y, within) {
    const { run } = this;
    let best = null, least = within * within;
    for (let i = 0; i < run.count; i++) {
      if (!this.visible(i)) continue;
      const dx = run.screen[3 * i] - x, dy = run.screen[3 * i + 1] - y;
      const behind = run.dim === 3 && run.screen[3 * i + 2] < 0;
      const distance = dx * dx + dy * dy + (behind ? within * within * 0.6 : 0);
      if (distance < least) [least, best] = [distance, i];
    }
    return best;
  }

  fit() {
    const side = this.canvas.clientWidth, ratio = window.devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(side * ratio)) this.canvas.width = this.canvas.height = Math.round(side * ratio);
    this.side = side;
    this.middle = side / 2;
    this.zoom = (this.middle * (this.run.unit && this.run.dim === 2 ? 0.82 : 0.88)) / this.run.radius;
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, side, side);
    return context;
  }

  /* A point of the run's space to x, y and depth on the canvas. */
  project(point, out, at = 0) {
    let [x, y, z = 0] = point;
    if (this.run.dim === 3) {
      const { cy, sy, cp, sp } = this.view.turn;
      [x, z] = [x * cy + z * sy, z * cy - x * sy];
      [y, z] = [y * cp - z * sp, z * cp + y * sp];
    }
    out[at] = this.middle + x * this.zoom;
    out[at + 1] = this.middle - y * this.zoom;
    out[at + 2] = z;
    return out;
  }

  draw() {
    const context = this.fit(), { run, view } = this;
    if (!this.side) return;
    const time = Math.min(view.time, run.lastEpoch), { low, high, mix } = run.between(time);
    const point = [0, 0, 0], rings = run.unit && run.dim === 2;
    for (let i = 0; i < run.count; i++) {
      run.mixed(low.points, high.points, i, mix, point);
      if (rings) {
        const ring = RING[run.parts[i]] + 0.05 * spread(i);
        point[0] *= ring;
        point[1] *= ring;
      }
      this.project(point, run.screen, 3 * i);
    }
    this.ground(context, false);
    if (run.dim === 3) {
      this.points(context, true);
      this.ground(context, true);
    }
    this.centers(context, low, high, mix);
    this.points(context, false);
    this.circleFocus(context);
    const text = `epoch ${Math.round(time)}${run.lastEpoch < view.time ? " (its last)" : ""}${run.unit ? "" : ", length matters"}`;
    if (this.epoch.textContent !== text) {
      this.epoch.textContent = text;
      const keys = run.dim === 3 ? "Arrow keys turn it" : "Arrow keys step through the epochs";
      this.canvas.setAttribute("aria-label", `${run.count} points of ${run.title}, ${text}. ${keys}, N and P step through the points, Space plays.`);
    }
  }

  points(context, behind) {
    const { run, view } = this, paths = new Map();
    for (let i = 0; i < run.count; i++) {
      const part = run.parts[i];
      if (!view.parts[part] || (run.dim === 3 && run.screen[3 * i + 2] < 0 !== behind)) continue;
      const name = `${part} ${run.labels[i]}`;
      if (!paths.has(name)) paths.set(name, { part, label: run.labels[i], path: new Path2D() });
      const x = run.screen[3 * i], y = run.screen[3 * i + 1];
      const { path } = paths.get(name);
      path.moveTo(x + SIZE[part], y);
      path.arc(x, y, SIZE[part], 0, 7);
    }
    for (const { part, label, path } of paths.values()) {
      const faded = view.picked !== null && view.picked !== run.classes[label];
      context.globalAlpha = STRENGTH[part] * (behind ? 0.18 : 1) * (faded ? 0.08 : 1);
      context.fillStyle = context.strokeStyle = view.colour(run.classes[label]);
      context.lineWidth = 1.4;
      if (part === "unseen") context.stroke(path);
      else context.fill(path);
    }
    context.globalAlpha = 1;
  }

  /* The circle; of a sphere its outline and some circles of latitude and longitude. */
  ground(context, front) {
    const { run, view } = this;
    context.strokeStyle = view.ink;
    context.lineWidth = 1;
    if (run.dim === 2) {
      context.globalAlpha = 0.16;
      context.beginPath();
      if (run.unit) context.arc(this.middle, this.middle, this.zoom, 0, 7);
      else {
        context.moveTo(0, this.middle);
        context.lineTo(this.side, this.middle);
        context.moveTo(this.middle, 0);
        context.lineTo(this.middle, this.side);
      }
      context.stroke();
      context.globalAlpha = 1;
      return;
    }
    const radius = run.radius, out = [0, 0, 0];
    context.globalAlpha = front ? 0.17 : 0.06;
    for (let line = 0; line < 11; line++) {
      context.beginPath();
      let drawing = false;
      for (let step = 0; step <= 72; step++) {
        const angle = (step / 72) * 2 * Math.PI;
        const point = line < 6 ? longitude((line / 6) * Math.PI, angle) : latitude(((line - 8) / 6) * Math.PI, angle);
        this.project(point.map((value) => value * radius), out);
        const shown = out[2] >= 0 === front;
        if (shown && drawing) context.lineTo(out[0], out[1]);
        else if (shown) context.moveTo(out[0], out[1]);
        drawing = shown;
      }
      context.stroke();
    }
    if (front) {
      context.globalAlpha = 0.3;
      context.beginPath();
      context.arc(this.middle, this.middle, this.zoom * radius, 0, 7);
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  /* A line from the origin in the direction of each class, with the class's name. */
  centers(context, low, high, mix) {
    const { run, view } = this;
    if (!low.centers || !high.centers) return;
    const point = [0, 0, 0], out = [0, 0, 0], names = [...run.known];
    names.forEach((label, row) => {
      if ((row + 1) * run.dim > low.centers.length) return;
      run.mixed(low.centers, high.centers, row, mix, point, true);
      const reach = run.radius * (run.unit && run.dim === 2 ? 0.84 : 1);
      this.project(point.map((value) => value * reach), out);
      const name = run.classes[label], faded = view.picked !== null && view.picked !== name;
      context.globalAlpha = (faded ? 0.12 : 1) * (run.dim === 3 && out[2] < 0 ? 0.25 : 0.9);
      context.strokeStyle = view.colour(name);
      context.lineWidth = 2;
      context.beginPath();
      context.moveTo(this.middle, this.middle);
      context.lineTo(out[0], out[1]);
      context.stroke();
      if (names.length > 30) return;
      this.project(point.map((value) => value * run.radius * (run.dim === 2 ? (run.unit ? 1.17 : 1.04) : 1.09)), out);
      context.font = "600 13px system-ui, sans-serif";
      context.textAlign = "center";
      context.textBaseline = "middle";
      context.lineWidth = 3.5;
      context.strokeStyle = view.card;
      context.strokeText(name, out[0], out[1]);
      context.fillStyle = view.ink;
      context.fillText(name, out[0], out[1]);
    });
    context.globalAlpha = 1;
  }

  circleFocus(context) {
    if (this.focus === null || !this.visible(this.focus)) return;
    context.lineWidth = 2.5;
    context.strokeStyle = this.view.ink;
    context.beginPath();
    context.arc(this.run.screen[3 * this.focus], this.run.screen[3 * this.focus + 1], 7, 0, 7);
    context.stroke();
  }
}

const longitude = (turn, angle) => [Math.cos(angle) * Math.cos(turn), Math.sin(angle), Math.cos(angle) * Math.sin(turn)];
const latitude = (height, angle) => [Math.cos(height) * Math.cos(angle), Math.sin(height), Math.cos(height) * Math.sin(angle)];
