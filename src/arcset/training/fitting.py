"""A run from where it stands to its end: steps, epochs, what is measured and what is written."""

import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from arcset.data import Selection, as_float
from arcset.devices import seed_draws
from arcset.distributed import ProcessGroup
from arcset.errors import InputError, RunError
from arcset.evaluation.measures import validated
from arcset.losses import Loss, export_loss, loss_options
from arcset.runs import Run, RunConfig
from arcset.runs.folder import writing
from arcset.runs.model import build_model
from arcset.training.angles_now import angles_now
from arcset.training.averaging import Average
from arcset.training.belonging import Belonging
from arcset.training.checkpoint import State, load_newest, save_checkpoint
from arcset.training.diagnosis import Doctor
from arcset.training.feeding import Feed
from arcset.training.freezing import freeze
from arcset.training.progress import Step, Watcher
from arcset.training.schedule import learning_rate
from arcset.training.snapshots import Snapshots
from arcset.training.start import begin
from arcset.training.stepping import Stepper
from arcset.training.stopping import Stop
from arcset.training.validation import build_validator, validation_epochs

__all__ = ["Fitting"]

_PROBE = 64  # images that every epoch must embed in finite numbers before it is kept
_LOOKS = 200  # times in a run that angles are measured


class Fitting:
    """Everything that training holds, and how it goes on.

    In several processes all of them compute the same, each on its share of every batch; the first
    alone measures and writes.
    """

    def __init__(
        self,
        run: Run,
        selection: Selection,
        feed: Feed,
        watcher: Watcher,
        processes: ProcessGroup,
        network: nn.Module | None = None,
    ) -> None:
        self.run, self.config, self.feed, self.watcher = run, run.config, feed, watcher
        self.processes = processes
        config, device = run.config, feed.device
        self.shared = config.share_centers and processes.size > 1
        network, loss = build_model(
            _warming(config, feed.steps), training=True, shared=self.shared, network=network
        )
        dtype = getattr(torch, config.dtype)
        self.network, self.loss = network.to(device, dtype), loss.to(device)
        if dtype != torch.float32:  # else narrow centers would become wide
            self.loss.to(dtype)
        self.loss.set_class_sizes(feed.class_sizes())
        begin(run, self.network, self.loss, feed)
        self.frozen = freeze(self.network, config.freeze)
        self.stepper = Stepper(config, self.network, self.loss, device, processes)
        self.average = Average(self.network, config.ema) if config.ema else None
        averaged = self.average.network if self.average else None
        self.used = averaged or self.network  # what is measured and kept
        self.state = State(
            self.network, self.loss, self.stepper.optimizer, averaged, self.stepper.scaler
        )
        self.owner = Belonging.of(config, feed.samples.labels)
        self.doctor = Doctor(config, self.network, self.loss)
        self.tested = selection.test is not None
        self.measures = processes.is_main or self.shared  # shared centers are asked by all together
        if self.measures:
            self.snapshots = Snapshots(selection, config.snapshot, device)
        if processes.is_main:
            self.validator = build_validator(selection.validation, device)
        self.validated, self.framed = validation_epochs(config), _framed(config)
        self.generator = torch.Generator()
        self.look = max(1, feed.steps // _LOOKS)
        self.speed = _Speed()
        self.saved = time.perf_counter()  # when the last checkpoint was written
        self.history: list[dict[str, Any]] = []

    def go(self, stop: Stop) -> None:
        """From the newest checkpoint, or from the start, to the end."""
        place = self._load()
        if place is None and len(self.run.metrics()) > 1:  # the first line comes before the first
            raise RunError(
                f"{self.run.path} was trained and has no checkpoint left to go on from: train anew "
                "with --force"
            )
        self.processes.barrier()  # nobody writes while others read
        progress = self.state.progress
        self.doctor.recall(progress.diagnosis)
        # A run killed between its metrics and its checkpoint repeats that epoch: no line twice.
        self.history = [line for line in self.run.metrics() if line["epoch"] <= progress.epoch]
        if self.processes.is_main:
            self.run.save_samples(self.snapshots.samples())
        if self.measures and progress.step == 0:
            self._keep_embeddings(0)
        self.watcher.started(self.run.path.name, progress.step, self.feed.steps)
        while progress.epoch < self.config.epochs and not self._waited_enough():
            self._train_epoch(stop)
            self._end_epoch()
            if self.processes.any(stop.asked)[0]:
                raise KeyboardInterrupt

    def _train_epoch(self, stop: Stop) -> None:
        """The steps of an epoch that are not done yet."""
        progress = self.state.progress
        self.network.train()
        self.frozen.settle()
        self.loss.train()
        epoch = progress.epoch + 1
        done = progress.step - progress.epoch * self.feed.per_epoch
        started = time.perf_counter() - progress.seconds
        with torch.random.fork_rng(devices=[]):
            for number, index in enumerate(self.feed.epoch(epoch)):
                if number < done:
                    continue
                self._step(index, epoch)
                progress.seconds = time.perf_counter() - started
                if number + 1 == self.feed.per_epoch:
                    continue  # where an epoch ends there is a checkpoint anyway
                stopping, due = self.processes.any(stop.asked, self._due())
                if stopping or due:
                    self._save()
                if stopping:
                    raise KeyboardInterrupt

    def _step(self, index: Tensor, epoch: int) -> None:
        config, feed, progress = self.config, self.feed, self.state.progress
        step, seed = progress.step, feed.step_seed(progress.step)
        rows = self.stepper.rows(len(index))
        own = slice(self.processes.own_rows(rows[0]).start, self.processes.own_rows(rows[-1]).stop)
        seed_draws(seed + self.processes.rank, feed.device)  # for layers that draw, as dropout
        self.generator.manual_seed(seed)
        images, labels = feed.batch(index, self.generator, own)
        rate = learning_rate(
            step, feed.steps, config.learning_rate, config.schedule, config.warm_up
        )
        self.stepper.set_rate(rate)
        try:
            value, embeddings = self.stepper.backward(images, labels, rows, seed)
        except (InputError, FloatingPointError) as error:
            raise self.doctor.broken(str(error), images, epoch, rate) from error
        if step == 0 and (odd := self.doctor.first(value)):
            self.watcher.warned(odd)
        self.stepper.update()
        if self.average:
            self.average.update(self.network, step)
        if step % self.look == 0:
            angle = angles_now(self.loss, embeddings, labels, self.generator)
            progress.angles += [angle] if angle else []
        progress.step += 1
        progress.total += value * len(index)
        progress.seen += len(index)
        self.embeddings, self.rate = embeddings, rate
        told = progress.angles[-1] if progress.angles else (None, None)
        self.watcher.stepped(Step(progress.step, value, rate, self.speed.after(len(index)), *told))

    def _end_epoch(self) -> None:
        """Check, measure and keep."""
        progress, epoch = self.state.progress, self.state.progress.epoch + 1
        mean = progress.total / progress.seen
        if stuck := self.doctor.epoch(epoch, mean, progress.step, self.embeddings):
            self.watcher.warned(stuck)
        progress.diagnosis = self.doctor.remembered()
        self.network.eval()
        self.loss.eval()
        probe = torch.arange(min(_PROBE, len(self.feed.samples)), device=self.feed.device)
        images = as_float(self.feed.samples.take(probe)).to(getattr(torch, self.config.dtype))
        self.doctor.check_health(self.used, images, epoch, self.rate)
        line: dict[str, Any] = {"epoch": epoch, "loss": mean}
        if self.measures and epoch in self.framed:
            line |= self._keep_embeddings(epoch)
        better = self._measured(epoch, line) if self.processes.is_main else False
        better, progress.best, progress.waited = self.processes.broadcast(
            (better, progress.best, progress.waited)
        )
        progress.next_epoch()
        if self.processes.is_main:
            self.history.append(line)
            self.run.write_metrics(self.history)
        if better:
            self._keep_model()
        self._save()
        self.watcher.epoch_ended(line)

    def _measured(self, epoch: int, line: dict[str, Any]) -> bool:
        """Write what an epoch is worth into its line; whether it is the best so far."""
        progress = self.state.progress
        if progress.angles:
            line["target_degrees"], line["other_degrees"] = _means(progress.angles)
        line |= {
            "learning_rate": self.rate,
            "seconds": round(progress.seconds, 3),
            "images_per_second": round(progress.seen / progress.seconds, 1),
        }
        better = self.validator is None
        if self.validator is not None and epoch in self.validated:
            line["validation"] = self.validator.measure(self.used)
            key = self.config.best_by if self.config.best_by in line["validation"] else "map"
            score = line["validation"][key] * (-1 if validated()[key].lower_is_better else 1)
            better = progress.best is None or score > progress.best
            progress.best = score if better else progress.best
            progress.waited = 0 if better else progress.waited + 1
            line["kept"] = better
        return better

    def _keep_model(self) -> None:
        """Write the weights as they are used."""
        if self.processes.is_main:
            self.run.save_network(self.used.state_dict())
        if self.processes.is_main or self.shared:
            with writing(self.run.loss_file):
                export_loss(self.loss, self.run.loss_file, classes=self.feed.classes)

    def _keep_embeddings(self, epoch: int) -> dict[str, float]:
        """Write those of the kept samples; the accuracies that they show."""
        kept = self.snapshots.take(self.used, self.loss, self.feed.classes)
        if self.processes.is_main:
            self.run.save_embeddings(epoch, kept)
        return _accuracies(
            self.loss, kept, self.snapshots.labels, self.feed.classes, tested=self.tested
        )

    def _due(self) -> bool:
        """Whether it is time for a checkpoint within an epoch."""
        every, minutes = self.config.checkpoint_steps, self.config.checkpoint_minutes
        if every and self.state.progress.step % every == 0:
            return True
        return minutes > 0 and time.perf_counter() - self.saved >= minutes * 60

    def _load(self) -> Path | None:
        """Come to the newest checkpoint: its folder, None where there is none."""
        return load_newest(
            self.run.path / "checkpoint",
            self.state,
            self.owner,
            self.watcher.warned,
            together=self.processes if self.config.share_centers else None,
        )

    def _save(self) -> None:
        folder, keep = self.run.path / "checkpoint", self.config.checkpoints
        if self.config.share_centers:
            save_checkpoint(folder, self.state, self.owner, keep=keep, together=self.processes)
        elif self.processes.is_main:
            save_checkpoint(folder, self.state, self.owner, keep=keep)
        self.saved = time.perf_counter()

    def _waited_enough(self) -> bool:
        return 0 < self.config.patience <= self.state.progress.waited


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
            named = loss.classify(kept[part], classes)
            found[f"{part}_accuracy"] = (named == labels[part]).sum().item() / len(named)
    return found
