/* How images come in: dropped, chosen or pasted. */
import { $ } from "./dom.js";

/* Give the files that come to `zone` and its file input to `take`; `lit` shows where they go. What is no image
 * is given, too: the service says what is wrong. */
export function intake(zone, input, take, lit = zone) {
  const given = (files) => files.length && take([...files]);
  input.addEventListener("change", () => {
    given(input.files);
    input.value = "";
  });
  zone.addEventListener("dragover", () => lit.classList.add("over"));
  zone.addEventListener("dragleave", (event) => zone.contains(event.relatedTarget) || lit.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    lit.classList.remove("over");
    given(event.dataTransfer.files);
  });
}

/* A file that is dropped anywhere shall not replace the page. */
for (const kind of ["dragover", "drop"]) {
  window.addEventListener(kind, (event) => event.preventDefault());
}

/* Pasted images go to whom the visible tab names. */
export function onPaste(tab, take) {
  document.addEventListener("paste", (event) => {
    if ($(tab).hidden || document.querySelector("dialog[open]")) return;
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length) take(files);
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
