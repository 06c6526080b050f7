"""The model card of a run: what it is, what it was made from, how well it does, how to use it."""

from pathlib import Path

import numpy as np

from arcset.data import ImageSet, Selection
from arcset.data.named.registry import DATASETS
from arcset.evaluation import Assessment, Thresholds
from arcset.evaluation.assessment import FEW
from arcset.files import write_text
from arcset.runs import Run, RunConfig
from arcset.runs.assess import EvaluationData
from arcset.runs.model import TrainedRun, load_model
from arcset.text import percent, plural, without_folders
from arcset.training.card_figures import figures, measured, thresholds
from arcset.training.card_forgetting import forgotten
from arcset.training.card_text import code, front_matter, table
from arcset.training.card_training import training

__all__ = ["write_card"]

_TEACHES_LITTLE = 100  # identities trained on, below which little is learned about others
# Licences that hubs know by these names; any other is "other" to them, and named beside it.
_HUB_LICENCES = """
    afl-3.0 agpl-3.0 apache-2.0 artistic-2.0 bsd-2-clause bsd-3-clause bsl-1.0 cc-by-2.0 cc-by-3.0
    cc-by-4.0 cc-by-nc-2.0 cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0
    cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 cc-by-nd-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc0-1.0 epl-2.0 eupl-1.1
    gpl-2.0 gpl-3.0 isc lgpl-2.1 lgpl-3.0 mit mpl-2.0 openrail osl-3.0 unlicense wtfpl zlib
"""
_HOW_TO_KNOW = (
    "It is not known how well this model works on identities it has not seen. To find out, judge "
    "it on data of other identities, `arcset evaluate RUN DATA`, or train again with some held "
    "out: `arcset data split DATA --out split.json`, then "
    "`arcset train DATA --split split.json --out again`."
)


def write_card(
    run: Run,
    selection: Selection,
    data: EvaluationData | None,
    assessment: Assessment | None,
    made: Thresholds | None = None,
    *,
    licence: str = "",
) -> Path:
    """Write README.md into the folder of a trained run, complete or not at all; returns its path.

    selection: the run's data. data, assessment: what was measured, None where nothing was.
        Figures are shown where none of the judged identities was in training, and nowhere else.
    made: the run's thresholds; those of the assessment if left out.
    licence: the model's, as a hub's identifier (apache-2.0) or in words.

    A card that is there already is replaced. It holds no path of the machine: of a dataset given
    as one, the last part is named. Raises `RunError` for a run without weights.
    """
    config = run.config
    kind = _kind(selection.train)
    known = not _unknown(selection, data, assessment)
    shown = assessment if known else None
    made = made or (None if shown is None else shown.thresholds)
    sections = {
        "Data": _data(config, selection),
        "How well it recognizes what it has never seen": _worth(selection, data, assessment),
        "Thresholds": thresholds(shown, made),
        "Kept from the run before": forgotten(run),
        "Training": training(run, _name(config)),
        "Use": _use(config, selection),
        "Limits": _limits(run, selection, shown, made),
        "Licence": _licences(config, licence, selection.licence),
    }
    text = "\n\n".join(
        [
            _front(config, kind, licence, shown),
            f"# {' '.join(run.path.resolve().name.split()) or 'run'}",
            _what_it_is(run, kind),
            *(f"## {title}\n\n{body}" for title, body in sections.items() if body),
        ]
    )
    place = run.path / "README.md"
    # Names of files that are no Unicode reach Python with surrogates, which UTF-8 refuses.
    write_text(place, f"{text}\n".encode("utf-8", "replace").decode())
    return place


def _front(config: RunConfig, kind: str, licence: str, assessment: Assessment | None) -> str:
    words = licence.strip()
    identifier = words.lower().replace(" ", "-")
    hub = {"license": "unknown" if not words else identifier}
    if words and identifier not in _HUB_LICENCES.split():
        hub = {"license": "other", "license_name": words}
    return front_matter(
        {
            "library_name": "arcset",
            "pipeline_tag": "image-feature-extraction" if kind == "image" else "feature-extraction",
            **hub,
            "tags": ["arcset", "embedding", "metric-learning", "open-set-recognition", config.loss],
            "metrics": [] if assessment is None else measured(assessment),
        }
    )


def _what_it_is(run: Run, kind: str) -> str:
    config = run.config
    network = run.network if isinstance(run, TrainedRun) else load_model(run)[0]
    count = sum(parameter.numel() for parameter in network.parameters())
    size = "×".join(f"{side:,}" for side in config.shape or ())
    size += " values" if kind == "vector" else " (channels, height, width)"
    return (
        f"An embedding of {config.dim:,} dimensions for {kind}s of {size}, trained so that two of "
        "one identity lie close together and two of different ones far apart, in angle. The "
        f"network is {code(config.network)} with {count:,} parameters, the loss is "
        f"{code(config.loss)}."
    )


def _data(config: RunConfig, selection: Selection) -> str:
    parts = (
        ("training", selection.train, "the weights"),
        ("known, kept back", selection.test, "accuracy on the known"),
        ("validation", selection.validation, "thresholds, and choices in training"),
        ("unseen", selection.unseen, "judging it"),
    )
    rows = [
        [name, f"{_identities(part):,}", f"{len(part):,}", use]
        for name, part, use in parts
        if part is not None
    ]
    said = [f"{code(_name(config))}. Its licence: {selection.licence or 'not stated'}."]
    if selection.skipped:
        files = plural(len(selection.skipped), "file")
        said.append(f"Left out, as they could not be read: {files}.")
    counts = table(["part", "identities", f"{_kind(selection.train)}s", "for"], rows, right=[1, 2])
    return "\n\n".join([" ".join(said), counts, _how_split(config, selection)])


