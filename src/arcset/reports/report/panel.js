/* Panel: one run drawn on a canvas, and which of its points lies under the pointer. */
const RING = { train: 0.93, test: 1, unseen: 1.075 };
const SIZE = { train: 1.5, test: 2.3, unseen: 2.6 };
const STRENGTH = { train: 0.5, test: 0.9, unseen: 0.85 };

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

/* Always the same spread for the same point: a low-discrepancy sequence in −0.5 … 0.5. */
const spread = (i) => ((i * 0.6180339887) % 1) - 0.5;

class Panel {
  constructor(run, viewer) {
    this.run = run;
    this.viewer = viewer;
    this.canvas = element("canvas", { tabIndex: 0, className: run.dim === 3 ? "turns" : "" });
    this.canvas.setAttribute("role", "img");
    this.stats = element("p", { className: "stats" });
    this.root = element("figure", { className: "panel" },
      element("h3", { textContent: run.name }), this.canvas, this.stats,
      ...run.notes.map((note) => element("p", { className: "note", textContent: note })));
    this.focus = null; // {part, i} of the point that the tooltip shows
  }

  /* The part of the drawing's half width that the radius takes: room for rings and names. */
  get reach() { return this.run.unit && this.run.dim === 2 ? 0.8 : 0.86; }

