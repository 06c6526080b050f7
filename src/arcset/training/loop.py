"""Training a run: a new one, or one that stopped on its way.

arcset train mnist-sample --classes 0-4 --loss arcface --dim 2 --epochs 20 --out runs/arcface
arcset train faces/ --out runs/faces
arcset train --resume runs/arcface
arcset train faces/ --from runs/faces --out runs/more-faces
torchrun --nproc-per-node 2 -m arcset train faces/ --out runs/faces
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from torch import nn

from arcset.data import Selection
from arcset.data.mapping import ClassMapping
from arcset.devices import choose_device
from arcset.distributed import ProcessGroup, join_group
from arcset.errors import RunError
from arcset.launch import is_main_process, is_restarted
from arcset.runs import Run, RunConfig
from arcset.runs.data import selection_for, selection_of
from arcset.runs.folder import locked
from arcset.runs.model import TrainedRun, add_data_settings, add_loss_settings, build_model
from arcset.training.belonging import MAY_CHANGE, changed
from arcset.training.feeding import Feed
from arcset.training.fitting import Fitting
from arcset.training.progress import Lines, Silent, Watcher
from arcset.training.start import check_start, earlier_of, has_begun
from arcset.training.stepping import build_optimizer, check_stepping
from arcset.training.stopping import stopping

__all__ = ["alone", "build_optimizer", "resume", "train"]


@contextmanager
def alone(out: Path | str) -> Iterator[None]:
    """Keep other trainings out of the folder `out`; of several processes the first does it for all.

    `train` and `resume` do so by themselves, also within this. Raises `RunError` where another
    training is at work there, or where no run can be made.
    """
    out = Path(out)
    if not (out / "config.toml").exists():
        Run.check_place(out)  # before anything is written
    with locked(out) if is_main_process() else nullcontext():
        yield


def train(
    config: RunConfig,
    out: Path | str,
    *,
    device: str = "auto",
    force: bool = False,
    again: bool = False,
    watcher: Watcher | None = None,
    selection: Selection | None = None,
    network: nn.Module | None = None,
) -> TrainedRun:
    """Train a new run in the folder `out`. One that stops on its way can be continued: `resume`.

    `watcher` is told about every step and epoch; left out, plain lines are printed on stderr, which
    `watcher=Silent()` of `arcset.training.progress` keeps quiet.

    `selection` is what the configuration chooses, where that has been read already or was given in
    Python; `network` is the module of a configuration whose network is `GIVEN`. With `again`,
    a run that is there already and has the same settings is continued instead of refused; so it is
    where torchrun has started this process again. One that began from another run needs that no
    more when it has a checkpoint.

    Ctrl-C and SIGTERM end the step that is under way, write a checkpoint and raise
    `KeyboardInterrupt`.

    Raises:
        OptionError: a name or value in the configuration does not fit.
        RunError: the folder is in the way, or another training is at work there.
        TrainingError: the loss is no longer finite; the last good epoch is kept.
    """
    place = choose_device(device)
    group = join_group(place)
    with alone(out):
        there = None
        if (Path(out) / "config.toml").exists() and (is_restarted() or (again and not force)):
            there = Run.open(out)
        else:
            Run.check_place(Path(out), force=force)
        begun = there is not None and has_begun(there)
        earlier = None if begun else earlier_of(config)
        if selection is None:
            own = there if begun and config.start is not None else None
            selection = selection_of(own) if own else selection_for(config, earlier=earlier)
        elif earlier is not None:
            earlier.check(selection)
        config = add_data_settings(config, selection)
        shared = config.share_centers and group.size > 1
        built, loss = build_model(config, training=True, shared=shared, network=network)
        config = add_loss_settings(config, loss)
        if not begun:
            check_start(config, built, out)
        check_stepping(config, loss, place)  # a setting that does not fit is found here
        feed = Feed(config, selection.train, place)  # or here, before anything is written
        if there is not None:
            run = _same(there, config, group)
            if not begun:
                _keep(run, selection, group)  # it may have been killed before it had done so
        else:
            group.barrier()  # all have found the place free
            run = _created(out, config, selection, group, force=force)
        return _fitted(run, selection, feed, watcher or Lines(), group, network, device)


def resume(
    out: Path | str,
    *,
    device: str = "auto",
    watcher: Watcher | None = None,
    changes: dict[str, Any] | None = None,
    selection: Selection | None = None,
    network: nn.Module | None = None,
) -> TrainedRun:
    """Continue the run in `out` from its last checkpoint; a finished run stays as it is.

    `changes` are other settings from here on: `epochs` (the schedule is then that of the new
    length), and what is measured and kept on the way. `selection` and `network` are the run's
    data and network where these were given in Python.

    Raises:
        OptionError: a setting that cannot change.
        RunError: there is no run, or no checkpoint of it that can be used.
    """
    place = choose_device(device)
    group = join_group(place)
    run = Run.open(out)
    config = changed(run.config, changes or {})
    with alone(out):
        selection = selection or selection_of(run)
        feed = Feed(config, selection.train, place)
        run = _with_settings(run, config, group)
        return _fitted(run, selection, feed, watcher or Lines(), group, network, device)


def _created(
    out: Path | str, config: RunConfig, selection: Selection, group: ProcessGroup, *, force: bool
) -> Run:
    """The new run's folder, made by the first process."""
    run = Run.create(out, config, force=force) if group.is_main else Run(Path(out), config)
    _keep(run, selection, group)
    return run


def _keep(run: Run, selection: Selection, group: ProcessGroup) -> None:
    """Write copies of split and mapping: their files may move or change."""
    if group.is_main:
        if selection.split is not None:
            selection.split.save(run.split_file)
        if run.config.mapping is not None:
            ClassMapping.load(run.config.mapping).save(run.mapping_file)
    group.barrier()


def _same(run: Run, config: RunConfig, group: ProcessGroup) -> Run:
    """A run that is there, if it has the settings asked for, up to those that may change."""
    for name in RunConfig.model_fields:
        found, asked = getattr(run.config, name), getattr(config, name)
        if found != asked and name not in MAY_CHANGE:
            raise RunError(
                f"{run.path} holds a run with {name} {found}, and {asked} is asked for: name "
                "another folder, or replace it with --force"
            )
    return _with_settings(run, config, group)


def _with_settings(run: Run, config: RunConfig, group: ProcessGroup) -> Run:
    """The run with other settings, which the first process writes when all have read the old."""
    group.barrier()
    if config != run.config and group.is_main:
        config.save(run.path / "config.toml")
    return Run(run.path, config)


def _fitted(
    run: Run,
    selection: Selection,
    feed: Feed,
    watcher: Watcher,
    group: ProcessGroup,
    network: nn.Module | None,
    device: str,
) -> TrainedRun:
    with stopping() as stop:
        watcher = watcher if group.is_main else Silent()
        Fitting(run, selection, feed, watcher, group, network).go(stop)
    group.barrier()  # nobody leaves while others still need an answer
    return TrainedRun.load(run, device=device, selection=selection, network=network)
