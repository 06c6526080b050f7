/* The fourth tab: runs side by side in the viewer, at the same epoch, turned the same way. */
import { ask } from "./api.js";
import { $, failure, make, skeleton, state } from "./dom.js";
import { createViewer } from "./viewer.js";

const MOST = 4;
const PART_NAMES = { train: "training", test: "test", unseen: "never seen" };

let viewer = null;

export async function show() {
  if (viewer) return;
  const body = $("embedding-body");
  body.replaceChildren(make("div", { class: "card chart" }, skeleton(6)));
  try {
    const { runs } = await ask("v1/views");
    const kept = runs.filter((run) => run.pictured), empty = runs.filter((run) => !run.pictured).map((run) => run.title);
    if (!runs.length) {
      return body.replaceChildren(state("There are no runs to show",
        "Start the server with some: arcset serve GALLERY --runs runs/demo; arcset demo trains them."));
    }
    if (!kept.length) {
      return body.replaceChildren(state("None of these runs can be drawn",
        "They kept no embeddings of their epochs: train without --set snapshot=0."));
    }
    const element = make("div"), entries = kept.map((run) => ({ name: run.title, load: () => ask(`v1/views/${encodeURIComponent(run.id)}`) }));
    body.replaceChildren(element);
    if (empty.length) body.append(make("p", { class: "small soft spaced", text: `No embeddings of their epochs were kept: ${empty.join(", ")}.` }));
    viewer = createViewer(element, { runs: entries, shown: openAtFirst(kept) }, { most: MOST, partNames: PART_NAMES });
    $("embedding-keys").hidden = false;
  } catch (error) {
    viewer = null;
    body.replaceChildren(failure("The runs could not be loaded", error, show));
  }
}

/* One run, or two of different losses and the same dimension: the plainest beside one with a margin. */
function openAtFirst(runs) {
  const dim = [3, 2].find((wanted) => runs.some((run) => run.dim === wanted)) ?? runs[0].dim;
  const among = runs.filter((run) => run.dim === dim), of = (loss) => among.find((run) => run.loss === loss);
  const one = of("softmax") ?? among[0], arcface = of("arcface");
  const other = arcface && arcface !== one ? arcface : among.find((run) => run.loss !== one.loss);
  return [one, other].filter(Boolean).map((run) => runs.indexOf(run));
}

export const hide = () => viewer?.stop();
