"""How many images a second `arcset serve` identifies for many clients, beside doing it offline.

    python benchmarks/serve.py [--requests 20000] [--clients 32] [--subjects 10000]
    python benchmarks/serve.py --requests 2000 --subjects 200 --network simple --size 28
                                                                             to see that it works

- served: a real `arcset serve` with its usual settings, and the clients in a process of their own.
  Each client sends one JPEG at a time to /v1/identify, waits for the answer, which is compared with
  what it should be, and sends the next. All three processes share the machine.
- offline: `Recognizer.embed` of the same files by the same ONNX file, 256 at a time: decoding and
  network, and nothing else. At least 0.8 times as many are to be served.
- memory: of the server after 2,000 requests and at the end. At most 5 % apart.
- failed: requests with no answer, an error or a wrong name. None.

Both sides take turns within one run, with everything made below --place and deleted afterwards.
"""

import argparse
import io
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np
import torch
from head import machine
from PIL import Image

from arcset.evaluation.calibration import make_thresholds
from arcset.recognition import Recognizer
from arcset.recognition.export import export
from arcset.recognition.gallery import Gallery
from arcset.runs import Run, RunConfig
from arcset.runs.model import build_model

RESULTS = Path(__file__).parent / "results"
LOAD = Path(__file__).parent / "serving" / "load.py"
BAR, DRIFT = 0.8, 0.05
PROBES, PORTION = 64, 256
DIM = 128
SETTLED = 2000  # requests after which memory is compared
MEBIBYTE = 1 << 20


