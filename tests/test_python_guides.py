"""The guides for Python run as they stand, top to bottom."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from support.photos import photos

GUIDES = Path(__file__).parent.parent / "docs/guides"


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", (GUIDES / page).read_text("utf-8"), re.M | re.S)


DDP = next(block for block in blocks("own-loop.md") if block.startswith("# ddp.py"))


def run_all(page):
    """Run the blocks of a page one after the other, short trainings only; the names in the end."""
    names = {}
    for block in blocks(page):
        if block != DDP:
            code = block.replace("seeds=3", "seeds=1").replace("epochs=20", "epochs=2")
            exec(compile(code, page, "exec"), names)
    return names


def test_the_guide_to_a_loop_of_ones_own(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names = run_all("own-loop.md")
    assert "torch.float32" in capsys.readouterr().out
    images, labels = names["images"], names["labels"]
    embeddings = names["network"](images)
    assert (names["loss"].classify(embeddings) == labels).float().mean() > 0.9
    assert (tmp_path / "digits.db").exists()


@pytest.mark.long
def test_the_guide_to_training_from_python(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    photos(tmp_path / "faces", [5] * 24)
    photos(tmp_path / "strangers", [3] * 40)
    for number in range(24):  # whom training knows
        shutil.rmtree(tmp_path / f"strangers/person {number:03d}")
    (tmp_path / "strangers").rename(tmp_path / "visitors")
    for name in ("anna-1", "anna-2", "visitor"):
        shutil.copy(tmp_path / "faces/person 000/0.png", tmp_path / f"{name}.jpg")
    names = run_all("python.md")
    assert names["mine"].path == Path("runs/mine")
    assert len(names["mine"].metrics()) == 8
    assert names["recognizer"].name == "faces"
    assert names["best"]["values"]["margin"] in (0.2, 0.4)


@pytest.mark.timeout(120)
def test_the_loop_runs_in_two_processes(tmp_path):
    (tmp_path / "ddp.py").write_text(DDP, encoding="utf-8")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "ddp.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    assert sorted(re.findall(r"process \d", done.stdout)) == ["process 0", "process 1"]
