"use strict";
/* Runs: decoding on first use, and where every point is at any moment between two epochs. */
const NO_ANGLE = 65535;

function decode(text, Kind) {
  const raw = atob(text), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return new Kind(bytes.buffer);
}

class Part {
  constructor(raw) {
    this.name = raw.name;
    this.classes = raw.classes;
    this.sprite = raw.sprite;
    this.count = raw.classes.length;
    this.frames = raw.frames.map((frame) => ({
      points: Float32Array.from(decode(frame.points, Int16Array), (value) => value * frame.scale),
      angles: decode(frame.angles, Uint16Array), // own, nearest other, which one; three per point
    }));
    this.screen = new Float32Array(3 * this.count); // x, y, depth: where the panel drew them
  }
}

class Run {
  constructor(raw) {
    Object.assign(this, raw);
    this.raw = raw;
    this.decoded = null;
  }

  get pieces() {
    this.decoded ??= this.raw.parts.map((part) => new Part(part));
    return this.decoded;
  }

  get last() { return this.epochs[this.epochs.length - 1]; }

  /* The frames before and after `time` (in epochs), and how far between them it lies. */
  between(time) {
    const epochs = this.epochs;
    let low = 0;
    while (low + 1 < epochs.length && epochs[low + 1] <= time) low++;
    const high = Math.min(low + 1, epochs.length - 1);
    const gap = epochs[high] - epochs[low];
    const mix = gap ? Math.min(1, Math.max(0, (time - epochs[low]) / gap)) : 0;
    return { low, high, mix };
  }

  nearestFrame(time) {
    const { low, high, mix } = this.between(time);
    return mix < 0.5 ? low : high;
  }

  /* Point i of two frames, mixed; on the circle or sphere it stays there. */
  mixed(from, to, i, mix, out) {
    const dim = this.dim;
    let length = 0;
    for (let d = 0; d < dim; d++) {
      out[d] = from[i * dim + d] * (1 - mix) + to[i * dim + d] * mix;
      length += out[d] * out[d];
    }
    if (dim === 2) out[2] = 0;
    if (this.unit && !this.flat && length > 1e-9) {
      length = Math.sqrt(length);
      for (let d = 0; d < dim; d++) out[d] /= length;
    }
    return out;
  }

  /* Mean angles of one part in a frame: to the own center and to the nearest other, in degrees. */
  meanAngles(part, frame) {
    const angles = part.frames[frame].angles;
    let own = 0, other = 0;
    for (let i = 0; i < part.count; i++) {
      own += angles[3 * i];
      other += angles[3 * i + 1];
    }
    const none = (column) => !part.count || angles[column] === NO_ANGLE;
    return {
      own: none(0) ? null : own / part.count / 100,
      other: none(1) ? null : other / part.count / 100,
    };
  }
}
