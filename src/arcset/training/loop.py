"""The training loop, top to bottom.

arcset train mnist-sample --classes 0-4 --loss arcface --dim 2 --epochs 20 --out runs/arcface
arcset train faces/ --out runs/faces
arcset train --resume runs/arcface
"""

import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from arcset.data import Selection, as_float, selection_for, selection_of
from arcset.errors import InputError
from arcset.losses import Loss, loss_options
from arcset.models import build_model, described, kept_state, resolved
from arcset.runs import Run, RunConfig
from arcset.training.angles_now import angles_now
from arcset.training.averaging import Average
from arcset.training.checkpoint import (
    State,
    latest_checkpoint,
    load_checkpoint,
    save_checkpoint,
)
from arcset.training.device import choose_device
from arcset.training.diagnosis import Doctor
from arcset.training.feeding import Feed
from arcset.training.progress import Silent, Step, Watcher
from arcset.training.schedule import learning_rate
from arcset.training.snapshots import Snapshots
from arcset.training.stepping import Stepper, build_optimizer, check_stepping
from arcset.training.validation import build_validator, validation_epochs

__all__ = ["build_optimizer", "resume", "train"]

_PROBE = 64  # images that every epoch must embed in finite numbers before it is kept
_LOOKS = 200  # times in a run that angles are measured


def train(
    config: RunConfig,
    out: Path | str,
    *,
    device: str = "auto",
    force: bool = False,
    watcher: Watcher | None = None,
    selection: Selection | None = None,
) -> Run:
    """Train a new run in the folder `out`. Ctrl-C keeps the epochs that are done: see `resume`.

    `selection` is what the configuration chooses, where somebody has read it already.

    Raises:
        OptionError: a name or value in the configuration does not fit.
        RunError: the folder is in the way.
        TrainingError: the loss is no longer finite; the last good epoch is kept.
    """
    Run.check_place(Path(out), force=force)
    selection = selection or selection_for(config)
    config = described(config, selection)
    _, loss = build_model(config, training=True)
    config = resolved(config, loss)
    place = choose_device(device)
    check_stepping(config, loss, place)  # a setting that does not fit is found here
    feed = Feed(config, selection.train, place)  # or here, before anything is written
    run = Run.create(out, config, force=force)
    if selection.split is not None:  # the file may move or change; the run keeps what it saw
        selection.split.save(run.split_file)
    return _fit(run, selection, feed, watcher or Silent())


def resume(out: Path | str, *, device: str = "auto", watcher: Watcher | None = None) -> Run:
    """Continue the run in `out` after its last complete epoch; a finished run stays as it is."""
    run = Run.open(out)
    selection = selection_of(run)
    feed = Feed(run.config, selection.train, choose_device(device))
    return _fit(run, selection, feed, watcher or Silent())


