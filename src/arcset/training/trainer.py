"""Training a run: a new one, or one that stopped on its way. `Trainer.fit` is the loop.

arcset train mnist-sample --classes 0-4 --loss arcface --dim 2 --epochs 20 --out runs/arcface
arcset train faces/ --out runs/faces
arcset train --resume runs/arcface
arcset train faces/ --from runs/faces --out runs/more-faces
torchrun --nproc-per-node 2 -m arcset train faces/ --out runs/faces
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from arcset.data import Selection, as_float
from arcset.data.mapping import ClassMapping
from arcset.devices import choose_device, seed_draws
from arcset.distributed import ProcessGroup, join_group
from arcset.errors import InputError, RunError
from arcset.evaluation.measures import validated
from arcset.launch import is_main_process, is_restarted
from arcset.losses import Loss, export_loss
from arcset.runs import Run, RunConfig
from arcset.runs.data import selection_of
from arcset.runs.folder import locked, writing
from arcset.runs.model import (
    TrainedRun,
    add_data_settings,
    add_loss_settings,
    build_model,
    load_weights,
)
from arcset.training.batches import TrainingBatches
from arcset.training.checkpoint import (
    Fingerprint,
    State,
    change_settings,
    check_same_settings,
    load_newest,
    save_checkpoint,
)
from arcset.training.doctor import Doctor
from arcset.training.fine_tune import (
    check_start,
    choose_selection,
    freeze,
    load_earlier,
    start_from_earlier,
)
from arcset.training.monitor import Snapshots, build_validator, measure_angles, validates_after
from arcset.training.optimize import Updater, WeightAverage, check_update_settings, learning_rate
from arcset.training.watchers import Lines, Silent, Step, StopRequest, Watcher, stop_on_signals

_PROBE = 64  # images that every epoch must embed in finite numbers before it is kept
_ANGLE_TIMES = 200  # times in a run that angles are measured


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
    `watcher=Silent()` of `arcset.training.watchers` keeps quiet.

    `selection` is what the configuration chooses, where that has been read already or was given in
    Python; `network` is the module of a configuration whose network is `GIVEN`. With `again`, a run
    that is there already and has the same settings is continued instead of refused; so it is where
    torchrun has started this process again.

    Ctrl-C and SIGTERM end the step that is under way, write a checkpoint and raise
    `KeyboardInterrupt`.

    Raises:
        OptionError: a name or value in the configuration does not fit.
        RunError: the folder is in the way, or another training is at work there.
        TrainingError: the loss is no longer finite; the last good epoch is kept.
    """
    chosen = choose_device(device)
    group = join_group(chosen)
    with lock_run(out):
        run = None
        if (Path(out) / "config.toml").exists() and (is_restarted() or (again and not force)):
            run = Run.open(out)
        else:
            Run.check_path(Path(out), force=force)
        goes_on = run is not None and run.has_checkpoint
        if selection is None:
            selection = choose_selection(config, run)
        elif not goes_on and (earlier := load_earlier(config)) is not None:
            earlier.check(selection)

        # All that can be refused is refused here, before anything is written.
        config = add_data_settings(config, selection)
        batches = TrainingBatches(config, selection.train, chosen)
        module, loss = build_to_train(config, batches, group, network)
        config = add_loss_settings(config, loss)
        if not goes_on:
            check_start(config, module, out)
        check_update_settings(config, loss, chosen)

        group.barrier()  # all have looked at the folder
        if run is None:
            run = Run.create(out, config, force=force) if group.is_main else Run(Path(out), config)
        else:
            check_same_settings(run, config)
            run = _with_settings(run, config, group)
        if not goes_on and group.is_main:
            _copy_split_and_mapping(run, selection)
        group.barrier()
        return Trainer(run, selection, batches, module, loss, watcher, group).train()


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
    chosen = choose_device(device)
    group = join_group(chosen)
    run = Run.open(out)
    config = change_settings(run.config, changes or {})
    with lock_run(out):
        selection = selection or selection_of(run)
        batches = TrainingBatches(config, selection.train, chosen)
        module, loss = build_to_train(config, batches, group, network)
        check_update_settings(config, loss, chosen)
        run = _with_settings(run, config, group)
        return Trainer(run, selection, batches, module, loss, watcher, group).train()


