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


class Writers:
    """A process that forks writers of galleries, one at a time: see `gallery_writer`."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, gallery_writer.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert self._line() == "ready"

    def close(self):
        self.process.kill()
        self.process.communicate()

    def _line(self):
        return self.process.stdout.readline().rstrip("\n")

    def _begin(self, work, task):
        self.process.stdin.write(json.dumps([work.__name__, task]) + "\n")
        self.process.stdin.flush()
        return int(self._line())

    def _end(self):
        """All lines until a writer is gone, and how it ended."""
        lines = []
        while not (line := self._line()).startswith("gone"):
            lines.append(line)
        return lines, int(line.removeprefix("gone "))

    def done(self, work, **task):
        """Let a writer do its work to the end; what it printed."""
        self._begin(work, task)
        lines, code = self._end()
        assert code == 0
        return lines[:-1]

    def killed(self, work, wanted, pause, **task):
        """Kill a writer `pause` seconds after `wanted` lines that are no JSON; its whole lines.

        What half a line would have told had not begun.
        """
        writer, lines = self._begin(work, task), []
        while sum(not line.startswith("{") for line in lines) < wanted:
            lines.append(self._line())
            assert not lines[-1].startswith("gone"), "the writer stopped by itself"
        time.sleep(pause)
        os.kill(writer, signal.SIGKILL)
        more, code = self._end()
        assert code == -signal.SIGKILL, "the writer stopped by itself"
        return (lines + more)[:-1]  # half a line, or the empty one after a whole one
