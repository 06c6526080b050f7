"""The model card of a run: what it is, what it was made from, how well it does, how to use it."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from arcset.data import ImageSet, Selection
from arcset.data.named.registry import DATASETS
from arcset.evaluation import Assessment, Thresholds
from arcset.evaluation.assessment import FEW
from arcset.evaluation.few_shot import FewShot
from arcset.evaluation.identification import Identification
from arcset.evaluation.measures import weighty
from arcset.evaluation.results import Result
from arcset.evaluation.verification import Verification
from arcset.files import write_text
from arcset.reports.page import Section, render
from arcset.reports.tables import list_values, realized_rows, threshold_rows, values_of
from arcset.runs import RunConfig
from arcset.runs.assess import EvaluationData
from arcset.runs.model import TrainedRun
from arcset.text import duration, percent, plural, sentence, without_folders

# Licences that hubs know by these names; any other is "other" to them, and named beside it.
_HUB_LICENCES = """
    afl-3.0 agpl-3.0 apache-2.0 artistic-2.0 bsd-2-clause bsd-3-clause bsl-1.0 cc-by-2.0 cc-by-3.0
    cc-by-4.0 cc-by-nc-2.0 cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0
    cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 cc-by-nd-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc0-1.0 epl-2.0 eupl-1.1
    gpl-2.0 gpl-3.0 isc lgpl-2.1 lgpl-3.0 mit mpl-2.0 openrail osl-3.0 unlicense wtfpl zlib