@contextmanager
def lock_run(out: Path | str) -> Iterator[None]:
    """Keep other trainings out of the folder `out`; of several processes the first does it for all.

    `train` and `resume` do so by themselves, also within this. Raises `RunError` where another
    training is at work there, or where no run can be made.
    """
    out = Path(out)
    if not (out / "config.toml").exists():
        Run.check_path(out)  # before anything is written
    with locked(out) if is_main_process() else nullcontext():
        yield


def build_to_train(
    config: RunConfig,
    batches: TrainingBatches,
    group: ProcessGroup,
    network: nn.Module | None = None,
) -> tuple[nn.Module, Loss]:
    """Network and loss as they start, on the device and in the type that they are trained in."""
    shared = config.share_centers and group.size > 1
    network, loss = build_model(
        config, training=True, steps=batches.steps, shared=shared, network=network
    )
    dtype = getattr(torch, config.dtype)
    network, loss = network.to(batches.device, dtype), loss.to(batches.device)
    if dtype != torch.float32:  # else narrow centers would become wide
        loss.to(dtype)
    loss.set_class_sizes(batches.class_sizes())
    return network, loss


def _copy_split_and_mapping(run: Run, selection: Selection) -> None:
    """Into the run's folder: their files may move or change."""
    if selection.split is not None:
        selection.split.save(run.split_file)
    if run.config.mapping is not None:
        ClassMapping.load(run.config.mapping).save(run.mapping_file)


def _with_settings(run: Run, config: RunConfig, group: ProcessGroup) -> Run:
    """The run with other settings, which the first process writes when all have read the old."""
    group.barrier()
    if config != run.config and group.is_main:
        config.save(run.path / "config.toml")
    return Run(run.path, config)


