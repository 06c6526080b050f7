"""Servers killed while clients enroll and remove: what was acknowledged is there afterwards."""

import random
import threading
import time

import pytest

from arcset import Client, Gallery
from arcset.client import ServiceError
from support.servers import forked, pattern, small_gallery

CLIENTS = 4
IMAGES = 2  # of every subject


class Writer(threading.Thread):
    """A client that changes the gallery until the server is gone.

    begun: what it asked for last and was not told about. enrolled, removed: what it was told.
    ended: what it was told at last.
    """

    def __init__(self, url, name, images):
        super().__init__()
        self.url, self.prefix, self.images = url, name, images
        self.enrolled, self.removed, self.begun, self.ended = {}, set(), None, None

    def run(self):
        chance = random.Random(self.prefix)
        with Client(self.url, timeout=20) as client:
            for number in range(100_000):
                try:
                    if self.enrolled and chance.random() < 0.2:
                        name = self.begun = chance.choice(list(self.enrolled))
                        client.remove(name)
                        del self.enrolled[name]
                        self.removed.add(name)
                    else:
                        name = self.begun = f"{self.prefix}/{number}"
                        self.enrolled[name] = client.enroll(name, self.images)
                    self.begun = None
                except ServiceError as error:
                    self.ended = error.code
                    return


def look(client, expected, maybe):
    """Everything that was acknowledged is there, and nothing that nobody asked for.

    expected: name to the numbers of samples. maybe: asked for, and not acknowledged.
    """
    found = {one.name: one.samples for one in client.subjects()}
    assert set(expected) - maybe <= set(found)
    assert set(found) <= set(expected) | maybe
    assert {found[name] for name in found} <= {IMAGES}  # whole, or not at all
    for name in sorted(set(expected) & set(found))[-40:]:
        assert tuple(one.id for one in client.samples(name)) == expected[name]
    return found


def survive(folder, kills):
    """Kill a server so often; every next one is asked what it holds."""
    chance = random.Random(0)
    names = ["subject 0", "subject 1"]
    path = small_gallery(folder, names)
    images = [pattern(folder / "probes", "somebody", number).read_bytes() for number in range(2)]
    expected, maybe, acknowledged = {}, set(), 0
    server = forked(path, "--no-log")
    for turn in range(kills + 1):
        server.wait()
        with Client(server.url) as client:
            if not expected:
                expected = {name: tuple(one.id for one in client.samples(name)) for name in names}
            found = look(client, expected, maybe)
            # Whatever was under way when the last one was killed is settled now.
            for name in maybe:
                expected.pop(name, None)
                if name in found:
                    expected[name] = tuple(one.id for one in client.samples(name))
        if turn == kills:
            break
        writers = [Writer(server.url, f"{turn}/{number}", images) for number in range(CLIENTS)]
        for writer in writers:
            writer.start()
        while not any(writer.enrolled for writer in writers):
            time.sleep(0.005)
        time.sleep(chance.uniform(0.0, 0.4))
        server.kill()
        for writer in writers:
            writer.join()
            assert writer.ended in ("disconnected", "unreachable")
            expected |= writer.enrolled
            acknowledged += len(writer.enrolled) + len(writer.removed)
        maybe = {writer.begun for writer in writers if writer.begun is not None}
        server = forked(path, "--no-log")
    assert server.stop() == 0
    with Gallery.open(path, read_only=True) as gallery:
        assert {one.name for one in gallery.subjects()} == set(expected)
        assert gallery.sample_count == IMAGES * len(expected)
    return acknowledged


def test_a_kill_and_another_one(tmp_path):
    assert survive(tmp_path, 2) > 8


@pytest.mark.long
def test_fifty_kills(tmp_path):
    assert survive(tmp_path, 50) > 500