"""
_LONGEST = 60  # characters of a list among the settings that is shown in full
_NONE_APART = "no identities were set apart to make them from"
_ELSEWHERE = ("data", "class_names", "shape")  # settings that other places of the card name

Rows = list[list[str]]


def write_card(
    run: TrainedRun,
    data: EvaluationData | None,
    assessment: Assessment | None,
    thresholds: Thresholds | None = None,
    *,
    licence: str = "",
    before: Section | None = None,
) -> Path:
    """Write README.md into the folder of a trained run, whole or not at all; returns its path.

    data, assessment: what was measured, None where nothing was. Figures are shown where none of
        the judged identities was in training, and nowhere else.
    thresholds: the run's; those of the assessment if left out.
    licence: the model's, as a hub's identifier (apache-2.0) or in words.
    before: what was kept of the run that this one began from.

    The card holds no path of the machine: of a dataset given as one, the last part is named.
    """
    config, selection = run.config, run.selection
    unknown = _why_unknown(selection, data, assessment)
    assessment = None if unknown else assessment
    thresholds = thresholds or (None if assessment is None else assessment.thresholds)
    promised = thresholds and threshold_rows(thresholds)
    kind = _kind(selection.train)
    size = "×".join(f"{side:,}" for side in config.shape or ())
    lines = run.metrics()
    text = render(
        "model_card.md",
        front=_front_matter(config, kind, licence, assessment),
        name=" ".join(run.path.resolve().name.split()) or "run",
        config=config,
        kind=kind,
        size=size + (" values" if kind == "vector" else " (channels, height, width)"),
        parameters=sum(parameter.numel() for parameter in run.network.parameters()),
        data_name=_data_name(config),
        selection=selection,
        split=selection.split,
        parts=_parts(selection),
        unknown=unknown,
        measured_on=without_folders(data.description) if data else "the identities held out",
        assessment=assessment,
        figures=assessment and _measure_rows(assessment),
        basis=assessment and _basis(assessment),
        few=FEW,
        thresholds=thresholds,
        promised=promised,
        unpinned=_list_unpinned(thresholds) if thresholds and promised else "",
        realized=assessment and realized_rows(assessment.realized),
        no_thresholds=assessment and sentence(assessment.missing.get("thresholds", _NONE_APART)),
        before=before,
        course=_course(config, lines),
        settings=_settings(config),
        chose_epoch=any(line.get("kept") for line in lines),
        licences=[
            ["the model", licence.strip() or "not stated: fill in before sharing"],
            [f"the data, {code(_data_name(config))}", selection.licence or "not stated"],
        ],
        code=code,
        table=table,
        plural=plural,
        identities=_identities,
    )
    path = run.path / "README.md"
    text = re.sub(r"\n{3,}", "\n\n", text)
    # Names of files that are no Unicode reach Python with surrogates, which UTF-8 refuses.
    write_text(path, text.encode("utf-8", "replace").decode())
    return path


# What it is, and its data


def _front_matter(config: RunConfig, kind: str, licence: str, assessment: Assessment | None) -> str:
    words = licence.strip()
    identifier = words.lower().replace(" ", "-")
    hub = {"license": "unknown" if not words else identifier}
    if words and identifier not in _HUB_LICENCES.split():
        hub = {"license": "other", "license_name": words}
    fields: dict[str, str | Sequence[str]] = {
        "library_name": "arcset",
        "pipeline_tag": "image-feature-extraction" if kind == "image" else "feature-extraction",
        **hub,
        "tags": ["arcset", "embedding", "metric-learning", "open-set-recognition", config.loss],
        "metrics": [] if assessment is None else _measured(assessment),
    }
    lines = ["---"]
    for key, value in fields.items():
        if isinstance(value, str):
            lines.append(f"{key}: {json.dumps(value, ensure_ascii=False)}")
        elif value:
            lines += [f"{key}:", *(f"- {json.dumps(item, ensure_ascii=False)}" for item in value)]
    return "\n".join([*lines, "---"])


def _parts(selection: Selection) -> Rows:
    parts = (
        ("training", selection.train, "the weights"),
        ("known, kept back", selection.test, "accuracy on the known"),
        ("validation", selection.validation, "thresholds, and choices in training"),
        ("unseen", selection.unseen, "judging it"),
    )
    return [
        [name, f"{_identities(part):,}", f"{len(part):,}", use] for name, part, use in parts if part
    ]


def _why_unknown(
    selection: Selection, data: EvaluationData | None, assessment: Assessment | None
) -> str:
    """Why it is not known how the unseen are recognized; empty where it is."""
    if selection.unseen is None and (assessment is None or data is None):
        return "No identity was held out of training."
    if assessment is None:
        return "Not measured yet."
    if data is None or data.overlap == ():
        return ""
    if data.overlap is None:
        return "It is not known whether the identities judged were in training."
    return (
        f"{len(data.overlap):,} of the {len(data.embeddings.class_names):,} identities judged were "
        "in training, so the figures would not be about the unseen and are left out."
    )


def _data_name(config: RunConfig) -> str:
    return config.data if config.data in DATASETS else Path(without_folders(config.data)).name


def _kind(images: ImageSet) -> str:
    """What one of the samples is called."""
    if images.images.dtype == np.uint8:
        return "image"
    return "vector" if len(images.shape) == 1 else "sample"


def _identities(images: ImageSet) -> int:
    return len(np.unique(images.labels))


# Figures


def _measured(assessment: Assessment) -> list[str]:
    """The measures of the card that there are numbers of, for the front matter."""
    values, names = list_values(assessment), []
    for measure in weighty("headline", "main"):
        name = measure.name if measure.is_rate else re.sub(r"\[(.*)\]", r"_\1", measure.full_name)
        if any(value.is_known for value in values_of(measure, values)):
            names.append(f"few_shot_{name}" if measure.part == "few_shot" else name)
    return names


def _measure_rows(assessment: Assessment) -> Rows:
    """The measures with what they say. What the data cannot tell has no number."""
    rows: dict[str, list[str]] = {}
    results, values = assessment.results(), list_values(assessment)
    for measure in weighty("headline", "main"):
        result = results.get(measure.part)
        if result is None and measure.part != "shape":
            part = measure.part.replace("_", "-")
            rows[part] = [part, "not known", "", assessment.missing.get(measure.part, "")]
            continue
        unknown, meaning = [], ""
        for value in values_of(measure, values):
            at = percent(float(value.name.partition("[")[2][:-1])) if measure.is_rate else ""
            if not value.is_known:
                unknown.append(at)
                continue
            label = value.label
            if isinstance(result, FewShot):
                label = f"{result.ways}-way {result.shots}-shot"
            meaning = f"the same at {at}" if meaning else value.meaning
            rows[value.name] = [label, value.format(), value.format_interval(), meaning]
        if unknown and result is not None:
            label = measure.short.format(", ".join(unknown))
            rows[label] = [label, "not known", "", _why_not(result)]
    return list(rows.values())


def _why_not(result: Result) -> str:
    if isinstance(result, Verification):
        return f"too rare to be seen in {result.impostor:,} pairs of different identities"
    if isinstance(result, Identification) and result.mated:
        return f"too rare to be seen in {plural(result.unmated, 'probe')} of unknown identities"
    return "the data cannot tell"


def _basis(assessment: Assessment) -> str:
    """What the figures come from, and how sure they are."""
    sentences = []
    if (pairs := assessment.verification) is not None:
        sentences.append(
            f"TAR, EER and AUC are over all pairs: {pairs.genuine:,} of one identity, "
            f"{pairs.impostor:,} of different ones."
        )
    if (search := assessment.identification) is not None:
        sentences.append(
            f"Rank and DIR are for a gallery of {plural(search.subjects, 'subject')} with "
            f"{plural(search.samples, 'sample')}, {plural(search.mated, 'probe')} of these "
            f"subjects and {search.unmated:,} of "
            f"{plural(search.unmated_identities, 'identity', 'identities')} not enrolled; "
            "a larger gallery makes it harder."
        )
    if all(result.replicates is None for result in assessment.results().values()):
        sentences.append("Without intervals: small differences may be chance.")
    else:
        sentences.append(
            "The intervals tell how far a figure may be off, as other identities from the same "
            "source would have given others; they do not hold the luck of training."
        )
        if assessment.identities < FEW:
            sentences.append(f"From fewer than {FEW} identities even the intervals are guesses.")
    return " ".join(sentences)


# Thresholds


def _list_unpinned(thresholds: Thresholds) -> str:
    """Rates that were asked for and that so few identities cannot pin down, in words."""
    rates = [f"FAR {percent(item.far)}" for item in thresholds.fars if not item.pinned]
    galleries: dict[float, list[str]] = {}
    for item in thresholds.fpirs:
        if not item.pinned:
            galleries.setdefault(item.fpir, []).append(f"{item.gallery:,}")
    rates += [
        f"FPIR {percent(rate)} with a gallery of {', '.join(sizes)}"
        for rate, sizes in galleries.items()
    ]
    return "; ".join(rates)


# Training


def _course(config: RunConfig, lines: Sequence[Mapping[str, Any]]) -> str:
    """How training went, from the lines of metrics.jsonl."""
    if not lines:
        return "How training went is not recorded."
    seconds = sum(line.get("seconds", 0.0) for line in lines)
    of = f" of {config.epochs:,}" if len(lines) < config.epochs else ""
    sentences = [
        f"{plural(len(lines), 'epoch')}{of} in {duration(seconds)}, measuring not counted."
    ]
    losses = [line["loss"] for line in lines if "loss" in line]
    if len(losses) > 1:
        sentences.append(f"The loss went from {losses[0]:.4g} to {losses[-1]:.4g}.")
    elif losses:
        sentences.append(f"The loss was {losses[0]:.4g}.")
    chosen = [line for line in lines if line.get("kept")]
    if chosen:
        scores = (chosen[-1].get("validation") or {}).items()
        listed = ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in scores)
        sentences.append(
            f"The weights are those of epoch {chosen[-1]['epoch']}, the best on the validation "
            f"identities{f' ({listed})' if listed else ''}."
        )
    else:
        sentences.append(f"The weights are those of epoch {lines[-1]['epoch']}.")
    return " ".join(sentences)


def _settings(config: RunConfig) -> Rows:
    """Every setting that has a value, in two columns, but for what stands elsewhere."""
    pairs = [("data", _data_name(config))]
    for key, value in config.model_dump(mode="json", exclude_none=True).items():
        if key in ("split", "mapping"):
            pairs.append((key, f"{key}.json"))  # the run's own copy
        elif key not in _ELSEWHERE and value not in ([], {}, ""):
            pairs.append((key, _setting(value)))
    cells = [[code(key), code(value)] for key, value in pairs]
    half = (len(cells) + 1) // 2
    right = [*cells[half:], ["", ""]]
    return [[*cells[row], *right[row]] for row in range(half)]


def _setting(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={_setting(part)}" for key, part in value.items())
    if isinstance(value, list):
        text = ", ".join(_setting(part) for part in value)
        return text if len(text) <= _LONGEST else f"{_setting(value[0])}, … ({len(value):,} in all)"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else without_folders(str(value))


# Markdown


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """A table whose columns line up, those in `right` flush right; the last one is not filled up.

    >>> print(table(["part", "images"], [["train", "1,600"], ["test", "40"]], right=[1]))
    | part  | images |
    |:------|-------:|
    | train |  1,600 |
    | test  |     40 |
    """
    cells = [
        [" ".join(text.split()).replace("|", "\\|") for text in row] for row in (header, *rows)
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    if len(header) - 1 not in right:
        widths[-1] = 0
    lines = []
    for row in cells:
        filled = [
            text.rjust(width) if column in right else text.ljust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(f"| {' | '.join(filled)} |")
    rules = [
        "-" * (width + 1) + ":" if column in right else ":" + "-" * max(width + 1, 2)
        for column, width in enumerate(widths)
    ]
    return "\n".join([lines[0], f"|{'|'.join(rules)}|", *lines[1:]])


def code(text: str) -> str:
    """As code; text with a backtick in it stands between two, as Markdown wants it.

    >>> code("arcset evaluate RUN")
    '`arcset evaluate RUN`'
    """
    text = " ".join(text.split()) or " "
    return f"`` {text} ``" if "`" in text else f"`{text}`"
