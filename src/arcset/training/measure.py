"""What a trained run is worth: on the classes it knows, and on those it has never seen."""

from collections.abc import Callable
from functools import partial
from math import isnan
from typing import TypeVar

from torch import Tensor

from arcset.data import ImageSet, Selection, to_tensors
from arcset.errors import DataError, InputError
from arcset.evaluation import Assessment, dunn_index, retrieval, verification
from arcset.models import embed, load_model
from arcset.numerics import unit_rows
from arcset.runs import Run
from arcset.runs.data import selection_of
from arcset.training.device import choose_device

__all__ = ["MEASURES", "Missing", "measure"]

_Found = TypeVar("_Found")

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


class Missing(dict[str, str]):
    """What could not be measured, by name, and why.

    >>> missing = Missing()
    >>> missing.attempt("dunn", lambda: dunn_index([[1.0], [2.0]], [0, 0]))
    >>> missing
    {'dunn': 'labels hold the one class 0, expected at least two classes'}
    """

    def attempt(self, name: str, work: Callable[[], _Found]) -> _Found | None:
        """What `work` returns; None where the data do not allow it, and the reason is noted."""
        try:
            return work()
        except (InputError, DataError) as error:
            self[name] = str(error)
            return None


def measure(
    run: Run,
    *,
    device: str = "auto",
    selection: Selection | None = None,
    unseen: Assessment | None = None,
    missing: Missing | None = None,
) -> dict[str, float | None]:
    """All of `MEASURES` on the complete test part; None where the run or the data do not allow it.

    `selection` and `unseen`, the data and the assessment on the unseen part, are used where they
    are known already. `missing` is told why a measure is None.
    """
    missing = Missing() if missing is None else missing
    if selection is None:
        selection = selection_of(run)
    place = choose_device(device)
    network, loss = load_model(run)
    network, loss = network.to(place), loss.to(place)

    def embedded(part: ImageSet) -> tuple[Tensor, Tensor]:
        images, labels = to_tensors(part, place)
        return embed(network, images), labels

    found: dict[str, float | None] = dict.fromkeys(MEASURES)
    if selection.test is None:
        missing["known classes"] = "none of their images was kept back from training"
    else:
        known, labels = embedded(selection.test)  # (N, D), (N,)
        unit, _ = unit_rows(known)
        space = unit if loss.normalized else known
        if loss.classifies:
            right = (loss.classify(known) == labels).sum().item()
            found["accuracy"] = right / len(labels)
        for name, rows, trim in (
            ("dunn", space, None),
            ("dunn_trimmed", space, 0.95),
            ("dunn_trimmed_unit", unit, 0.95),
        ):
            found[name] = missing.attempt(name, partial(_dunn, rows, labels, trim))
    if selection.unseen is None or len(selection.unseen.class_names) < 2:
        held = "no identity was" if selection.unseen is None else "a single identity was"
        missing["unseen classes"] = f"{held} held out of training, and two are needed"
        return found
    if unseen is not None:
        pairs, search = unseen.verification, unseen.retrieval
        missing.update({f"unseen {name}": why for name, why in unseen.missing.items()})
    else:
        samples = embedded(selection.unseen)
        pairs = missing.attempt("unseen verification", lambda: verification(*samples))
        search = missing.attempt("unseen retrieval", lambda: retrieval(*samples))
    if pairs is not None:
        found["unseen_auc"], found["unseen_eer"] = pairs.auc, pairs.eer
        found["unseen_tar"] = None if isnan(pairs.tar_at_far[1e-2]) else pairs.tar_at_far[1e-2]
        if found["unseen_tar"] is None:
            missing["unseen_tar"] = (
                f"{pairs.impostor:,} pairs of different identities are too few for a FAR of 1 %"
            )
    if search is not None:
        found["unseen_recall"], found["unseen_map"] = search.recall_at[1], search.map_at_r
    return found


def _dunn(rows: Tensor, labels: Tensor, trim: float | None) -> float:
    if len(labels.unique()) < 2:
        raise InputError("the images kept back show a single identity, and two are needed")
    return dunn_index(rows, labels, trim=trim)
