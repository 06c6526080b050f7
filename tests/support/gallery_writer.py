"""A process that changes galleries until it is killed, and tells what it is about to do and did.

Run as a script it waits for lines with a task in JSON, and for each forks a writer, so that the
slow imports happen once. A writer prints its process number first, and then what its task says.
"""

import functools
import itertools
import json
import os
import random
import sys
import time

import numpy as np

from arcset import Gallery

DIM = 24

#: Of length 1 exactly, however that is computed: 1² + 2² + … + 20² + 30² + 18² + 1² + 1² = 64².
_NUMBERS = np.array([*range(1, 21), 30, 18, 1, 1], np.float32) / 64


@functools.cache
def vector(key):
    """The embedding of sample number `key`: told from all others by its bytes.

    A gallery makes the length of embeddings 1, and this one stays as it is, to the last digit.
    """
    rng = np.random.default_rng([17, key])
    return rng.permutation(_NUMBERS) * rng.choice([-1, 1], DIM).astype(np.float32)


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


KINDS = ["enroll"] * 5 + ["many"] * 2 + ["remove"] * 3 + ["rename", "merge", "compact"]


def draw(state, rng, key, kind=None):
    """A change that fits, of this kind or any, with embeddings from number `key` on."""
    names, kind = sorted(state), kind or rng.choice(KINDS)
    if kind == "enroll" or (kind != "many" and len(names) < 3):
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
    if kind == "compact":
        return {"kind": kind}
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
    elif kind == "merge":
        gallery.merge(change["name"], change["into"])
    else:
        gallery.compact()


def change_on(path, seed, first, state):
    """Until it is killed: a line before each change begins, and `done` when it is on the disk."""
    rng, key = random.Random(seed), first
    with Gallery.open(path) as gallery:
        while True:
            change = draw(state, rng, key)
            print(json.dumps(change), flush=True)
            perform(gallery, change)
            print("done", flush=True)
            state = applied(state, change)
            key += len(change.get("keys", ()))


def change_once(path, change):
    """Make one change."""
    with Gallery.open(path) as gallery:
        perform(gallery, change)
    print("done", flush=True)


def enroll_on(path, seed):
    """Until it is killed: enroll somebody with three samples, remove some, and tell each name."""
    rng = np.random.default_rng(seed)
    with Gallery.open(path) as gallery:
        for number in itertools.count():
            name = f"{seed}-{number}"
            gallery.enroll(name, embeddings=rng.normal(size=(3, gallery.dim)))
            if number % 6 == 2:
                gallery.remove(name)
                name = f"{name} is gone"
            print(name, flush=True)


def enroll_again_and_again(path, seed, count):
    """Enroll `count` samples of ten subjects, one by one: their numbers, and how many a second."""
    with Gallery.open(path) as gallery:
        rows = np.random.default_rng(seed).normal(size=(count, gallery.dim))
        started = time.perf_counter()
        made = [
            number
            for step, row in enumerate(rows)
            for number in gallery.enroll(f"subject {step % 10}", embeddings=row)
        ]
        return made, count / (time.perf_counter() - started)


def enroll_one(path, name, row, closing):
    """Enroll somebody, tell whom it sees, and close the gallery or end all at once."""
    gallery = Gallery.open(path)
    gallery.enroll(name, embeddings=row)
    print(json.dumps({one.name: one.samples for one in gallery.subjects()}), flush=True)
    if closing:
        gallery.close()


def main():
    import arcset.recognition.gallery.sqlite  # noqa: F401  once, for all writers

    print("ready", flush=True)
    for line in sys.stdin:
        work, task = json.loads(line)
        if (child := os.fork()) == 0:
            print(os.getpid(), flush=True)
            globals()[work](**task)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        # On a line of its own, also if the writer was killed in the middle of one.
        print(f"\ngone {os.waitstatus_to_exitcode(status)}", flush=True)


if __name__ == "__main__":
    main()
