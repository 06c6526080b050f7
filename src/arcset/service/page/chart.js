/* Two curves over the threshold: strangers taken for somebody, and those enrolled who are missed.
 *
 * Shares are drawn by their logarithm, so that 1 in 10, 1 in 100 and 1 in 1,000 lie equally far
 * apart; what is lower lies on the floor. */
import { draw } from "./dom.js";

const LEVELS = [[1, "all"], [0.1, "1 in 10"], [0.01, "1 in 100"], [0.001, "1 in 1,000"]];
const FLOOR = 0.0005;
const HEIGHT = 300, LEFT = 74, RIGHT = 16, TOP = 26, BOTTOM = 34;

export class Chart {
  /* curves: as the service gives them; first: the lowest threshold shown. */
  constructor(curves, calibrated, pick) {
    this.curves = curves;
    this.calibrated = calibrated;
    this.svg = draw("svg", { role: "img", "aria-label": "Both rates by threshold; the sentence above gives them at the chosen one." });
    this.pick = pick;
    this.svg.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "mouse" && event.button) return;
      this.svg.setPointerCapture(event.pointerId);
      this.pull(event);
    });
    this.svg.addEventListener("pointermove", (event) => {
      if (this.svg.hasPointerCapture(event.pointerId)) this.pull(event);
    });
    new ResizeObserver(() => this.fit()).observe(this.svg);
  }

  pull(event) {
    const { left, width } = this.svg.getBoundingClientRect();
    const x = ((event.clientX - left) / width) * this.width;
    const share = (x - LEFT) / (this.width - LEFT - RIGHT);
    this.pick(this.low + Math.max(0, Math.min(1, share)) * (this.high - this.low));
  }

  get low() { return this.curves.thresholds[0]; }
  get high() { return this.curves.thresholds.at(-1); }

  x(threshold) { return LEFT + ((threshold - this.low) / (this.high - this.low)) * (this.width - LEFT - RIGHT); }
  y(share) {
    const place = Math.log(Math.max(share, FLOOR)) / Math.log(FLOOR);
    return TOP + place * (HEIGHT - TOP - BOTTOM);
  }

  fit() {
    const width = Math.max(300, Math.round(this.svg.clientWidth));
    if (width === this.width) return;
    this.width = width;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.here = draw("g");
    this.svg.replaceChildren(this.ground(), this.curve("rejects", this.curves.false_reject), this.curve("accepts", this.curves.false_accept), this.here);
    if (this.at !== undefined) this.mark(this.at);
  }

  ground() {
    const group = draw("g"), end = this.width - RIGHT, floor = HEIGHT - BOTTOM;
    for (const [share, text] of LEVELS) {
      const y = this.y(share);
      group.append(draw("line", { class: "grid", x1: LEFT, x2: end, y1: y, y2: y }),
        draw("text", { x: LEFT - 10, y: y + 4, "text-anchor": "end", text }));
    }
    group.append(draw("line", { class: "axis", x1: LEFT, x2: end, y1: floor, y2: floor }),
      draw("text", { x: LEFT - 10, y: floor + 4, "text-anchor": "end", text: "none" }));
    const step = this.width < 480 ? 0.2 : 0.1;
    for (let value = Math.ceil(this.low / step - 1e-9) * step; value <= this.high + 1e-9; value += step) {
      group.append(draw("text", { x: this.x(value), y: HEIGHT - 12, "text-anchor": "middle", text: value.toFixed(1).replace("-0.0", "0.0") }));
    }
    if (this.calibrated !== null) {
      const x = this.x(this.calibrated), late = x > this.width * 0.6;
      group.append(draw("line", { class: "calibrated", x1: x, x2: x, y1: TOP - 12, y2: floor }),
        draw("text", { x: x + (late ? -6 : 6), y: TOP - 12, "text-anchor": late ? "end" : "start", text: "calibrated" }));
    }
    return group;
  }

  curve(kind, shares) {
    let path = "", drawing = false;
    (shares ?? []).forEach((share, place) => {
      if (share === null) {
        drawing = false;
        return;
      }
      path += `${drawing ? "L" : "M"}${this.x(this.curves.thresholds[place]).toFixed(1)} ${this.y(share).toFixed(1)}`;
      drawing = true;
    });
    return draw("path", { class: kind, d: path });
  }

  mark(threshold) {
    this.at = threshold;
    if (!this.width) return;
    const x = this.x(threshold);
    this.here.replaceChildren(draw("line", { class: "here", x1: x, x2: x, y1: TOP - 4, y2: HEIGHT - BOTTOM }));
    for (const [kind, shares] of [["rejects", this.curves.false_reject], ["accepts", this.curves.false_accept]]) {
      const share = shares === null ? null : at(this.curves.thresholds, shares, threshold);
      if (share !== null) this.here.append(draw("circle", { class: kind, cx: x, cy: this.y(share), r: 6.5 }));
    }
  }
}

/* A curve's value at any threshold, between its points straight; null where it does not say. */
export function at(thresholds, shares, threshold) {
  const step = thresholds[1] - thresholds[0];
  const place = Math.max(0, Math.min(thresholds.length - 1, (threshold - thresholds[0]) / step));
  const before = Math.floor(place + 1e-9), after = Math.min(before + 1, thresholds.length - 1), part = Math.max(0, place - before);
  if (shares[before] === null) return null;
  if (part < 1e-6 || shares[after] === null) return shares[before];
  return shares[before] + part * (shares[after] - shares[before]);
}