def exported(folder, network, size, files):
    """An ONNX file with random weights whose batch norms know these files."""
    images = np.stack([np.asarray(Image.open(io.BytesIO(file))) for file in files])
    np.savez(folder / "images.npz", images=images, labels=np.arange(len(images)) // 4)
    names = tuple(sorted(str(number) for number in range(len(images) // 4)))
    config = RunConfig(
        data=str(folder / "images.npz"),
        network=network,
        dim=DIM,
        shape=(3, size, size),
        class_names=names,
    )
    run = Run.create(folder / network, config)
    made, loss = build_model(config)
    for module in made.modules():
        if isinstance(module, torch.nn.BatchNorm1d | torch.nn.BatchNorm2d):
            module.momentum = None  # its statistics become those of the batch, at once
    with torch.no_grad():
        made.train()(torch.from_numpy(images).permute(0, 3, 1, 2).float() / 127.5 - 1)
    run.save_model(made.state_dict(), loss.state_dict())
    return export(run.path, folder / "model.onnx").file


def jpegs(size):
    """Files as a camera would make them: soft patches of colour, each image its own."""
    found = []
    for seed in range(PROBES):
        coarse = np.random.default_rng(seed).integers(0, 256, (9, 9, 3), np.uint8)
        held = io.BytesIO()
        image = Image.fromarray(coarse).resize((size, size), Image.Resampling.BICUBIC)
        image.save(held, "JPEG", quality=90)
        found.append(held.getvalue())
    return found


def fill(path, recognizer, images, subjects):
    """Subjects of one sample each, the probes among them; calibrated."""
    random = np.random.default_rng(1)
    rows = random.standard_normal((max(0, subjects - len(images)), recognizer.dim), np.float32)
    probes = [f"probe {number:02d}" for number in range(len(images))]
    identities = max(300, subjects // 4)  # about as many as the usual FPIR takes
    points = np.repeat(random.standard_normal((identities, recognizer.dim)), 2, axis=0)
    near = points + 0.3 * random.standard_normal(points.shape)
    with Gallery.open(path, recognizer) as gallery:
        if len(rows):
            names = [f"subject {number:06d}" for number in range(len(rows))]
            gallery.enroll_many(names, embeddings=rows)
        for name, image in zip(probes, images, strict=True):
            gallery.enroll(name, [image])
        gallery.set_thresholds(make_thresholds(near, np.arange(len(near)) // 2))
    return probes


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def wait(port, server):
    for _ in range(1200):
        assert server.poll() is None, f"the server ended with {server.returncode}"
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the server did not get ready within two minutes")


def held_by(process):
    """Bytes of a process in memory."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def spent_by(process):
    """Seconds of processor that a process has used."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def offline(recognizer, images):
    """Images a second, decoded and embedded."""
    many = [images[number % len(images)] for number in range(PORTION)]
    started = time.perf_counter()
    recognizer.embed(many)
    return PORTION / (time.perf_counter() - started)


def measure(options, folder):
    """Rates of both sides, seconds of all requests, failures, and memory after each turn."""
    images = jpegs(options.size)
    model = exported(folder, options.network, options.size, images)
    recognizer = Recognizer.load(model, device="cpu")
    names = fill(folder / "people.db", recognizer, images, options.subjects)
    probes = {
        f"image{number}": np.frombuffer(image, np.uint8) for number, image in enumerate(images)
    }
    np.savez(folder / "probes.npz", names=np.array(names), **probes)
    port = free_port()
    words = ["serve", str(folder / "people.db"), "--model", str(model), "--port", str(port)]
    content = {"served": [], "offline": [], "seconds": [], "memory": {}, "failed": 0, "wrong": []}
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen([sys.executable, "-m", "arcset", *words], stdout=log, stderr=log)
    clients = subprocess.Popen(
        [sys.executable, LOAD, str(port), str(options.clients), str(folder / "probes.npz")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        wait(port, server)
        clients.stdout.readline()
        offline(recognizer, images)  # warms up
        done = 0
        before = {"server": spent_by(server), "clients": spent_by(clients), "offline": 0.0}
        while done < options.requests:
            used = time.process_time()
            content["offline"].append(offline(recognizer, images))
            before["offline"] -= time.process_time() - used
            count = min(options.turn, options.requests - done)
            clients.stdin.write(f"{count}\n")
            clients.stdin.flush()
            told = json.loads(clients.stdout.readline())
            done += count
            content["served"].append(count / told["spent"])
            content["seconds"] += told["seconds"]
            content["failed"] += told["failed"]
            content["wrong"] += told["wrong"]
            content["memory"][done] = held_by(server)
        after = {"server": spent_by(server), "clients": spent_by(clients), "offline": 0.0}
        each = {"server": done, "clients": done, "offline": PORTION * len(content["offline"])}
        content["processor"] = {side: (after[side] - before[side]) / each[side] for side in each}
        clients.stdin.close()
        clients.wait(10)
        server.terminate()
        content["exit"] = server.wait(30)
    finally:
        for process in (clients, server):
            process.kill()
            process.wait()
        if content["failed"] or "exit" not in content:
            print((folder / "server.log").read_text(errors="replace")[-2000:], file=sys.stderr)
    return content


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--subjects", type=int, default=10_000)
    parser.add_argument("--network", default="mobilefacenet")
    parser.add_argument("--size", type=int, default=112, help="pixels a side")
    parser.add_argument("--turn", type=int, default=1000, help="requests before offline's turn")
    parser.add_argument("--place", type=Path, default=Path.cwd())
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()

    with tempfile.TemporaryDirectory(dir=options.place, prefix=".serve-") as name:
        content = measure(options, Path(name))
    config = {key: value for key, value in vars(options).items() if key not in ("out", "place")}
    content |= summary(content)
    options.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"config": config, "machine": machine.description(), **content}, indent=2)
    (options.out / "serve.json").write_text(text + "\n", encoding="utf-8")


def summary(content):
    """Print what was found; and what goes into the file instead of every request's seconds."""
    seconds = content.pop("seconds")
    ours, floor = (statistics.median(content[side]) for side in ("served", "offline"))
    ratio = ours / floor
    p50, p99, most = (float(np.quantile(seconds, share)) for share in (0.5, 0.99, 1))
    held = content["memory"]
    early = next((size for done, size in held.items() if done >= SETTLED), None)
    drift = 0.0 if early is None else list(held.values())[-1] / early - 1
    met = {
        "served": ratio >= BAR,
        "memory": abs(drift) <= DRIFT,
        "failed": content["failed"] == 0 and content["exit"] == 0,
    }

    def line(what, text, bar):
        print(f"{what:12}{text}, {bar}{'' if met.get(what, True) else '  NOT MET'}")

    line(
        "served", f"{ours:,.1f} /s beside {floor:,.1f} /s offline = {ratio:.2f}", f"at least {BAR}"
    )
    print(f"{'seconds':12}p50 {p50:.3f}, p99 {p99:.3f}, longest {most:.3f}")
    used = {side: f"{1e3 * seconds:.2f}" for side, seconds in content["processor"].items()}
    print(
        f"{'processor':12}{used['server']} ms a request and {used['clients']} ms of its client, "
        f"beside {used['offline']} ms an image offline"
    )
    line("failed", f"{content['failed']:,} of {len(seconds):,} requests", "none allowed")
    last = list(held.values())[-1] / MEBIBYTE
    line("memory", f"{last:,.0f} MB at the end, {drift:+.1%} since request {SETTLED:,}", "± 5 %")
    for why in content["wrong"][:3]:
        print(f"    {why}")
    latency = {"p50": p50, "p99": p99, "longest": most}
    return {"ratio": ratio, "latency": latency, "drift": drift, "bars": met}


if __name__ == "__main__":
    main()
