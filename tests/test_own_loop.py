"""The guide for those who keep their own loop runs as it stands, top to bottom."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

GUIDE = Path(__file__).parent.parent / "docs/guides/own-loop.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.M | re.S)
DDP = [block for block in BLOCKS if block.startswith("# ddp.py")]


def test_the_guide_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names = {}
    for block in BLOCKS:
        if block not in DDP:
            exec(compile(block, str(GUIDE), "exec"), names)
    assert "torch.float32" in capsys.readouterr().out
    images, labels = names["images"], names["labels"]
    embeddings = names["network"](images)
    assert (names["loss"].classify(embeddings) == labels).float().mean() > 0.9
    assert (tmp_path / "digits.db").exists()


@pytest.mark.timeout(120)
def test_the_guide_runs_in_two_processes(tmp_path):
    (script,) = DDP
    (tmp_path / "ddp.py").write_text(script, encoding="utf-8")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "ddp.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    assert sorted(re.findall(r"process \d", done.stdout)) == ["process 0", "process 1"]
