"""Writers of a gallery in processes of their own, and what is left of their work."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np

from support import gallery_writer


def held(gallery, keys):
    """Name to the keys of its embeddings, as the gallery has them."""
    embeddings, names = gallery.labelled()
    found = {}
    for row, name in zip(embeddings, names, strict=True):
        found.setdefault(name, []).append(_key(row, keys))
    return found


def _key(row, keys):
    """The number of an embedding, whose last digits may differ: a gallery makes its length 1."""
    if (key := keys.get(row.tobytes())) is not None:
        return key
    for content, key in keys.items():
        if np.abs(np.frombuffer(content, np.float32) - row).max() < 1e-6:
            return key
    raise KeyError(f"nobody enrolled {row}")


def as_sets(state):
    return {name: sorted(keys) for name, keys in state.items()}


class Server:
    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, gallery_writer.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert self.line() == "ready"

    def line(self):
        return self.process.stdout.readline().rstrip("\n")

    def killed(self, task, changes, pause):
        """Start a writer, kill it `pause` seconds after some changes; all lines that it printed."""
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()
        writer, lines = int(self.line()), []
        while lines.count("done") < changes:
            lines.append(self.line())
        time.sleep(pause)
        os.kill(writer, signal.SIGKILL)
        while (line := self.line()) != "gone":
            lines.append(line)
        return lines
