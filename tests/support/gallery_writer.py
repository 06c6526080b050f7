"""A process that changes a gallery until it is killed, and tells what it is about to do and did.

Run as a script it waits for lines with a task in JSON, and for each forks a writer, so that the
slow imports happen once. A writer prints its process number, then for every change one line before
it begins, in JSON, and `done` when the gallery has said that it is on the disk.
"""

import functools
import json
import os
import random
import sys

import numpy as np

from arcset.recognition.gallery.vectors import unit_rows

DIM = 24


@functools.cache
def vector(key):
    """The embedding of sample number `key`: told from all others by its bytes.

    A gallery makes the length of embeddings 1, and this one stays as it is, to the last digit.
    """
    rng = np.random.default_rng([17, key])
    while True:
        row = unit_rows(rng.normal(size=DIM), DIM)
        if np.array_equal(unit_rows(row, DIM), row):
            return row[0]


def applied(state, change):
    """State, name to keys, after a change; the slow reference for what a gallery does."""
    state = {name: list(keys) for name, keys in state.items()}
    kind = change["kind"]
    if kind == "enroll":
        for name, key in zip(change["names"], change["keys"], strict=True):
            state.setdefault(name, []).append(key)
    elif kind == "remove":
        del state[change["name"]]
    elif kind == "rename":
        state[change["new"]] = state.pop(change["name"])
    elif kind == "merge":
        state[change["into"]] += state.pop(change["name"])
    return state


def draw(state, rng, key):
    """A change that fits, with embeddings from number `key` on."""
    names = sorted(state)
    kind = rng.choice(["enroll"] * 5 + ["many"] * 2 + ["remove"] * 3 + ["rename", "merge"])
    if kind == "enroll" or len(names) < 3:
        count = rng.randint(1, 4)
        name = rng.choice([*names, f"new {key}"])
        return {"kind": "enroll", "names": [name] * count, "keys": list(range(key, key + count))}
    if kind == "many":
        count = rng.randint(10, 60)
        known = [*names, *(f"new {key + number}" for number in range(8))]
        drawn = [rng.choice(known) for _ in range(count)]
        return {"kind": "enroll", "names": drawn, "keys": list(range(key, key + count))}
    if kind == "rename":
        new = f"renamed {key} {'x' * rng.randint(0, 90)}"
        return {"kind": kind, "name": rng.choice(names), "new": new}
    if kind == "merge":
        name, into = rng.sample(names, 2)
        return {"kind": kind, "name": name, "into": into}
    return {"kind": "remove", "name": rng.choice(names)}


def perform(gallery, change):
    kind = change["kind"]
    if kind == "enroll":
        rows = np.stack([vector(key) for key in change["keys"]])
        gallery.enroll_many(change["names"], embeddings=rows)
    elif kind == "remove":
        gallery.remove(change["name"])
    elif kind == "rename":
        gallery.rename(change["name"], change["new"])
    else:
        gallery.merge(change["name"], change["into"])


def write(path, seed, first, state):
    from arcset.recognition.gallery import Gallery

    rng, key = random.Random(seed), first
    with Gallery.open(path) as gallery:
        while True:
            change = draw(state, rng, key)
            print(json.dumps(change), flush=True)
            perform(gallery, change)
            print("done", flush=True)
            state = applied(state, change)
            key += len(change.get("keys", ()))


def main():
    import arcset.recognition.gallery  # noqa: F401  once, for all writers

    print("ready", flush=True)
    for line in sys.stdin:
        task = json.loads(line)
        if (child := os.fork()) == 0:
            print(os.getpid(), flush=True)
            write(task["path"], task["seed"], task["first"], task["state"])
        _, status = os.waitpid(child, 0)
        # On a line of its own, also if the writer was killed in the middle of one.
        print(f"\ngone {os.waitstatus_to_exitcode(status)}", flush=True)


if __name__ == "__main__":
    main()