def _fit(run: Run, selection: Selection, feed: Feed, watcher: Watcher) -> Run:
    config, device = run.config, feed.device
    network, loss = build_model(_warming(config, feed.steps), training=True)
    network, loss = network.to(device), loss.to(device)
    loss.set_class_sizes(feed.class_sizes())
    stepper = Stepper(config, network, loss, device)
    average = Average(network, config.ema) if config.ema else None
    averaged = average.network if average else None
    used = averaged or network  # what is measured and kept
    state = State(network, loss, stepper.optimizer, averaged, stepper.scaler)
    doctor = Doctor(config, network, loss)
    snapshots = Snapshots(selection, config.snapshot, device)
    validator = build_validator(selection.validation, device)
    validated, framed = validation_epochs(config), _framed(config)

    checkpoints = run.path / "checkpoint"
    last = latest_checkpoint(checkpoints)
    if last is not None:
        load_checkpoint(last, state)
    progress = state.progress
    # A run killed between its metrics and its checkpoint repeats that epoch: no line twice.
    history = [line for line in run.metrics() if line["epoch"] <= progress.epoch]
    run.save_samples(snapshots.samples())
    if progress.epoch == 0:
        run.save_embeddings(0, snapshots.take(used, loss, feed.classes))

    generator = torch.Generator()
    speed, look = _Speed(), max(1, feed.steps // _LOOKS)
    step = progress.epoch * feed.per_epoch
    watcher.started(run.path.name, step, feed.steps)
    while progress.epoch < config.epochs and not _waited_enough(config, progress.waited):
        epoch = progress.epoch + 1
        network.train()
        loss.train()
        started = time.perf_counter()
        total, seen = 0.0, 0
        angles: list[tuple[float, float]] = []
        with torch.random.fork_rng(devices=[]):
            for index in feed.epoch(epoch):
                torch.manual_seed(feed.step_seed(step))  # for layers that draw, as dropout
                generator.manual_seed(feed.step_seed(step))
                images, labels = feed.batch(index, generator)
                rate = learning_rate(
                    step, feed.steps, config.learning_rate, config.schedule, config.warm_up
                )
                stepper.set_rate(rate)
                try:
                    value, embeddings = stepper.backward(images, labels)
                except (InputError, FloatingPointError) as error:
                    raise doctor.broken(str(error), images, epoch, rate) from error
                if step == 0 and (odd := doctor.first(value)):
                    watcher.warned(odd)
                stepper.update()
                if average:
                    average.update(network, step)
                if step % look == 0:
                    angle = angles_now(loss, embeddings, labels, generator)
                    angles += [angle] if angle else []
                step += 1
                total += value * len(index)
                seen += len(index)
                told = angles[-1] if angles else (None, None)
                watcher.stepped(Step(step, value, rate, speed.after(len(index)), *told))
        seconds = time.perf_counter() - started

        mean = total / seen
        if stuck := doctor.epoch(epoch, mean, step, embeddings):
            watcher.warned(stuck)
        network.eval()
        loss.eval()
        probe = torch.arange(min(_PROBE, len(feed.samples)), device=device)
        doctor.check_health(used, as_float(feed.samples.take(probe)), epoch, rate)
        line: dict[str, Any] = {"epoch": epoch, "loss": mean}
        if epoch in framed:
            kept = snapshots.take(used, loss, feed.classes)
            tested = selection.test is not None
            line |= _accuracies(loss, kept, snapshots.labels, feed.classes, tested=tested)
            run.save_embeddings(epoch, kept)
        if angles:
            line["target_degrees"], line["other_degrees"] = _means(angles)
        line |= {
            "learning_rate": rate,
            "seconds": round(seconds, 3),
            "images_per_second": round(seen / seconds, 1),
        }
        better = validator is None
        if validator is not None and epoch in validated:
            line["validation"] = validator.measure(used)
            score = line["validation"].get(config.best_by, line["validation"]["map"])
            better = progress.best is None or score > progress.best
            progress.best = score if better else progress.best
            progress.waited = 0 if better else progress.waited + 1
            line["kept"] = better
        progress.epoch = epoch
        history.append(line)
        run.write_metrics(history)
        if better:
            run.save_model(used.state_dict(), kept_state(loss, config))
        save_checkpoint(checkpoints, state)
        watcher.epoch_ended(line)
    return run


def _warming(config: RunConfig, steps: int) -> RunConfig:
    """With the margin's warm-up in steps, where the loss has one and no other was asked for."""
    options = loss_options(config.loss, **config.options)
    if "warmup" not in options or "warmup" in config.options:
        return config
    return config.replace(
        options={**config.options, "warmup": round(config.margin_warm_up * steps)}
    )


def _framed(config: RunConfig) -> set[int]:
    """The epochs whose embeddings are kept, for films: evenly chosen, the last among them."""
    count = min(config.frames, config.epochs)
    return {round(config.epochs * (place + 1) / count) for place in range(count)}


def _waited_enough(config: RunConfig, waited: int) -> bool:
    return 0 < config.patience <= waited


def _means(angles: list[tuple[float, float]]) -> tuple[float, float]:
    target, other = zip(*angles, strict=True)
    return round(sum(target) / len(target), 2), round(sum(other) / len(other), 2)


class _Speed:
    """Images per second over the last second or so."""

    def __init__(self) -> None:
        self._since, self._seen, self._rate = time.perf_counter(), 0, 0.0

    def after(self, images: int) -> float:
        """So many more are done."""
        self._seen += images
        passed = time.perf_counter() - self._since
        if passed > 1 or not self._rate:
            self._rate = self._seen / max(passed, 1e-9)
            if passed > 1:
                self._since, self._seen = time.perf_counter(), 0
        return self._rate


def _accuracies(
    loss: Loss, kept: dict[str, Tensor], labels: dict[str, Tensor], classes: int, *, tested: bool
) -> dict[str, float]:
    """Share of the kept samples that the classifier, of which the first `classes` remain, names."""
    found: dict[str, float] = {}
    for part in (("train", "test") if tested else ("train",)) if loss.classifies else ():
        if part in kept:
            with torch.no_grad():
                named = loss.logits(kept[part])[:, :classes].argmax(dim=1)
            found[f"{part}_accuracy"] = (named == labels[part]).sum().item() / len(named)
    return found