def _how_split(config: RunConfig, selection: Selection) -> str:
    split = selection.split
    if selection.unseen is None and selection.validation is None:
        return "No identity was held out: all of them were trained on."
    apart = "No identity is in two of the parts training, validation and unseen."
    if split is None and config.classes is not None:
        return (
            f"The identities {code(config.classes)} were trained on, all others held out. {apart}"
        )
    if split is None:
        return f"Identities were held out as the publisher of the data does. {apart}"
    if split.by == "names":
        how = "by name" if config.hold_out is None else "by the rule `hold_out` among the settings"
        return f"Identities were held out {how}. {apart} `split.json` names them."
    units = "Whole groups of identities" if split.by == "group" else "Identities"
    shares = ", ".join(percent(share) for share in split.fractions)
    return (
        f"{units} were drawn at random for training, validation and unseen (shares {shares}; seed "
        f"{split.seed}). {apart} `split.json` names them."
    )


def _unknown(
    selection: Selection, data: EvaluationData | None, assessment: Assessment | None
) -> str:
    """Why it is not known how the unseen are recognized; empty where it is."""
    if assessment is None and selection.unseen is None:
        return "No identity was held out of training."
    if assessment is None:
        return "Not measured yet."
    if data is None:
        return "" if selection.unseen is not None else "No identity was held out of training."
    if data.overlap is None:
        return "Nobody can tell whether the identities judged were in training."
    if data.overlap:
        total = len(data.embeddings.class_names)
        return (
            f"{len(data.overlap):,} of the {total:,} identities judged were in "
            "training, so the figures would not be about the unseen and are left out."
        )
    return ""


def _worth(selection: Selection, data: EvaluationData | None, assessment: Assessment | None) -> str:
    why = _unknown(selection, data, assessment)
    if why and selection.unseen is None:
        return f"{why} {_HOW_TO_KNOW}"
    if why or assessment is None:
        assert selection.unseen is not None
        held = plural(_identities(selection.unseen), "identity was", "identities were")
        return f"{why} {held} held out of training: `arcset evaluate RUN` measures on them."
    where = "the identities held out" if data is None else without_folders(data.description)
    who = plural(assessment.identities, "identity", "identities")
    return (
        f"Measured on {where}: {plural(assessment.samples, 'sample')} of {who}, none of which was "
        f"in training.\n\n{figures(assessment)}"
    )


def _use(config: RunConfig, selection: Selection) -> str:
    kind = _kind(selection.train)
    data = "FOLDER" if kind == "image" else "FILE.npz"
    judge = "arcset evaluate RUN" if selection.unseen is not None else "arcset evaluate RUN DATA"
    shape = ", ".join(str(side) for side in config.shape or ())
    dtype = "uint8" if kind == "image" else "float32"
    layout = {"image": "(N, C, H, W), 0 to 255", "vector": "(N, D)"}.get(kind, "(N, C, H, W)")
    return f"""`RUN` is this folder.

```
arcset embed RUN {data} --out embeddings.parquet
{judge}
```

```python
import torch
from arcset.runs.model import embed
from arcset.runs import Run
from arcset.training import load_model
from arcset.text import percent, plural

network, loss = load_model(Run.open("RUN"))
{kind}s = torch.zeros(2, {shape}, dtype=torch.{dtype})  # {layout}
embeddings = embed(network, {kind}s)  # (N, {config.dim})
cosine = torch.cosine_similarity(embeddings[0], embeddings[1], dim=0)
```"""


def _limits(
    run: Run, selection: Selection, assessment: Assessment | None, made: Thresholds | None
) -> str:
    trained, kind = _identities(selection.train), f"{_kind(selection.train)}s"
    said = [
        f"It has learned from {kind} of {code(_name(run.config))} only. How it does on {kind} of "
        "another source or kind is not known beyond the figures above."
    ]
    if trained < _TEACHES_LITTLE:
        said.append(f"It was trained on {trained:,} identities, which teach little about others.")
    if assessment is not None:
        who = plural(assessment.identities, "identity", "identities")
        rough = ", so the intervals are wide, and rough themselves"
        said.append(
            f"The figures come from {who}{rough if assessment.identities < FEW else ''}. They are "
            "of one run; another seed gives others."
        )
    if made is not None:
        said.append(
            "The thresholds hold for the population that they were made from, and those of a "
            "search for the size of gallery that stands beside them."
        )
        if any(line.get("kept") for line in run.metrics()):
            said.append(
                "The identities that the thresholds were made from chose the epoch, too, so that "
                "the thresholds may promise a little too much."
            )
    else:
        said.append("It has no threshold: where to cut is to be found on validation identities.")
    said.append(
        "Where the data show people, embeddings of them are biometric data: have the consent of "
        "whom they show, and keep to the law of the place."
    )
    return "\n".join(f"- {item}" for item in said)


def _licences(config: RunConfig, licence: str, data_licence: str) -> str:
    rows = [
        ["the model", licence.strip() or "not stated: fill in before sharing"],
        [f"the data, {code(_name(config))}", data_licence or "not stated"],
    ]
    advice = (
        "Whether the licence of the data lets a model made from it be shared is for whoever shares "
        "it to check."
    )
    return f"{table(['of', 'licence'], rows)}\n\n{advice}"


def _name(config: RunConfig) -> str:
    if config.data in DATASETS:
        return config.data
    return Path(without_folders(config.data)).name or "data"


def _kind(images: ImageSet) -> str:
    """What one of the samples is called."""
    if images.images.dtype == np.uint8:
        return "image"
    return "vector" if len(images.shape) == 1 else "sample"


def _identities(images: ImageSet) -> int:
    return len(np.unique(images.labels))
