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
        found.setdefault(name, []).append(keys[row.tobytes()])
    return found


def left_of(gone, content):
    """Those of the embeddings, as bytes, that are somewhere in `content`."""
    heads = np.array([row[:8] for row in gone], "V8").view(np.uint64)
    places = [
        8 * np.flatnonzero(np.isin(np.frombuffer(content[shift:end], np.uint64), heads)) + shift
        for shift in range(8)
        if (end := shift + (len(content) - shift) // 8 * 8)
    ]
    width = len(gone[0]) if gone else 0
    return {content[place : place + width] for place in np.concatenate(places)} & set(gone)


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
        """Start a writer, kill it `pause` seconds after some changes; all lines that it printed.

        A line that it was killed in the middle of is left out: its change had not begun.
        """
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()
        writer, lines = int(self.line()), []
        while lines.count("done") < changes:
            lines.append(self.line())
            assert not lines[-1].startswith("gone"), "the writer stopped by itself"
        time.sleep(pause)
        os.kill(writer, signal.SIGKILL)
        while not (line := self.line()).startswith("gone"):
            lines.append(line)
        assert line == f"gone {-signal.SIGKILL}", "the writer stopped by itself"
        return [line for line in lines if line.endswith(("}", "done"))]
