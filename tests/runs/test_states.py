"""Tensors on the disk."""

import subprocess
import sys

import pytest
import torch

from arcset import RunError
from arcset.runs.states import load_tensors, save_tensors

LIMITED = """
import resource, sys
from pathlib import Path
import torch
from arcset import RunError
from arcset.runs.states import save_tensors

resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    save_tensors(Path(sys.argv[1]), {"a": torch.ones(100_000)})
except (RunError, OSError) as error:
    print(type(error).__name__, error)
"""


def test_there_and_back(tmp_path):
    tensors = {"a": torch.randn(3, 4), "b": torch.arange(5)}
    save_tensors(tmp_path / "t.safetensors", tensors)
    found = load_tensors(tmp_path / "t.safetensors")
    assert all(torch.equal(found[name], value) for name, value in tensors.items())
    (tmp_path / "t.safetensors").write_bytes(b"torn")
    with pytest.raises(RunError, match=r"t\.safetensors"):
        load_tensors(tmp_path / "t.safetensors")


@pytest.mark.skipif(sys.platform == "win32", reason="files have no limit there")
def test_no_room_is_told_and_what_stood_there_stays(tmp_path):
    file = tmp_path / "t.safetensors"
    save_tensors(file, {"a": torch.zeros(2)})
    words = [sys.executable, "-c", LIMITED, str(file)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("RunError ")
    assert "t.safetensors" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["t.safetensors"]
    assert torch.equal(load_tensors(file)["a"], torch.zeros(2))
