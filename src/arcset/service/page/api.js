/* Asking the service: one function, one kind of error, the key where one is needed. */
import { $ } from "./dom.js";

const KEY = "arcset.key", THRESHOLD = "arcset.threshold";

/* What this tab of the browser remembers until it is closed. */
export const session = {
  gallery: null,
  get key() { return sessionStorage.getItem(KEY); },
  set key(value) { value ? sessionStorage.setItem(KEY, value) : sessionStorage.removeItem(KEY); },
  get threshold() {
    const value = Number.parseFloat(sessionStorage.getItem(THRESHOLD) ?? "");
    return Number.isFinite(value) ? value : null;
  },
  set threshold(value) {
    value === null ? sessionStorage.removeItem(THRESHOLD) : sessionStorage.setItem(THRESHOLD, value);
    document.dispatchEvent(new Event("threshold"));
  },
  get writes() { return this.gallery?.role === "write" && !this.gallery.read_only; },
};

export class ServiceError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/* Ask for `path`, such as "v1/subjects"; `json` or `form` is sent. Gives JSON, or a blob. */
export async function ask(path, { method = "GET", query = {}, json, form, blob = false, signal } = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const address = path + (given.length ? `?${new URLSearchParams(given)}` : "");
  for (let busy = 0; ; ) {
    const used = session.key;
    const headers = used ? { Authorization: `Bearer ${used}` } : {};
    if (json !== undefined) headers["Content-Type"] = "application/json";
    const body = json === undefined ? form : JSON.stringify(json);
    let answer;
    try {
      answer = await fetch(address, { method, headers, body, signal, cache: method === "GET" ? "no-cache" : "no-store" });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ServiceError(0, "unreachable", "The server cannot be reached. Is it still running?");
    }
    if (answer.ok) return blob ? answer.blob() : answer.json();
    const refused = await readError(answer);
    if (answer.status === 401) {
      await newKey(used);
    } else if (refused.code === "busy" && busy < 5) {
      busy += 1;
      await new Promise((done) => setTimeout(done, 1000 * (Number(answer.headers.get("Retry-After")) || 1)));
    } else throw refused;
  }
}

async function readError(answer) {
  try {
    const { error } = await answer.json();
    return new ServiceError(answer.status, error.code, error.message);
  } catch {
    return new ServiceError(answer.status, "unknown", `The server answered ${answer.status}.`);
  }
}

/* All requests that were refused wait for the same dialog. */
let asking = null;

export function newKey(used) {
  if (used !== session.key) return Promise.resolve(); // another request has asked meanwhile
  asking ??= dialog(used !== null).finally(() => { asking = null; });
  return asking;
}

function dialog(wrong) {
  const shown = $("key-dialog"), input = $("key-input"), error = $("key-error");
  session.key = null;
  input.value = "";
  error.hidden = !wrong;
  error.textContent = wrong ? "This key is not valid, or it was revoked." : "";
  shown.oncancel = (event) => event.preventDefault(); // there is nothing behind it without a key
  shown.showModal();
  input.focus();
  return new Promise((resolve) => {
    shown.onclose = () => {
      if (!input.value.trim()) return shown.showModal();
      session.key = input.value.trim();
      input.value = "";
      resolve();
    };
  });
}

export async function loadGallery() {
  session.gallery = await ask("v1/gallery");
  document.dispatchEvent(new Event("gallery"));
  return session.gallery;
}

/* Thumbnails need the key, so they are fetched and shown from memory. */
const thumbnails = new Map();

export function thumbnail(sample, size = 128) {
  const name = `${sample}/${size}`;
  if (!thumbnails.has(name)) {
    thumbnails.set(name, ask(`v1/samples/${sample}/image`, { query: { size }, blob: true })
      .then((found) => URL.createObjectURL(found))
      .catch(() => { thumbnails.delete(name); return null; }));
  }
  return thumbnails.get(name);
}

export const subjectPath = (name) => `v1/subjects/${encodeURIComponent(name)}`;
