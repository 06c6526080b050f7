"""What writers of galleries do in processes of their own, until they are killed; see
`gallery_watching`. Each tells through a connection what it is about to do, and what it did.
"""

import functools
import itertools
import os
import random
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
        new = f"renamed {key} {rng.getrandbits(32)} {'x' * rng.randint(0, 90)}"
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


def change_on(connection, path, seed, first, state):
    """Until it is killed: each change before it begins, and `done` when it is on the disk."""
    rng, key = random.Random(seed), first
    with Gallery.open(path) as gallery:
        while True:
            change = draw(state, rng, key)
            connection.send(change)
            perform(gallery, change)
            connection.send("done")
            state = applied(state, change)
            key += len(change.get("keys", ()))


def change_once(connection, path, change):
    """Make one change."""
    with Gallery.open(path) as gallery:
        perform(gallery, change)


def enroll_on(connection, path, seed):
    """Until it is killed: enroll somebody with three samples, remove some, and tell each name."""
    rng = np.random.default_rng(seed)
    with Gallery.open(path) as gallery:
        for number in itertools.count():
            name = f"{seed}-{number}"
            gallery.enroll(name, embeddings=rng.normal(size=(3, gallery.dim)))
            if number % 6 == 2:
                gallery.remove(name)
                name = f"{name} is gone"
            connection.send(name)


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


def enroll_one(connection, path, name, row):
    """Enroll somebody, tell whom it sees, and end in an instant."""
    gallery = Gallery.open(path)
    gallery.enroll(name, embeddings=row)
    connection.send({one.name: one.samples for one in gallery.subjects()})
    os._exit(0)
