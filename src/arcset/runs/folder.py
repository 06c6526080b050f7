"""A run is a folder: configuration, metrics, weights, checkpoint and embeddings over the epochs."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from arcset.errors import RunError
from arcset.files import parse_json, write_text
from arcset.runs.config import RunConfig
from arcset.runs.lock import LOCK_FILE
from arcset.runs.states import load_tensors, save_tensors, writing

__all__ = ["Run"]


class Run:
    """A run folder.

        config.toml          the configuration
        split.json           which classes are known and held out, where a split file said so
        mapping.json         which identities are merged or removed, where a file said so
        metrics.jsonl        one line per epoch
        threshold.json       where "the same" begins, and for which rates
        forgetting.json      old and new identities before and after, where it began from a run
        model.safetensors    the network's weights
        loss.safetensors     the loss's own: class centers, biases
        checkpoint/          what a continued run needs
        embeddings/          samples.safetensors, and one file per kept epoch
        README.md            the model card
        report.html          pictures and figures
        .lock                while it is trained

    Use `Run.create` for a new one and `Run.open` for one that is there.
    """

    def __init__(self, path: Path, config: RunConfig) -> None:
        self.path = path
        self.config = config

    @classmethod
    def create(cls, path: Path | str, config: RunConfig, *, force: bool = False) -> "Run":
        """Make the folder; one that already holds a run is refused unless `force` clears it."""
        path = Path(path)
        cls.check_place(path, force=force)
        if (path / "config.toml").exists():
            cls(path, config)._clear()
        path.mkdir(parents=True, exist_ok=True)
        for file in path.glob(".config.toml.*.part"):
            file.unlink(missing_ok=True)
        config.save(path / "config.toml")
        return cls(path, config)

    @staticmethod
    def check_place(path: Path, *, force: bool = False) -> None:
        """Refuse a place where no run can be made: a file, another folder, a run in the way."""
        if path.exists() and not path.is_dir():
            raise RunError(f"{path} is a file; name a folder for the run")
        if (path / "config.toml").exists():
            if not force:
                raise RunError(
                    f"{path} already holds a run; continue it with --resume, replace it with "
                    "--force, or name another folder"
                )
        elif path.exists() and any(file not in _begun(path) for file in path.iterdir()):
            raise RunError(f"{path} is not empty and holds no run; name another folder")

    @classmethod
    def open(cls, path: Path | str) -> "Run":
        """Open a run that is there."""
        path = Path(path)
        if not (path / "config.toml").is_file():
            raise RunError(f"{path} holds no run: there is no config.toml in it")
        return cls(path, RunConfig.load(path / "config.toml"))

    @property
    def split_file(self) -> Path:
        """The run's own copy of its split: there where `config.split` is set."""
        return self.path / "split.json"

    @property
    def mapping_file(self) -> Path:
        """The run's own copy of its mapping: there where `config.mapping` is set."""
        return self.path / "mapping.json"

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl, first epoch first."""
        path = self.path / "metrics.jsonl"
        if not path.exists():
            return []
        try:
            lines = [parse_json(line) for line in path.read_text(encoding="utf-8").splitlines()]
            for number, line in enumerate(lines, 1):
                if not isinstance(line, dict) or not isinstance(line.get("epoch"), int):
                    raise ValueError(f"line {number} is not about an epoch")
            return lines
        except (OSError, ValueError) as error:
            raise RunError(f"{path} is damaged: {error}") from None

    def write_metrics(self, lines: list[dict[str, Any]]) -> None:
        """Replace metrics.jsonl: a few hundred lines, so it is written whole and never torn."""
        text = "".join(json.dumps(line) + "\n" for line in lines)
        with writing(self.path / "metrics.jsonl"):
            write_text(self.path / "metrics.jsonl", text)

    @property
    def loss_file(self) -> Path:
        """Where the loss's own weights are kept."""
        return self.path / "loss.safetensors"

    def save_model(self, network: Mapping[str, Tensor], loss: Mapping[str, Tensor]) -> None:
        """Write the weights of the network and of the loss; thresholds of earlier ones go."""
        self.save_network(network)
        save_tensors(self.loss_file, loss)

    def save_network(self, network: Mapping[str, Tensor]) -> None:
        """Write the network's weights; thresholds of earlier ones go."""
        (self.path / "threshold.json").unlink(missing_ok=True)
        save_tensors(self.path / "model.safetensors", network)

    def load_model(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The weights of the network and of the loss."""
        if not (self.path / "model.safetensors").exists():
            raise RunError(f"{self.path} holds no trained weights yet; continue it with --resume")
        network = load_tensors(self.path / "model.safetensors")
        return network, load_tensors(self.path / "loss.safetensors")

    def save_samples(self, samples: Mapping[str, Tensor]) -> None:
        """Write which samples the embeddings of every epoch belong to."""
        save_tensors(self.path / "embeddings" / "samples.safetensors", samples)

    def samples(self) -> dict[str, Tensor]:
        """What `save_samples` wrote: PART.index and PART.labels for train, test and unseen."""
        return load_tensors(self.path / "embeddings" / "samples.safetensors")

    def save_embeddings(self, epoch: int, embeddings: Mapping[str, Tensor]) -> None:
        """Write the embeddings of the kept samples after `epoch` (0: before training)."""
        save_tensors(self.path / "embeddings" / f"epoch-{epoch:04d}.safetensors", embeddings)

    def embeddings(self, epoch: int) -> dict[str, Tensor]:
        """What `save_embeddings` wrote: train, test, unseen (N, D), centers (C, D), biases (C,)."""
        return load_tensors(self.path / "embeddings" / f"epoch-{epoch:04d}.safetensors")

    def epochs(self) -> list[int]:
        """The epochs whose embeddings are kept, in order."""
        files = (self.path / "embeddings").glob("epoch-*.safetensors")
        return sorted(int(file.stem.removeprefix("epoch-")) for file in files)

    def _clear(self) -> None:
        """Remove what a run writes, and nothing else that may lie in the folder."""
        for name in (
            "metrics.jsonl",
            "model.safetensors",
            "loss.safetensors",
            "split.json",
            "mapping.json",
            "forgetting.json",
            "threshold.json",
            "README.md",
            "report.html",
            "config.toml",
        ):
            (self.path / name).unlink(missing_ok=True)
        for name in ("checkpoint", "embeddings", "tensorboard"):
            shutil.rmtree(self.path / name, ignore_errors=True)


def _begun(path: Path) -> list[Path]:
    """What a process leaves that was killed before it had written its configuration."""
    return [*path.glob(".config.toml.*.part"), path / LOCK_FILE]
