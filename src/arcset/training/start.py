"""Beginning from another run: its weights, its centers, and its settings where none are given.

arcset train faces/ --from runs/faces --out runs/more-faces
"""

from pathlib import Path

from torch import nn

from arcset.data import Split
from arcset.data.mapping import ClassMapping
from arcset.errors import OptionError, RunError
from arcset.losses import Loss
from arcset.runs import Run, RunConfig
from arcset.runs.data import Earlier
from arcset.runs.model import load_model
from arcset.training.feeding import Feed
from arcset.training.first_centers import begin_centers
from arcset.training.freezing import freeze

__all__ = ["begin", "check_start", "earlier_of", "has_begun", "old_names"]


def has_begun(run: Run) -> bool:
    """Whether a run has a checkpoint, and so needs nothing more of the run that it began from."""
    return any((run.path / "checkpoint").glob("step-*"))


def earlier_of(config: RunConfig) -> Earlier | None:
    """What the run that this one begins from knew and held out, under the names of now."""
    if config.start is None:
        return None
    old = _opened(config)
    mapping = ClassMapping() if config.mapping is None else ClassMapping.load(config.mapping)
    split = Split.load(old.split_file) if old.split_file.exists() else None
    parts = [old.config.class_names or (), *((split.validation, split.test) if split else ())]
    now = [frozenset(name for name in mapping.of(names) if name is not None) for names in parts]
    return Earlier(str(old.path), *now)


def old_names(run: Run, old: Run) -> list[str | None]:
    """What the identities that `old` was trained on are called in `run`; None for those removed."""
    mapped = run.config.mapping is not None
    mapping = ClassMapping.load(run.mapping_file) if mapped else ClassMapping()
    return mapping.of(old.config.class_names or ())


def check_start(config: RunConfig, network: nn.Module, out: Path | str) -> None:
    """Refuse, with `OptionError`, settings that do not fit the run to begin from.

    config: described by its data. out: the new run's folder. Raises `RunError` where there is no
    trained run.
    """
    if config.start is None:
        if config.freeze:
            raise OptionError(
                f"freeze={config.freeze} would keep random weights: name a run to begin with, "
                "--from RUN"
            )
        return
    old = _opened(config)
    if Path(out).resolve() == old.path.resolve():
        raise OptionError(f"{out} is the run to begin from: name another folder for the new one")
    for name in ("network", "dim"):
        ours, theirs = getattr(config, name), getattr(old.config, name)
        if ours != theirs:
            raise OptionError(
                f"{old.path} has {name} {theirs}, which a run that begins from it keeps: leave out "
                f"{name} {ours}, or train anew"
            )
    if config.shape != old.config.shape:
        ours, theirs = (_size(shape) for shape in (config.shape, old.config.shape))
        raise OptionError(f"{old.path} takes samples of {theirs}, and the data has {ours}")
    freeze(network, config.freeze)
    old.load_model()  # raises where it was never trained


def begin(run: Run, network: nn.Module, loss: Loss, feed: Feed) -> None:
    """Give a fresh network and loss what they begin with, where they begin from another run.

    The network gets the old weights. Identities that the old run knew get their old centers, bit
    for bit; of those merged, the mean of the old directions; all others the mean of the embeddings
    of their images: see `begin_centers`. Nothing is done where the run has a checkpoint already,
    and the old run is not needed any more. Nothing is drawn from the random state, and the outcome
    is the same each time.
    """
    config = run.config
    if config.start is None or has_begun(run):
        return
    old = _opened(config)
    before, old_loss = load_model(old)
    network.load_state_dict(before.state_dict())
    sources: dict[str, list[int]] = {}
    for row, name in enumerate(old_names(run, old)):
        if name is not None:
            sources.setdefault(name, []).append(row)
    begin_centers(
        loss,
        old_loss,
        [sources.get(name, []) for name in config.class_names or ()],
        network,
        feed,
        same=config.loss == old.config.loss,
    )


def _opened(config: RunConfig) -> Run:
    assert config.start is not None
    try:
        return Run.open(config.start)
    except RunError as error:
        raise RunError(f"there is no run to begin from: {error}") from None


def _size(shape: tuple[int, ...] | None) -> str:
    return "×".join(str(side) for side in shape or ())
