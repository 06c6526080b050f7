"""What a trained run is worth: on the classes it knows, and on those it has never seen."""

from functools import partial
from math import isnan, nan

from torch import Tensor

from arcset.data import ImageSet, Selection, to_tensors
from arcset.devices import choose_device
from arcset.errors import InputError
from arcset.evaluation import Assessment, dunn_index, retrieval, verification
from arcset.evaluation.assessment import measure_shape
from arcset.evaluation.measures import run_figures, short_name
from arcset.evaluation.results import Missing
from arcset.numerics import unit_rows
from arcset.runs import Run
from arcset.runs.data import selection_of
from arcset.runs.model import embed, load_model

__all__ = ["measure"]


def measure(
    run: Run,
    *,
    device: str = "auto",
    selection: Selection | None = None,
    unseen: Assessment | None = None,
    missing: Missing | None = None,
) -> dict[str, float | None]:
    """All of `run_figures` on the complete test part; None where the data do not allow it.

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

    found: dict[str, float | None] = dict.fromkeys(run_figures())
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
        missing.update({f"unseen {name}": why for name, why in unseen.missing.items()})
        parts = {name: result.measures() for name, result in unseen.results().items()}
        parts["shape"] = dict(unseen.shape)
    else:
        parts = _measure_unseen(*embedded(selection.unseen), missing)
    for key, entry in run_figures().items():
        if entry.part in parts:
            value = parts[entry.part].get(entry.full_name, nan)
            found[key] = None if isnan(value) else value
            if isnan(value) and entry.is_rate:
                missing[key] = (
                    f"too few pairs of different identities for {short_name(entry.full_name)}"
                )
    return found


def _measure_unseen(
    embeddings: Tensor, labels: Tensor, missing: Missing
) -> dict[str, dict[str, float]]:
    """By part, the measures of which a run's figures are made."""
    parts: dict[str, dict[str, float]] = {}
    for name, work in (("verification", verification), ("retrieval", retrieval)):
        result = missing.attempt(f"unseen {name}", partial(work, embeddings, labels))
        if result is not None:
            parts[name] = result.measures()
    parts["shape"] = measure_shape(embeddings, labels, missing, keyed=True)
    return parts


def _dunn(rows: Tensor, labels: Tensor, trim: float | None) -> float:
    if len(labels.unique()) < 2:
        raise InputError("the images kept back show a single identity, and two are needed")
    return dunn_index(rows, labels, trim=trim)
