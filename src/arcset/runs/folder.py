"""A run is a folder: configuration, metrics, weights, checkpoint and embeddings over the epochs.

One training at a time works in it (`locked`), and its tensors are safetensors files that are
written beside and renamed.
"""

import errno
import json
import os
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from arcset.errors import RunError
from arcset.evaluation import Thresholds
from arcset.evaluation.measures import run_figures, short_name
from arcset.files import finite, parse_json, read_json, replacing, write_text
from arcset.runs.config import RunConfig
from arcset.text import html_table

try:
    import fcntl
except ImportError:  # Windows, where a folder is not locked
    fcntl = None  # type: ignore[assignment]

_Figures = dict[str, float | None]
_LOCK_FILE = ".lock"
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)
_held: set[tuple[Path, int]] = set()  # folders, each with the thread that keeps it


class Run:
    """A run folder.

        config.toml          the configuration
        split.json           which classes are known and held out, where a split file said so
        mapping.json         which identities are merged or removed, where a file said so
        metrics.jsonl        one line per epoch
        measures.json        how good it is, at the end of training: figure to value
        threshold.json       where "the same" begins, and for which rates
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
        cls.check_path(path, force=force)
        if (path / "config.toml").exists():
            cls(path, config)._clear()
        path.mkdir(parents=True, exist_ok=True)
        for file in path.glob(".config.toml.*.part"):
            file.unlink(missing_ok=True)
        config.save(path / "config.toml")
        return cls(path, config)

    @staticmethod
    def check_path(path: Path, *, force: bool = False) -> None:
        """Refuse a path where no run can be made: a file, another folder, a run in the way."""
        if path.exists() and not path.is_dir():
            raise RunError(f"{path} is a file; name a folder for the run")
        if (path / "config.toml").exists():
            if not force:
                raise RunError(
                    f"{path} already holds a run; continue it with --resume, replace it with "
                    "--force, or name another folder"
                )
        elif path.exists() and any(file not in _leftovers(path) for file in path.iterdir()):
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

    @property
    def has_checkpoint(self) -> bool:
        """Whether it can be continued, without the run that it started from."""
        return any((self.path / "checkpoint").glob("step-*"))

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
    def measures(self) -> _Figures:
        """How good the run is, from measures.json: figures by the names of `run_figures`, None for
        one that the data do not allow. Empty until training has ended."""
        path = self.path / "measures.json"
        if not path.exists():
            return {}
        figures: _Figures = read_json(path, "file of measures", _Figures)
        return figures

    def write_measures(self, measures: Mapping[str, float | None]) -> None:
        """Replace measures.json; infinite values, which JSON lacks, become None."""
        path = self.path / "measures.json"
        with writing(path):
            write_text(path, json.dumps(finite(dict(measures)), indent=2) + "\n")

    @property
    def thresholds(self) -> Thresholds | None:
        """Which cosine means "the same", from threshold.json; None where there is no such file."""
        path = self.path / "threshold.json"
        return Thresholds.load(path) if path.exists() else None

    @property
    def report(self) -> Path | None:
        """Path of report.html; None where none was written."""
        path = self.path / "report.html"
        return path if path.is_file() else None

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def _repr_html_(self) -> str:
        """A small table for notebooks: what was trained, how long, and how good it is."""
        config, known = self.config, run_figures()
        rows = {
            "run": str(self.path),
            "trained on": f"{Path(config.data).name}, {len(config.class_names or ()):,} classes",
            "model": f"{config.network}, {config.dim} dimensions, {config.loss}",
            "epochs": f"{len(self.metrics())} of {config.epochs}",
        }
        for key, value in self.measures.items():
            if key in known and value is not None:
                unseen = ", unseen" if known[key].part != "known" else ""
                rows[f"{short_name(known[key].full_name)}{unseen}"] = known[key].format(value)
        if self.report is not None:
            rows["report"] = str(self.report)
        return html_table(rows.items())

    @property
    def loss_file(self) -> Path:
        """Where the loss's own weights are kept."""
        return self.path / "loss.safetensors"

    def save_model(self, network: Mapping[str, Tensor], loss: Mapping[str, Tensor]) -> None:
        """Write the weights of the network and of the loss, as `save_network` does."""
        self.save_network(network)
        save_tensors(self.loss_file, loss)

    def save_network(self, network: Mapping[str, Tensor]) -> None:
        """Write the network's weights; what was measured with earlier ones goes."""
        for name in ("threshold.json", "measures.json"):
            (self.path / name).unlink(missing_ok=True)
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
            "threshold.json",
            "measures.json",
            "README.md",
            "report.html",
            "config.toml",
        ):
            (self.path / name).unlink(missing_ok=True)
        for name in ("checkpoint", "embeddings", "evaluation", "tensorboard"):
            shutil.rmtree(self.path / name, ignore_errors=True)


def _leftovers(path: Path) -> list[Path]:
    """What a process leaves that is killed before it has written its configuration."""
    return [*path.glob(".config.toml.*.part"), path / _LOCK_FILE]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep the folder `path` to this thread, which may ask for it again, while the block lasts.

    A folder that is missing is made, and removed again if it is still empty at the end. The lock is
    the kernel's, so that it ends with the process, however that dies. Raises `RunError` where
    another training has it, and where the folder or the lock cannot be made.
    """
    key = (path.resolve(), threading.get_ident())
    if fcntl is None or key in _held:
        yield
        return
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    with writing(path / _LOCK_FILE):
        handle = _acquire_lock(path)
    _held.add(key)
    try:
        yield
    finally:
        _held.discard(key)
        if handle is not None:
            (path / _LOCK_FILE).unlink(missing_ok=True)  # first: see `_acquire_lock`
            os.close(handle)
        with suppress(OSError):  # a folder that is not empty stays
            for folder in missing:
                folder.rmdir()


def _acquire_lock(path: Path) -> int | None:
    """Open the lock file and lock it; returns its handle, None where the file system has no
    locks."""
    file = path / _LOCK_FILE
    while True:
        path.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:
            continue  # the folder went just now, with a training that was refused
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            if isinstance(error, BlockingIOError):
                raise RunError(
                    f"{path} is being trained by another process: wait for it, or name another "
                    "folder"
                ) from None
            if error.errno in _NO_LOCKS:
                return None
            raise
        # A file that its owner removed before this process had the lock keeps nobody out.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), file.stat()):
                return handle
        os.close(handle)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an error of the disk, as one that is full, into a `RunError` that names `path`."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        why = getattr(error, "strerror", None) or error
        raise RunError(f"{path} cannot be written: {why}") from error


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write named tensors to `path`, or leave `path` as it was.

    Raises `RunError` where they cannot be written, as on a full disk.
    """
    content = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with writing(path), replacing(path) as part:
        part.touch()
        mode = part.stat().st_mode  # what the user's umask says; safetensors lets nobody else read
        save_file(content, part)
        part.chmod(mode)


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read what `save_tensors` wrote; a `RunError` names the file where it cannot be read."""
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise RunError(f"{path} is missing or damaged: {error}") from None
