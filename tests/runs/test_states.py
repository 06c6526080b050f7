"""Tensors on the disk."""

import sys
from contextlib import contextmanager

import pytest
import torch

from arcset import RunError
from arcset.runs import Run, RunConfig
from arcset.runs.states import load_tensors, save_tensors


def test_there_and_back(tmp_path):
    tensors = {"a": torch.randn(3, 4), "b": torch.arange(5)}
    save_tensors(tmp_path / "t.safetensors", tensors)
    found = load_tensors(tmp_path / "t.safetensors")
    assert all(torch.equal(found[name], value) for name, value in tensors.items())
    (tmp_path / "t.safetensors").write_bytes(b"torn")
    with pytest.raises(RunError, match=r"t\.safetensors"):
        load_tensors(tmp_path / "t.safetensors")


@contextmanager
def no_room(count):
    """Files of this process may hold no more than so many bytes, as on a disk that is full."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.skipif(sys.platform == "win32", reason="files have no limit there")
def test_no_room_is_told_and_what_stood_there_stays(tmp_path):
    run = Run.create(tmp_path / "run", RunConfig(data="mnist-sample"))
    run.save_model({"a": torch.zeros(2)}, {})
    files = sorted(path.name for path in run.path.iterdir())
    with no_room(10_000), pytest.raises(RunError, match=r"model\.safetensors"):
        run.save_model({"a": torch.ones(100_000)}, {})
    assert sorted(path.name for path in run.path.iterdir()) == files
    assert torch.equal(run.load_model()[0]["a"], torch.zeros(2))
