"""What a trained run is worth: on the classes it knows, and on those it has never seen."""

from math import isnan

from torch import Tensor

from arcset.data import ImageSet, Selection, selection_of, to_tensors
from arcset.evaluation import Assessment, dunn_index, retrieval, verification
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
    "unseen_tar": "share of same pairs accepted at the threshold that accepts 1 % of the others, "
    "on the unseen classes",
    "unseen_recall": "share of unseen samples whose nearest other one is of their class",
    "unseen_map": "MAP@R of the unseen samples among each other",
}


def measure(
    run: Run,
    *,
    device: str = "auto",
    selection: Selection | None = None,
    unseen: Assessment | None = None,
) -> dict[str, float | None]:
    """All of `MEASURES` on the complete test part; None where a run has no such thing.

    `selection` and `unseen`, the data and the assessment on the unseen part, are used where they
    are known already.
    """
    if selection is None:
        selection = selection_of(run)
    place = choose_device(device)
    network, loss = load_model(run)
    network, loss = network.to(place), loss.to(place)

    def embedded(part: ImageSet) -> tuple[Tensor, Tensor]:
        images, labels = to_tensors(part, place)
        return embed(network, images), labels

    found: dict[str, float | None] = dict.fromkeys(MEASURES)
    if selection.test is not None:
        known, labels = embedded(selection.test)  # (N, D), (N,)
        unit, _ = unit_rows(known)
        space = unit if loss.normalized else known
        if loss.classifies:
            right = (loss.classify(known) == labels).sum().item()
            found["accuracy"] = right / len(labels)
        found["dunn"] = dunn_index(space, labels, trim=None)
        found["dunn_trimmed"] = dunn_index(space, labels, trim=0.95)
        found["dunn_trimmed_unit"] = dunn_index(unit, labels, trim=0.95)
    if selection.unseen is None or len(selection.unseen.class_names) < 2:
        return found
    if unseen is not None:
        pairs, search = unseen.verification, unseen.retrieval
    else:
        samples = embedded(selection.unseen)
        pairs, search = verification(*samples), retrieval(*samples)
    if pairs is not None:
        found["unseen_auc"], found["unseen_eer"] = pairs.auc, pairs.eer
        found["unseen_tar"] = None if isnan(pairs.tar_at_far[1e-2]) else pairs.tar_at_far[1e-2]
    if search is not None:
        found["unseen_recall"], found["unseen_map"] = search.recall_at[1], search.map_at_r
    return found
