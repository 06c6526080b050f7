"""Writers of a gallery in processes of their own, and what is left of their work."""

import signal
import time
from contextlib import suppress
from multiprocessing import get_context

import numpy as np

_FORKS = get_context("forkserver")  # a process that imports once, and forks every writer
_FORKS.set_forkserver_preload(["support.gallery_writer", "arcset.recognition.gallery.sqlite"])


def held(gallery, keys):
    """Name to the keys of its embeddings, as the gallery has them."""
    state = {}
    for row, name in zip(*gallery.labelled(), strict=True):
        state.setdefault(name, []).append(keys[row.tobytes()])
    return state


def left_of(gone, content):
    """Those of the embeddings, as bytes, that are somewhere in `content`."""
    heads = np.array([row[:8] for row in gone], "V8").view(np.uint64)
    starts = [
        8 * np.flatnonzero(np.isin(np.frombuffer(content[shift:end], np.uint64), heads)) + shift
        for shift in range(8)
        if (end := shift + (len(content) - shift) // 8 * 8)
    ]
    width = len(gone[0]) if gone else 0
    return {content[start : start + width] for start in np.concatenate(starts)} & set(gone)


def as_sets(state):
    return {name: sorted(keys) for name, keys in state.items()}


def _start(work, task):
    reader, writer = _FORKS.Pipe(duplex=False)
    process = _FORKS.Process(target=work, args=(writer,), kwargs=task)
    process.start()
    writer.close()
    return process, reader


def _rest(reader):
    """All whole messages that are left; what half a message would have told had not begun."""
    messages = []
    with suppress(EOFError, OSError):
        while True:
            messages.append(reader.recv())
    return messages


def finished(work, **task):
    """Let a writer do its work to the end; what it told."""
    process, reader = _start(work, task)
    messages = _rest(reader)
    process.join()
    assert process.exitcode == 0
    return messages


def killed(work, wanted, pause, **task):
    """Kill a writer `pause` seconds after `wanted` messages that are no changes; what it told."""
    process, reader = _start(work, task)
    messages = []
    while sum(not isinstance(message, dict) for message in messages) < wanted:
        messages.append(reader.recv())
    time.sleep(pause)
    process.kill()
    messages += _rest(reader)
    process.join()
    assert process.exitcode == -signal.SIGKILL, "the writer stopped by itself"
    return messages
