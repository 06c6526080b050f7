"""What is to be trained: all that memory, traffic and time of a step follow from."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from arcset.centers import MODES, UPDATES
from arcset.centers.sharded import can_share
from arcset.checks import check_choice, check_count, check_number
from arcset.errors import OptionError
from arcset.losses.margin_softmax import STORAGES
from arcset.margins import MARGINS
from arcset.networks import NETWORKS
from arcset.registry import unknown_name

__all__ = ["DEVICES", "OPTIMIZERS", "Setting"]

OPTIMIZERS = ("sgd", "adamw")
DEVICES = ("cpu", "cuda")


@dataclass(frozen=True)
class Setting:
    """One training step, as `arcset.build_loss` and `arcset train` understand these words.

    Fields:
        classes: C, in all processes together.
        dim: D, dimensions of an embedding.
        processes: that share the centers, each with its slice of the classes.
        batch: samples per process.
        loss: the name of a margin.
        subcenters: K, centers per class.
        sample: share of the classes that take part in a step.
        storage: float32 or bfloat16.
        update: sgd or adagrad for centers updated in the backward pass; None for the optimizer.
        optimizer: sgd or adamw, of the network, and of the centers where `update` is None.
        mode: how the softmax is computed.
        network: the name of a network; None for the loss alone.
        shape: of an image, (channels, height, width).
        device: cpu or cuda.

    Raises `OptionError` for what cannot be trained.

        >>> Setting(classes=1_000_000, processes=8).rows
        125000
    """

    classes: int
    dim: int = 512
    processes: int = 1
    batch: int = 128
    loss: str = "arcface"
    subcenters: int = 1
    sample: float = 1.0
    storage: str = "float32"
    update: str | None = None
    optimizer: str = "sgd"
    mode: str = "auto"
    network: str | None = None
    shape: tuple[int, int, int] = (3, 112, 112)
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name in ("classes", "dim", "processes", "batch", "subcenters"):
            check_count(name, getattr(self, name))
        check_number("sample", self.sample, 0, 1, closed="right")
        check_choice("storage", self.storage, STORAGES)
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        check_choice("mode", self.mode, MODES)
        check_choice("device", self.device, DEVICES)
        if self.update is not None:
            check_choice("update", self.update, UPDATES)
        if self.loss not in MARGINS:
            raise unknown_name("margin", self.loss, MARGINS.names())
        if not can_share(self.classes, self.processes):
            raise OptionError(
                f"{self.classes:,} classes cannot be divided among {self.processes:,} processes: "
                f"{-(-self.classes // self.own_classes):,} would have all of them"
            )
        if self.network is not None and not self.network.startswith("timm:"):
            NETWORKS[self.network]  # raises for an unknown one
        if self.mode == "plain" and self.processes > 1:
            raise OptionError("mode=plain keeps all centers in one process: leave it out")

    @property
    def own_classes(self) -> int:
        """Classes of the process that has the most."""
        return -(-self.classes // self.processes)

    @property
    def rows(self) -> int:
        """Centers of that process, C·K / P."""
        return self.own_classes * self.subcenters

    @property
    def taking_part(self) -> int:
        """Classes of that process that take part in a step, on average."""
        if self.sample == 1:
            return self.own_classes
        own = min(self.together / self.processes, self.own_classes)  # those of the batch
        return round(own + self.sample * (self.own_classes - own))

    @property
    def drawn(self) -> int:
        """Centers of those classes."""
        return self.taking_part * self.subcenters

    @property
    def together(self) -> int:
        """Samples of all processes."""
        return self.batch * self.processes

    @property
    def dtype(self) -> torch.dtype:
        """Of the centers."""
        return STORAGES[self.storage]

    def but(self, **changes: Any) -> "Setting":
        """The same with some fields changed."""
        return replace(self, **changes)

    def json(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)
