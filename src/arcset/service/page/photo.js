/* Photos before they are sent: large ones made smaller, and one face cut out of several. Both are upright: a canvas
 * turns a photo as its EXIF orientation says, and what it writes has none, nor where the photo was taken. */

const LONGEST = 2048; // pixels of a side
const SMALL = 1 << 20; // bytes; files up to here are sent as they are
const MARGIN = 0.6; // around a face that is cut out, in sides of its box

/* { file, width, height }: what to send for a file, and its size where it is known. */
export async function shrink(file) {
  const bitmap = file.size > SMALL ? await readBitmap(file) : null;
  if (!bitmap) return { file };
  const scale = LONGEST / Math.max(bitmap.width, bitmap.height);
  if (scale >= 1) return { file };
  const smaller = await drawPart(bitmap, [0, 0, bitmap.width, bitmap.height], scale, file.name);
  return smaller.file.size < file.size ? smaller : { file };
}

/* The part of a photo around a box [x, y, width, height], given in pixels of the photo when it was `width` wide. */
export async function cutOut(file, [x, y, wide, high], width) {
  const bitmap = await readBitmap(file);
  if (!bitmap) return null;
  const by = bitmap.width / width, [across, down] = [wide * MARGIN, high * MARGIN];
  const left = Math.max(0, (x - across) * by), top = Math.max(0, (y - down) * by);
  const right = Math.min(bitmap.width, (x + wide + across) * by), bottom = Math.min(bitmap.height, (y + high + down) * by);
  const side = Math.max(right - left, bottom - top);
  return (await drawPart(bitmap, [left, top, right - left, bottom - top], Math.min(1, LONGEST / side), file.name)).file;
}

const readBitmap = (file) => createImageBitmap(file).catch(() => null); // a kind that this browser cannot read is sent as it is

async function drawPart(bitmap, [left, top, wide, high], scale, name) {
  const canvas = document.createElement("canvas"), context = canvas.getContext("2d");
  [canvas.width, canvas.height] = [wide, high].map((side) => Math.max(1, Math.round(side * scale)));
  context.imageSmoothingQuality = "high";
  context.fillStyle = "white"; // below what is transparent: JPEG is not
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(bitmap, left, top, wide, high, 0, 0, canvas.width, canvas.height);
  bitmap.close();
  const content = await new Promise((done) => canvas.toBlob(done, "image/jpeg", 0.9));
  return { file: new File([content], name, { type: "image/jpeg" }), width: canvas.width, height: canvas.height };
}

/* A form with photos as they are to be sent. */
export async function photoForm(files, fields = {}) {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  for (const file of files) form.append("image", (await shrink(file)).file, file.name || "image");
  return form;
}

/* Which face was enrolled, where a photo shows several. */
export function whichFace(faces) {
  const several = (faces ?? []).filter((face) => face.count > 1).length;
  if (!several) return "";
  return faces.length === 1 ? ` The photo shows ${faces[0].count} faces; the one in the middle was taken.`
    : ` ${several === 1 ? "One photo shows" : `${several} photos show`} several faces; the one in the middle was taken.`;
}
