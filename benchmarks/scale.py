"""Training over millions of identities: how fast, how large, and how exact.

    python benchmarks/scale.py                   everything, in about a quarter of an hour, 12 GB
    python benchmarks/scale.py --only sampling,planned
    python benchmarks/scale.py --small           to see that it works

- sampling: a step with 3, 5, 10, 20 and 40 % of the classes beside one with all, at a million
  classes. With a tenth at least 5 times as fast; and the time grows no faster than the number
  drawn: as its power e, fitted to all five, with e at most 1 (and 0.05 for what runs differ).
- sharing: peak memory of each of two processes that share the centers, beside that of one that has
  all. At most 0.6 times as much.
- many: ten million classes in bfloat16 with row-wise Adagrad, a tenth in each step, in one process:
  at most 1.3 kB an identity, and the loss on planted data falls to less than half.
- planned: what `arcset plan` says of the memory at all these sizes. At most 15 % off.
- exact: 1, 2 and 4 processes beside the plain reference, every margin, float64: losses within 1e-9,
  centers within 1e-8.
- peers: a step with a tenth beside Partial FC written out in plain torch, in turns, and beside
  pytorch-metric-learning's over all classes.

Each part runs in processes of its own. Nothing else should run meanwhile. With --small the bars,
which are for the whole size, are not judged by.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from pathlib import Path

import torch
from head import machine
from scale import sampling

from arcset.margins import MARGINS
from arcset.plan import DryRun, Setting, count_bytes, measure, plan_training

HERE = Path(__file__).parent
PARTS = ("sampling", "sharing", "many", "planned", "exact", "peers")
BARS = {
    "faster": 5.0,
    "growth": 1.05,  # 5 % for what one run differs from the next
    "shared": 0.6,
    "bytes": 1300,
    "planned": 0.15,
    "losses": 1e-9,
    "centers": 1e-8,
}
LEAN = {"storage": "bfloat16", "update": "adagrad", "sample": 0.1}
MEBIBYTE = 1 << 20
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone"]


def sizes(small: bool) -> dict:
    if small:
        return {
            "million": 30_000, "half": 60_000, "many": 120_000, "dim": 64, "batch": 32,
            "rounds": 2, "steps": 6, "exact": 5, "margins": ["arcface", "magface"],
            "counts": [1, 2],
        }  # fmt: skip
    return {
        "million": 1_000_000, "half": 500_000, "many": 10_000_000, "dim": 512, "batch": 128,
        "rounds": 5, "steps": 8, "exact": 100, "margins": MARGINS.names(), "counts": [1, 2, 4],
    }  # fmt: skip


class Scale:
    """The parts, and what came of them."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.size, self.small = sizes(options.small), options.small
        self.threads = options.threads
        os.environ["OMP_NUM_THREADS"] = str(options.threads)  # of the processes that are started
        self.found: dict = {}
        self.measured: list[DryRun] = []
        self.met = True

    def sampling(self) -> None:
        size = self.size
        words = {"classes": size["million"], "dim": size["dim"], "batch": size["batch"]}
        shares = [0.03, 0.05, 0.1, 0.2, 0.4]
        found = self.apart("rates", **words, shares=shares, rounds=size["rounds"])
        times = {float(share): value for share, value in found["median"].items()}
        faster = times[1.0] / times[0.1]
        logs = [[math.log(value) for value in side] for side in (shares, map(times.get, shares))]
        growth = statistics.linear_regression(*logs).slope
        title(f"A step at {size['million']:,} × {size['dim']}, batch {size['batch']}")
        for share, value in times.items():
            more = f"{1e6 * value / (share * size['million']):.2f} µs a class"
            row(f"{share:.0%} of the classes", f"{value:.3f} s", more)
        self.told(
            "a tenth is faster than all by", f"{faster:.1f} ×", faster >= BARS["faster"], "5 ×"
        )
        good = growth <= BARS["growth"]
        self.told("time grows as the number drawn to the power", f"{growth:.2f}", good, "1.05")
        self.found["sampling"] = {**found, "faster": faster, "growth": growth}

    def sharing(self) -> None:
        size = self.size
        words = {"classes": size["half"], "dim": size["dim"], "update": "sgd"}
        one = Setting(**words, batch=size["batch"])
        two = Setting(**words, batch=size["batch"] // 2, processes=2)
        whole, each = (peak(self.tried(setting, 3)) for setting in (one, two))
        title(f"Memory at {size['half']:,} × {size['dim']}, over process start")
        row("one process", f"{whole / MEBIBYTE:,.0f} MiB")
        row("each of two", f"{each / MEBIBYTE:,.0f} MiB")
        self.told(
            "each ÷ one", f"{each / whole:.2f}", each <= BARS["shared"] * whole, "at most 0.6"
        )
        self.found["sharing"] = {"one": whole, "each": each, "ratio": each / whole}

    def many(self) -> None:
        size = self.size
        words = {"classes": size["many"], "dim": size["dim"], "batch": size["batch"]}
        found = self.tried(Setting(**words, **LEAN), size["steps"])
        losses = found.losses
        # What stays between two steps; work on a chunk of classes does not grow with their number.
        held = count_bytes(found.setting, "recompute")
        stored = (held["centers"] + held["state of the centers"]) / size["many"]
        most = peak(found) / size["many"]
        title(f"{size['many']:,} × {size['dim']}, bfloat16, adagrad, a tenth in each step")
        row("peak over process start", f"{peak(found) / MEBIBYTE:,.0f} MiB")
        row("seconds a step", f"{found.seconds['loss']:.2f} s")
        bar = f"at most {BARS['bytes']:,}"
        self.told("stored per identity", f"{stored:,.0f} bytes", stored <= BARS["bytes"], bar)
        self.told("peak per identity", f"{most:,.0f} bytes", most <= BARS["bytes"], bar)
        course = f"{losses[0]:.1f} to {losses[-1]:.1f}"
        self.told("loss on planted data", course, losses[-1] < 0.5 * losses[0], "to less than half")
        self.found["many"] = {
            **found.model_dump(mode="json"),
            "stored": stored,
            "peak_per_class": most,
        }

    def planned(self) -> None:
        size = self.size
        words = {"classes": size["million"], "dim": size["dim"], "batch": size["batch"]}
        for way in ({"update": "sgd"}, {"update": "sgd", "sample": 0.1}, LEAN, {}):
            self.tried(Setting(**words, **way), 3)
        title("Memory as planned and as measured, over process start")
        rows = []
        for found in self.measured:
            setting, measured = found.setting, peak(found)
            plan = plan_training(setting, limit=1 << 34, room=1 << (25 if self.small else 29))
            planned = plan.total - plan.dry.process
            off = planned / measured - 1
            words = f"{setting.classes:,} × {setting.dim}, {setting.storage}, "
            words += (
                f"optimizer {setting.optimizer}" if setting.update == "none" else setting.update
            )
            words += f", {setting.sample:.0%}"
            words += f", {setting.processes} processes" if setting.processes > 1 else ""
            sides = f"{planned / MEBIBYTE:,.0f} / {measured / MEBIBYTE:,.0f} MiB"
            self.told(words, f"{sides} {off:+.1%}", abs(off) <= BARS["planned"], "± 15 %")
            rows.append({"setting": setting.model_dump(), "planned": planned, "measured": measured})
        self.found["planned"] = rows

    def exact(self) -> None:
        size = self.size
        title(f"Exactness over {size['exact']} steps, float64, {len(size['margins'])} margins")
        self.found["exact"] = {}
        for count in size["counts"]:
            found = exactness(count, size["exact"], size["margins"])
            losses, centers = (max(pair[side] for pair in found.values()) for side in (0, 1))
            good = losses <= BARS["losses"] and centers <= BARS["centers"]
            words = f"losses {losses:.0e}, centers {centers:.0e}"
            self.told(f"{count} processes", words, good, "1e-9, 1e-8")
            self.found["exact"][count] = found

    def peers(self) -> None:
        size = self.size
        words = {"classes": size["million"], "dim": size["dim"], "batch": size["batch"]}
        found = self.apart("peers", **words, sample=0.1, rounds=2 * size["rounds"])
        title(f"Beside others, {size['million']:,} × {size['dim']}")
        for name, value in found["median"].items():
            row(f"{name}, a tenth", f"{value:.3f} s")
        self.found["peers"] = {"sampled": found}
        ratio = found["median"]["written out"] / found["median"]["arcset"]
        row("written out ÷ arcset", f"{ratio:.2f} ×")
        need = 7 * 4 * size["million"] * size["dim"]
        if (machine.available() or need) < need:
            row("pytorch-metric-learning", f"left out, needs {need / MEBIBYTE:,.0f} MiB")
            return
        other = self.apart("whole", **words, rounds=3)
        row("pytorch-metric-learning, all", f"{other['median']:.3f} s")
        self.found["peers"]["pytorch-metric-learning"] = other

    def apart(self, what: str, **words) -> dict:
        """A function of `scale.sampling`, in a process of its own."""
        content = json.dumps({"what": what, "threads": self.threads, **words})
        done = subprocess.run(
            [sys.executable, str(HERE / "scale.py"), "--part", content],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return json.loads(done.stdout)

    def tried(self, setting: Setting, steps: int) -> DryRun:
        start = [sys.executable]
        if setting.processes > 1:
            start = [*TORCHRUN, f"--nproc-per-node={setting.processes}"]
        found = measure(setting, steps=steps, start=start)
        self.measured.append(found)
        return found

    def told(self, what: str, value: str, good: bool, bar: str) -> None:
        row(what, value, bar if good or self.small else f"{bar}  NOT MET")
        self.met = self.met and good


def exactness(count: int, steps: int, names: list[str]) -> dict:
    words = [f"--nproc-per-node={count}", str(HERE / "scale" / "exact.py"), str(steps), *names]
    done = subprocess.run([*TORCHRUN, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"exact.py with {count} processes failed:\n{done.stderr}")
    return json.loads(done.stdout)


def peak(found: DryRun) -> int:
    return max(found.building, found.loss)


def title(text: str) -> None:
    print(f"\n{text}", flush=True)


def row(what: str, value: str, more: str = "") -> None:
    print(f"  {what:46}{value:>30}   {more}".rstrip(), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--small", action="store_true", help="sizes that take a minute")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path, default=HERE / "results")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        content = json.loads(options.part)
        torch.set_num_threads(content.pop("threads"))
        print(json.dumps(getattr(sampling, content.pop("what"))(**content)))
        return
    chosen = options.only.split(",")
    unknown = [name for name in chosen if name not in PARTS]
    if unknown:
        parser.error(f"--only takes some of {', '.join(PARTS)}, not {unknown[0]}")
    scale = Scale(options)
    for name in PARTS:
        if name in chosen:
            getattr(scale, name)()
    if not options.small:
        print("\nall bars met" if scale.met else "\nNOT all bars met")
    options.out.mkdir(parents=True, exist_ok=True)
    content = {
        "machine": machine.description(),
        "size": scale.size,
        "bars": BARS,
        "met": None if options.small else scale.met,
        **scale.found,
    }
    (options.out / "scale.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
