/* A run as the embedding view needs it: typed arrays, and what lies between two epochs. */

export class RunData {
  constructor(content, sheet) {
    Object.assign(this, { id: content.id, title: content.title, loss: content.loss, dim: content.dim, unit: content.unit });
    this.classes = content.classes;
    this.known = new Set(content.known);
    this.labels = content.labels;
    this.parts = content.parts;
    this.count = content.labels.length;
    this.sheet = sheet; // an image, or null where it could not be had
    this.sprite = content.sprite;
    this.frames = content.frames.map((frame) => ({
      epoch: frame.epoch,
      points: Float32Array.from(frame.points),
      centers: frame.centers && Float32Array.from(frame.centers),
    }));
    this.screen = new Float32Array(3 * this.count); // x, y, depth of each point as it was last drawn
    this.radius = this.unit ? 1 : this.reach();
  }

  get lastEpoch() { return this.frames.at(-1).epoch; }

  /* How far out points lie; the few farthest may leave the picture. */
  reach() {
    let most = 0;
    for (const { points } of this.frames) {
      const lengths = new Float32Array(this.count);
      for (let i = 0; i < this.count; i++) {
        let square = 0;
        for (let d = 0; d < this.dim; d++) square += points[i * this.dim + d] ** 2;
        lengths[i] = Math.sqrt(square);
      }
      lengths.sort();
      most = Math.max(most, lengths[Math.floor(0.995 * (this.count - 1))]);
    }
    return most || 1;
  }

  /* The frames before and after an epoch that may lie between two, and how far between. */
  between(time) {
    let low = 0;
    while (low + 1 < this.frames.length && this.frames[low + 1].epoch <= time) low += 1;
    const high = Math.min(low + 1, this.frames.length - 1), from = this.frames[low].epoch, to = this.frames[high].epoch;
    const mix = to > from ? Math.max(0, Math.min(1, (time - from) / (to - from))) : 0;
    return { low: this.frames[low], high: this.frames[high], mix };
  }

  /* Point i between two arrays of points; of length 1 where only directions count. */
  mixed(from, to, i, mix, out, unit = this.unit) {
    let square = 0;
    for (let d = 0; d < this.dim; d++) {
      const at = i * this.dim + d, value = from[at] + mix * (to[at] - from[at]);
      out[d] = value;
      square += value * value;
    }
    if (unit && square > 0) {
      const length = Math.sqrt(square);
      for (let d = 0; d < this.dim; d++) out[d] /= length;
    }
    return out;
  }

  drawImage(context, i, side) {
    context.clearRect(0, 0, side, side);
    if (!this.sheet) return;
    const { size, columns } = this.sprite;
    context.imageSmoothingEnabled = false;
    context.drawImage(this.sheet, (i % columns) * size, Math.floor(i / columns) * size, size, size, 0, 0, side, side);
  }
}
