/* How images come in: dropped, chosen or pasted. */
import { $, toast } from "./dom.js";

const IMAGE = /\.(jpe?g|png|gif|webp|bmp|tiff?|pgm|ppm|avif|heic)$/i;

const images = (files) => [...files].filter((file) => file.type.startsWith("image/") || IMAGE.test(file.name));

/* Give the files that come to `zone` and its file input to `take`; `lit` shows where they go. What is
 * no image by its name is given, too, where nothing else came: the service says what is wrong. */
export function intake(zone, input, take, lit = zone) {
  const given = (files) => {
    const found = images(files), others = [...files].filter((file) => !found.includes(file));
    if (found.length && others.length) toast(`Skipped, not an image: ${others.map((file) => file.name).join(", ")}`);
    const all = found.length ? found : [...files];
    if (all.length) take(all);
  };
  input.addEventListener("change", () => {
    given([...input.files]);
    input.value = "";
  });
  let inside = 0;
  zone.addEventListener("dragenter", (event) => {
    event.preventDefault();
    inside += 1;
    lit.classList.add("over");
  });
  zone.addEventListener("dragover", (event) => event.preventDefault());
  zone.addEventListener("dragleave", () => {
    inside -= 1;
    if (inside <= 0) lit.classList.remove("over");
  });
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    inside = 0;
    lit.classList.remove("over");
    given(event.dataTransfer.files);
  });
}

/* A file that misses the zone shall not replace the page. */
for (const kind of ["dragover", "drop"]) {
  window.addEventListener(kind, (event) => event.preventDefault());
}

/* Pasted images go to whom the visible tab names. */
export function pasted(tab, take) {
  document.addEventListener("paste", (event) => {
    if ($(tab).hidden || document.querySelector("dialog[open]")) return;
    const files = images(event.clipboardData?.files ?? []);
    if (!files.length) return;
    event.preventDefault();
    take(files);
  });
}

/* Show a file in a frame, or a note where the browser cannot show its kind. `image` is a promise of what is shown, or of null. */
export function preview(file, frame, missing) {
  const shown = new Image(), address = URL.createObjectURL(file);
  shown.alt = "";
  shown.src = address;
  frame.prepend(shown);
  const image = shown.decode().then(() => {
    frame.style.setProperty("--ratio", shown.naturalWidth / shown.naturalHeight);
    if (Math.max(shown.naturalWidth, shown.naturalHeight) <= 64) shown.classList.add("tiny");
    return shown;
  }).catch(() => {
    shown.replaceWith(missing());
    return null;
  });
  return { image, forget: () => URL.revokeObjectURL(address) };
}
