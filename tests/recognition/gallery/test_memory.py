"""Memory that is provided in the background; goes with that mechanism."""

import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from arcset.recognition.gallery import memory


def resident():
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


@pytest.mark.skipif(sys.platform != "linux", reason="as Linux does it")
def test_what_is_written_meanwhile_stays(monkeypatch):
    monkeypatch.setattr(memory, "_WORTH", 1)
    before = threading.active_count()
    room = np.empty(1 << 22, np.float32)
    memory.provide(room)
    room[:] = 3
    while threading.active_count() > before:
        pass
    assert (room == 3).all()


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="as Linux does it")
def test_it_is_there_before_it_is_written():
    room = np.empty(1 << 25, np.float32)
    before = resident()
    memory._provide(room)
    if resident() == before:
        pytest.skip("this system does not provide memory before it is written")
    assert resident() - before > 0.9 * room.nbytes


def test_of_a_small_array_nothing_is_made():
    before = threading.active_count()
    memory.provide(np.empty(100))
    assert threading.active_count() == before