class Trainer:
    """Everything that training holds, and the loop.

    In several processes all of them compute the same, each on its share of every batch; the first
    alone measures and writes. network, loss: as they start, on the device of the batches.
    """

    def __init__(
        self,
        run: Run,
        selection: Selection,
        batches: TrainingBatches,
        network: nn.Module,
        loss: Loss,
        watcher: Watcher | None = None,
        group: ProcessGroup | None = None,
    ) -> None:
        self.group = group or ProcessGroup()
        self.watcher = (watcher or Lines()) if self.group.is_main else Silent()
        self.run, self.config, self.selection, self.batches = run, run.config, selection, batches
        self.network, self.loss = network, loss
        config, device = run.config, batches.device
        if config.start is not None and not run.has_checkpoint:
            start_from_earlier(run, network, loss, batches)
        self.frozen = freeze(network, config.freeze)
        self.updater = Updater(config, network, loss, device, self.group)
        self.average = WeightAverage(network, config.ema) if config.ema else None
        #: What is measured and kept: the averaged network where there is one.
        self.best_network = self.average.network if self.average else network
        self.state = State(
            network,
            loss,
            self.updater.optimizer,
            self.average.network if self.average else None,
            self.updater.scaler,
        )
        self.fingerprint = Fingerprint.of(config, batches.samples.labels)
        self.doctor = Doctor(config, network, loss)
        # Of shared centers every process must be asked.
        self.takes_snapshots = self.group.is_main or loss.shared
        if self.takes_snapshots:
            self.snapshots = Snapshots(selection, config.snapshot, device)
        self.snapshot_epochs = _snapshot_epochs(config)
        if self.group.is_main:
            self.validator = build_validator(selection.validation, device)
        self.generator = torch.Generator()
        self.checkpoint_time = time.perf_counter()
        self.history: list[dict[str, Any]] = []

    def train(self) -> TrainedRun:
        """`fit`, and the run with the weights that it keeps."""
        with stop_on_signals() as stop:
            self.fit(stop)
        self.group.barrier()  # nobody leaves while others still need an answer
        network = self.best_network.to(torch.float32).eval()
        loss = load_weights(self.run, network).to(self.batches.device)
        return TrainedRun(self.run, network, loss, self.batches.device, self.selection)

    def fit(self, stop: StopRequest) -> None:
        """From the newest checkpoint, or from the start, to the last epoch."""
        config, batches = self.config, self.batches
        self.load_checkpoint()
        progress = self.state.progress
        if self.group.is_main:
            self.run.save_samples(self.snapshots.samples())
        if self.takes_snapshots and progress.step == 0:
            self.save_snapshot(epoch=0)
        self.watcher.started(self.run.path.name, progress.step, batches.steps)

        while progress.epoch < config.epochs and not self.is_out_of_patience():
            epoch = progress.epoch + 1
            self.network.train()
            for layer in self.frozen:
                layer.eval()
            self.loss.train()
            end = epoch * batches.per_epoch
            done = progress.step - (end - batches.per_epoch)  # steps of this epoch
            self.epoch_start = time.perf_counter() - progress.seconds
            with torch.random.fork_rng(devices=[]):
                for index in islice(batches.epoch(epoch), done, None):  # (B,)
                    embeddings, rate = self.train_step(index, epoch)  # (B, D)
                    progress.seconds = time.perf_counter() - self.epoch_start
                    if progress.step < end:  # at the end of an epoch there is one anyway
                        self.save_checkpoint_if_due(stop)
            self.end_epoch(epoch, embeddings, rate)
            if self.group.any(stop.is_set)[0]:
                raise KeyboardInterrupt

    def train_step(self, index: Tensor, epoch: int) -> tuple[Tensor, float]:
        """Learn from the samples `index` (B,); returns their embeddings, and the learning rate."""
        config, batches, progress = self.config, self.batches, self.state.progress
        step, seed = progress.step, batches.step_seed(progress.step)
        seed_draws(seed + self.group.rank, batches.device)  # for layers that draw, as dropout
        self.generator.manual_seed(seed)

        images, labels = batches.batch(  # (b, C, H, W), (B,)
            index, self.generator, self.updater.rows(len(index))
        )
        rate = learning_rate(
            step, batches.steps, config.learning_rate, config.schedule, config.warm_up
        )
        self.updater.set_learning_rate(rate)
        try:
            value, embeddings = self.updater.backward(images, labels, seed)  # embeddings: (B, D)
        except (InputError, FloatingPointError) as error:
            raise self.doctor.explain_break(str(error), images, epoch, rate) from error
        if step == 0 and (warning := self.doctor.check_first_loss(value)):
            self.watcher.warned(warning)
        self.updater.update()
        if self.average:
            self.average.update(self.network, step)

        if step % max(1, batches.steps // _ANGLE_TIMES) == 0:
            angles = measure_angles(self.loss, embeddings, labels, self.generator)
            progress.angles += [angles] if angles else []
        progress.step += 1
        progress.total += value * len(index)
        progress.seen += len(index)
        latest = progress.angles[-1] if progress.angles else (None, None)
        speed = progress.seen / (time.perf_counter() - self.epoch_start)
        self.watcher.stepped(Step(progress.step, value, rate, speed, *latest))
        return embeddings, rate

    def end_epoch(self, epoch: int, embeddings: Tensor, rate: float) -> None:
        """Check, measure and keep; embeddings (B, D) and rate are those of the last step."""
        progress = self.state.progress
        mean = progress.total / progress.seen
        if warning := self.doctor.check_epoch(epoch, mean, progress.step, embeddings):
            self.watcher.warned(warning)
        self.network.eval()
        self.loss.eval()
        self.check_embeddings(epoch, rate)

        line: dict[str, Any] = {"epoch": epoch, "loss": mean}
        if self.takes_snapshots and epoch in self.snapshot_epochs:
            line |= self.save_snapshot(epoch)
        is_best = False
        if self.group.is_main:
            if progress.angles:
                line["target_degrees"], line["other_degrees"] = (
                    round(sum(degrees) / len(degrees), 2)
                    for degrees in zip(*progress.angles, strict=True)
                )
            line |= {
                "learning_rate": rate,
                "seconds": round(progress.seconds, 3),
                "images_per_second": round(progress.seen / progress.seconds, 1),
            }
            is_best = self.validate(epoch, line)
        is_best, progress.best, progress.waited = self.group.broadcast(
            (is_best, progress.best, progress.waited)
        )
        progress.next_epoch()
        if self.group.is_main:
            self.history.append(line)
            self.run.write_metrics(self.history)
        if is_best:
            self.save_weights()
        self.save_checkpoint()
        self.watcher.epoch_ended(line)

    def check_embeddings(self, epoch: int, rate: float) -> None:
        """Refuse, with `TrainingError`, an epoch after which embeddings are not finite."""
        samples = self.batches.samples
        index = torch.arange(min(_PROBE, len(samples)), device=self.batches.device)
        images = as_float(samples.take(index)).to(getattr(torch, self.config.dtype))
        self.doctor.check_health(self.best_network, images, epoch, rate)

    def validate(self, epoch: int, line: dict[str, Any]) -> bool:
        """Measure the validation identities where it is time; whether the epoch is the best."""
        progress = self.state.progress
        if self.validator is None:
            return True
        if not validates_after(self.config, epoch):
            return False
        values = line["validation"] = self.validator.measure(self.best_network)
        key = self.config.best_by if self.config.best_by in values else "map"
        score = values[key] * (-1 if validated()[key].lower_is_better else 1)
        is_best = progress.best is None or score > progress.best
        progress.best = score if is_best else progress.best
        progress.waited = 0 if is_best else progress.waited + 1
        line["kept"] = is_best
        return is_best

    def is_out_of_patience(self) -> bool:
        """Whether validation has not improved for too long."""
        return 0 < self.config.patience <= self.state.progress.waited

    def save_weights(self) -> None:
        """Write the weights as they will be used."""
        if self.group.is_main:
            self.run.save_network(self.best_network.state_dict())
        if self.group.is_main or self.loss.shared:
            with writing(self.run.loss_file):
                export_loss(self.loss, self.run.loss_file, classes=self.batches.classes)

    def save_snapshot(self, epoch: int) -> dict[str, float]:
        """Write the embeddings of the kept samples; returns the accuracies that they show."""
        classes = self.batches.classes
        snapshot = self.snapshots.take(self.best_network, self.loss, classes)
        if self.group.is_main:
            self.run.save_embeddings(epoch, snapshot)
        parts = ["train"] if self.selection.test is None else ["train", "test"]
        return self.snapshots.accuracies(snapshot, self.loss, classes, parts)

    def load_checkpoint(self) -> None:
        """Come to the newest checkpoint, if there is one, and to the metrics up to it."""
        checkpoint = load_newest(
            self.run.path / "checkpoint",
            self.state,
            self.fingerprint,
            self.watcher.warned,
            group=self.group if self.config.share_centers else None,
        )
        lines = self.run.metrics()
        if checkpoint is None and len(lines) > 1:  # the first line comes before the first
            raise RunError(
                f"{self.run.path} was trained and has no checkpoint left to go on from: train anew "
                "with --force"
            )
        self.group.barrier()  # nobody writes while others read
        self.doctor.diagnosis = self.state.progress.diagnosis
        # A run killed between its metrics and its checkpoint repeats that epoch: no line twice.
        self.history = [line for line in lines if line["epoch"] <= self.state.progress.epoch]

    def save_checkpoint(self) -> None:
        """Write where the run stands now; of shared centers every process writes its slice."""
        folder, keep = self.run.path / "checkpoint", self.config.checkpoints
        if self.config.share_centers:
            save_checkpoint(folder, self.state, self.fingerprint, keep=keep, group=self.group)
        elif self.group.is_main:
            save_checkpoint(folder, self.state, self.fingerprint, keep=keep)
        self.checkpoint_time = time.perf_counter()

    def save_checkpoint_if_due(self, stop: StopRequest) -> None:
        """Within an epoch, by steps or by the clock; and where training was asked to stop."""
        steps, minutes = self.config.checkpoint_steps, self.config.checkpoint_minutes
        is_due = bool(steps) and self.state.progress.step % steps == 0
        if minutes > 0 and time.perf_counter() - self.checkpoint_time >= minutes * 60:
            is_due = True
        stopping, is_due = self.group.any(stop.is_set, is_due)
        if stopping or is_due:
            self.save_checkpoint()
        if stopping:
            raise KeyboardInterrupt


def _snapshot_epochs(config: RunConfig) -> set[int]:
    """The epochs whose embeddings are kept, for films: evenly chosen, the last among them."""
    count = min(config.frames, config.epochs)
    return {round(config.epochs * number / count) for number in range(1, count + 1)}