  fit() {
    const side = this.canvas.clientWidth, ratio = window.devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(side * ratio)) {
      this.canvas.width = this.canvas.height = Math.round(side * ratio);
    }
    this.side = side;
    this.middle = side / 2;
    this.zoom = (this.middle * this.reach) / this.run.radius;
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, side, side);
    return context;
  }

  /* A point of the run's space to x, y and depth on the canvas; in 3-D, turned. */
  project(point, out, at = 0) {
    let [x, y, z] = point;
    if (this.run.dim === 3) {
      const { cy, sy, cp, sp } = this.viewer.turn;
      [x, z] = [x * cy + z * sy, z * cy - x * sy];
      [y, z] = [y * cp - z * sp, z * cp + y * sp];
    }
    out[at] = this.middle + x * this.zoom;
    out[at + 1] = this.middle - y * this.zoom;
    out[at + 2] = z;
    return out;
  }

  draw() {
    const context = this.fit(), { run, viewer } = this;
    if (!this.side) return;
    const { low, high, mix } = run.between(viewer.time);
    this.drawGround(context, false);
    const visible = run.pieces.filter((part) => viewer.parts[part.name]);
    for (const part of visible) this.place(part, part.frames[low].points, part.frames[high].points, mix);
    if (run.dim === 3) {
      for (const part of visible) this.drawPoints(context, part, true);
      this.drawGround(context, true);
    }
    this.drawCenters(context, low, high, mix);
    for (const part of visible) this.drawPoints(context, part, false);
    this.drawFocus(context);
    this.describe();
  }

  place(part, from, to, mix) {
    const { run } = this, point = [0, 0, 0];
    const rings = run.unit && run.dim === 2;
    for (let i = 0; i < part.count; i++) {
      run.mixed(from, to, i, mix, point);
      if (rings) {
        const ring = RING[part.name] + 0.045 * spread(i);
        point[0] *= ring;
        point[1] *= ring;
      }
      this.project(point, part.screen, 3 * i);
    }
  }

  drawPoints(context, part, behind) {
    const { run, viewer } = this, size = SIZE[part.name], hollow = part.name === "unseen";
    const paths = new Map();
    for (let i = 0; i < part.count; i++) {
      const x = part.screen[3 * i], y = part.screen[3 * i + 1], depth = part.screen[3 * i + 2];
      if (run.dim === 3 && depth < 0 !== behind) continue;
      const kind = part.classes[i];
      let path = paths.get(kind);
      if (!path) paths.set(kind, (path = new Path2D()));
      path.moveTo(x + size, y);
      path.arc(x, y, size, 0, 7);
    }
    for (const [kind, path] of paths) {
      const faded = viewer.picked !== null && viewer.picked !== kind;
      context.globalAlpha = STRENGTH[part.name] * (behind ? 0.2 : 1) * (faded ? 0.08 : 1);
      context.fillStyle = context.strokeStyle = viewer.colour(kind);
      context.lineWidth = 1.2;
      if (hollow) context.stroke(path);
      else context.fill(path);
    }
    context.globalAlpha = 1;
  }

  drawGround(context, front) {
    const { run, middle, zoom } = this, shade = (alpha) => `rgba(${this.viewer.grid}, ${alpha})`;
    context.lineWidth = 1;
    if (run.dim === 2) {
      context.strokeStyle = shade(0.12);
      context.beginPath();
      context.moveTo(0, middle); context.lineTo(this.side, middle);
      context.moveTo(middle, 0); context.lineTo(middle, this.side);
      context.stroke();
    }
    if (run.unit && !front) {
      context.strokeStyle = shade(0.3);
      context.beginPath();
      context.arc(middle, middle, zoom, 0, 7);
      context.stroke();
    }
    if (run.dim < 3) return;
    const radius = run.radius;
    if (run.unit) {
      for (let k = 0; k < 6; k++) {
        const a = (k * Math.PI) / 6;
        this.curve(context, front, shade, (t) => [Math.cos(t) * Math.cos(a), Math.sin(t), Math.cos(t) * Math.sin(a)]);
      }
      for (const height of [-0.5, 0, 0.5]) {
        const wide = Math.sqrt(1 - height * height);
        this.curve(context, front, shade, (t) => [Math.cos(t) * wide, height, Math.sin(t) * wide]);
      }
    } else {
      for (let axis = 0; axis < 3; axis++) {
        this.curve(context, front, shade, (t) => [0, 1, 2].map((d) => (d === axis ? Math.cos(t) * radius : 0)));
      }
    }
  }

  /* A closed curve on the sphere: only the half before or behind the picture's plane. */
  curve(context, front, shade, at) {
    const spot = [0, 0, 0];
    context.strokeStyle = shade(front ? 0.15 : 0.06);
    context.beginPath();
    let drawing = false;
    for (let step = 0; step <= 72; step++) {
      this.project(at((step * Math.PI) / 36), spot);
      const here = spot[2] >= 0 === front;
      if (here && drawing) context.lineTo(spot[0], spot[1]);
      else if (here) context.moveTo(spot[0], spot[1]);
      drawing = here;
    }
    context.stroke();
  }

  drawCenters(context, low, high, mix) {
    const { run, viewer } = this, spot = [0, 0, 0], label = [0, 0, 0];
    const [from, to] = [run.centers[low], run.centers[high]];
    if (from.length > 60) return; // more names than the picture can hold
    const stretch = run.unit ? 1 : run.radius;
    context.font = "600 13px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    from.forEach((start, place) => {
      const point = [0, 1, 2].map((d) => ((start[d] ?? 0) * (1 - mix) + (to[place][d] ?? 0) * mix) * stretch);
      const kind = run.known[place], faded = viewer.picked !== null && viewer.picked !== kind;
      this.project(point, spot);
      const length = Math.hypot(spot[0] - this.middle, spot[1] - this.middle) || 1;
      const beyond = run.unit && run.dim === 2 ? this.zoom * 1.165 : length + 11;
      label[0] = this.middle + ((spot[0] - this.middle) / length) * beyond;
      label[1] = this.middle + ((spot[1] - this.middle) / length) * beyond;
      context.globalAlpha = (faded ? 0.15 : 1) * (run.dim === 3 && spot[2] < 0 ? 0.35 : 1);
      context.strokeStyle = viewer.colour(kind);
      context.lineWidth = 2;
      context.setLineDash(run.means ? [5, 4] : []);
      context.beginPath();
      context.moveTo(this.middle, this.middle);
      context.lineTo(spot[0], spot[1]);
      context.stroke();
      context.setLineDash([]);
      context.lineWidth = 4;
      context.strokeStyle = viewer.card;
      context.strokeText(viewer.classes[kind], label[0], label[1]);
      context.fillStyle = viewer.ink;
      context.fillText(viewer.classes[kind], label[0], label[1]);
    });
    context.globalAlpha = 1;
  }

  drawFocus(context) {
    if (!this.focus || !this.viewer.parts[this.focus.part.name]) return;
    const { part, i } = this.focus;
    context.lineWidth = 2;
    context.strokeStyle = this.viewer.ink;
    context.beginPath();
    context.arc(part.screen[3 * i], part.screen[3 * i + 1], 7, 0, 7);
    context.stroke();
  }

  /* What the picture says, in words and numbers. */
  describe() {
    const { run, viewer } = this, frame = run.nearestFrame(viewer.time);
    const degrees = (value) => `${value.toFixed(1)}°`;
    const what = run.means ? "mean direction" : "center";
    const said = run.pieces.filter((part) => part.name !== "train" && part.count).map((part) => {
      const { own, other } = run.meanAngles(part, frame);
      if (own === null) return `Unseen: ${degrees(other)} to the nearest ${what}`;
      return `Test: ${degrees(own)} to the own ${what}` + (other === null ? "" : `, ${degrees(other)} to the nearest other`);
    });
    const text = `Mean angles after epoch ${run.epochs[frame]}. ${said.join(". ")}.`;
    if (this.stats.textContent !== text) {
      this.stats.textContent = text;
      const turns = run.dim === 3 ? "; arrow keys turn it" : "";
      this.canvas.setAttribute("aria-label", `Embeddings of ${run.name}. ${text} N and P step through the points${turns}.`);
    }
  }

  /* The visible point nearest to (x, y) within `within` pixels; those in front first. */
  pick(x, y, within) {
    let best = null, least = within * within;
    for (const part of this.run.pieces) {
      if (!this.viewer.parts[part.name]) continue;
      for (let i = 0; i < part.count; i++) {
        if (this.viewer.picked !== null && this.viewer.picked !== part.classes[i]) continue;
        const dx = part.screen[3 * i] - x, dy = part.screen[3 * i + 1] - y;
        const behind = this.run.dim === 3 && part.screen[3 * i + 2] < 0;
        const distance = dx * dx + dy * dy + (behind ? within * within * 0.5 : 0);
        if (distance < least) {
          least = distance;
          best = { part, i };
        }
      }
    }
    return best;
  }
}
