"""What a trained run is worth: on the classes it knows, and on those it has never seen."""

import torch
from torch import Tensor

from arcset.data import ImageSet, Selection, load_dataset, select, to_tensors
from arcset.evaluation import dunn_index, verification
from arcset.models import embed, load_model
from arcset.numerics import unit_rows
from arcset.runs import Run
from arcset.training.device import choose_device

__all__ = ["MEASURES", "measure"]

#: What `measure` returns, with what each means.
MEASURES = {
    "accuracy": "share of test samples of the known classes that the classifier names rightly",
    "dunn": "Dunn index of the known test samples: least distance of class centroids over the "
    "largest mean radius; raw embeddings for softmax and center, unit ones otherwise",
    "dunn_trimmed": "the same without the 5 % of each class that lie farthest out",
    "dunn_trimmed_unit": "the same on unit embeddings, whatever the loss",
    "unseen_auc": "chance that two samples of one unseen class have a higher cosine than two of "
    "different ones; 0.5 is guessing",
    "unseen_eer": "equal error rate of same-or-different on the unseen classes",
}


def measure(
    run: Run, *, device: str = "auto", selection: Selection | None = None
) -> dict[str, float | None]:
    """All of `MEASURES` on the complete test part; None where a run has no such thing."""
    if selection is None:
        selection = select(load_dataset(run.config.data), run.config.classes)
    place = choose_device(device)
    network, loss = load_model(run)
    network, loss = network.to(place), loss.to(place)

    def embedded(part: ImageSet) -> tuple[Tensor, Tensor]:
        images, labels = to_tensors(part, place)
        return embed(network, images), labels

    known, labels = embedded(selection.test)  # (N, D), (N,)
    unit, _ = unit_rows(known)
    space = unit if loss.normalized else known
    found: dict[str, float | None] = dict.fromkeys(MEASURES)
    if loss.classifies:
        with torch.no_grad():
            right = (loss.logits(known).argmax(dim=1) == labels).sum().item()
            found["accuracy"] = right / len(labels)
    found["dunn"] = dunn_index(space, labels, trim=None)
    found["dunn_trimmed"] = dunn_index(space, labels, trim=0.95)
    found["dunn_trimmed_unit"] = dunn_index(unit, labels, trim=0.95)
    if selection.unseen is not None and len(selection.unseen.class_names) > 1:
        pairs = verification(*embedded(selection.unseen))
        found["unseen_auc"], found["unseen_eer"] = pairs.auc, pairs.eer
    return found
