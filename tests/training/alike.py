"""What two run folders hold, read from their files alone, and whether it is the same."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor


def tensors(folder: Path) -> dict[str, Tensor]:
    """All tensors of the safetensors files of a folder, by file and name."""
    return {
        f"{file.stem}.{name}": tensor
        for file in sorted(folder.glob("*.safetensors"))
        for name, tensor in load_file(file).items()
    }


def checkpoints(run: Path) -> list[str]:
    return sorted(place.name for place in (run / "checkpoint").iterdir())


def newest(run: Path) -> Path:
    return run / "checkpoint" / checkpoints(run)[-1]


def epochs(run: Path) -> list[dict]:
    """The lines of metrics.jsonl, without how long anything took."""
    file = run / "metrics.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return [
        {key: value for key, value in json.loads(line).items() if "second" not in key}
        for line in lines
    ]


def numbers(checkpoint: Path) -> dict:
    """What a checkpoint holds beside tensors, without seconds, and whose it is."""
    content = json.loads((checkpoint / "state.json").read_text())
    progress = {name: value for name, value in content["progress"].items() if "second" not in name}
    return {"progress": progress, "optimizer": content["optimizer"], "scaler": content["scaler"]}


def assert_alike(one: Path, other: Path) -> None:
    """Weights, the newest checkpoint and metrics are the same, bit for bit."""
    for first, second in ((one, other), (newest(one), newest(other))):
        ours, theirs = tensors(first), tensors(second)
        assert ours.keys() == theirs.keys()
        assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []
    assert numbers(newest(one)) == numbers(newest(other))
    assert epochs(one) == epochs(other)
