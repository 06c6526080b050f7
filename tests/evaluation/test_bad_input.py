"""What every measure refuses: each wrong argument in one sentence that names it."""

import numpy as np
import pytest

from arcset import evaluation as ev
from arcset.errors import InputError, OptionError

EYE, ZERO = np.eye(4), [[1.0, 0.0], [0.0, 0.0]]
NAN = np.where(EYE == 1, np.nan, 0)
TWICE = [0, 0, 1, 1]
PAIRS, SAME = [[0, 1], [1, 2]], [True, False]
KNOWN, AMONG = [[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
SEARCH = {"gallery": KNOWN, "gallery_labels": [0, 1], "probes": AMONG, "probe_labels": [0, 1, 2]}
EPISODES = {"ways": 2, "episodes": 3}

ARGUMENTS = [
    (ev.angles, ([[1.0, np.inf]], [0]), {}, "embeddings.*inf.*row 0"),
    (ev.angles, (ZERO, [0, 0]), {}, "embeddings.*row 1"),
    (ev.angles, ([[1.0, 0.0], [-1.0, 0.0]], [7, 7]), {}, "class 7"),
    (ev.angles, ([[1.0, 0.0]], [0], [[1.0]]), {}, "centers.*1.*embeddings.*2"),
    (ev.angles, ([[1.0, 0.0]], [0]), {"center_labels": [0]}, "center_labels.*centers"),
    (ev.angles, ([[1.0, 0.0]], [0], KNOWN), {"center_labels": [3, 3]}, "center_labels.*3"),
    (ev.confidence, ([[1.0, 2.0]], [0], [[1.0]]), {}, "2.*unseen_logits.*1"),
    (ev.confidence, ([[1.0]], [0], [[1.0]]), {}, "known_logits.*1"),
    (ev.confidence, ([[1.0, 2.0]], [2], [[1.0, 2.0]]), {}, "known_labels.*2"),
    (ev.confidence, ([[1.0, 2.0]], [-1], [[1.0, 2.0]]), {}, "known_labels.*-1"),
    (ev.confidence, ([[1.0, np.inf]], [0], [[1.0, 2.0]]), {}, "known_logits.*inf"),
    (ev.confidence, ([[1.0, 2.0]], [0], np.ones((0, 2))), {}, "unseen_logits"),
    (ev.dunn_index, (np.zeros(4), TWICE), {}, r"embeddings.*\(4,\)"),
    (ev.dunn_index, ([[1, 2], [3]], [0, 1]), {}, "embeddings"),
    (ev.dunn_index, (NAN, TWICE), {}, "nan.*row 0.*4 of 4"),
    (ev.dunn_index, (EYE, [0, 1]), {}, r"labels.*\(2,\).*\(4,\)"),
    (ev.dunn_index, (EYE, [7] * 4), {}, "labels.*7"),
    (ev.few_shot, (EYE, TWICE), {**EPISODES, "ways": 4}, "labels.*2.*2"),
    (ev.few_shot, (EYE, TWICE), {**EPISODES, "shots": 9}, "labels.*0.*10"),
    (ev.few_shot, (EYE, [1] * 5), EPISODES, r"labels.*\(5,\)"),
    (ev.few_shot, (np.zeros((4, 2)), TWICE), EPISODES, "embeddings.*row 0"),
    (ev.identification, (), {"probes": np.empty((0, 2))}, r"probes.*\(0, 2\)"),
    (ev.identification, (), {"probes": np.ones((3, 5))}, "probes.*5.*2"),
    (ev.identification, (), {"gallery": ZERO}, "gallery.*row 1"),
    (ev.identification, (), {"gallery_labels": [1]}, r"gallery_labels.*\(1,\)"),
    (ev.identification, (), {"probe_labels": [0.5, 1, 2]}, "probe_labels.*float64"),
    (ev.no_threshold, ([[1.0], [2.0]], [4, 4]), {}, "class 4"),
    (ev.no_threshold, ([[1.0], [2.0]], [0, 1]), {}, "one sample"),
    (ev.no_threshold, ([[1.0], [2.0]], [0]), {}, "label"),
    (ev.no_threshold, ([[1.0], [np.nan]], [0, 1]), {}, "row 1"),
    (ev.no_threshold, ([[1.0], [0.0], [2.0]], [0, 0, 1], "cosine"), {}, "row 1"),
    (ev.retrieval, ([[1.0, np.nan]], [0]), {}, "embeddings.*nan.*row 0"),
    (ev.retrieval, ([[1.0], [0.0]], [0, 0]), {}, "embeddings.*row 1"),
    (ev.retrieval, ([[1.0], [2.0]], [0, 1]), {}, "2 queries"),
    (ev.retrieval, ([[1.0]], [0]), {"references": [[1.0]]}, "reference_labels"),
    (ev.retrieval, ([[1.0]], [0]), {"reference_labels": [0]}, "references"),
    (
        ev.retrieval,
        ([[1.0]], [0]),
        {"references": [[1.0, 2.0]], "reference_labels": [0]},
        "references.*2.*1",
    ),
    (
        ev.retrieval,
        ([[1.0]], [0]),
        {"references": [[0.0]], "reference_labels": [0]},
        "references.*row 0",
    ),
    (ev.retrieval, ([[1.0]], [0]), {"references": [[1.0]], "reference_labels": [5]}, "1 queries"),
    (ev.silhouette, ([[1.0], [np.nan]], [0, 1]), {}, "embeddings.*nan.*row 1"),
    (ev.silhouette, ([[1.0], [2.0]], [0]), {}, "labels"),
    (ev.silhouette, ([[1.0], [2.0]], [4, 4]), {}, "labels.*4"),
    (ev.silhouette, ([[1.0], [2.0]], [0, 1]), {}, "2 classes"),
    (ev.silhouette, ([[1.0], [0.0], [2.0]], [0, 0, 1], "cosine"), {}, "embeddings.*row 1"),
    (ev.trial, ([1, 2, 3],), {}, "3 identities.*2 samples"),
    (ev.trial, ([1, 1, 2, 2],), {"samples": 2}, "2 identities.*3"),
    (ev.trial, ([4, 4, 4],), {}, "labels.*4"),
    (ev.trial, ([0.5, 0.5],), {}, "labels.*float64"),
    (ev.verification, (EYE, [0, 1]), {}, r"labels.*\(2,\).*\(4,\)"),
    (ev.verification, (EYE, [0] * 4), {}, "6 genuine and 0 impostor"),
    (ev.verification, (EYE,), {}, "labels.*pairs"),
    (ev.verification, (EYE,), {"pairs": PAIRS}, "pairs.*same"),
    (ev.verification, (EYE, TWICE), {"pairs": PAIRS}, "labels.*pairs.*same"),
    (ev.verification, (EYE, TWICE), {"pairs": PAIRS, "same": [True] * 2}, "pair 1.*0 and 1.*True"),
    (ev.verification, (EYE,), {"pairs": PAIRS, "same": SAME, "intervals": True}, "labels"),
    (ev.verification, (EYE,), {"pairs": np.zeros((0, 2), int), "same": []}, r"pairs.*\(0, 2\)"),
    (ev.verification, (EYE,), {"pairs": [[0, 1], [3, 4]], "same": SAME}, "pairs.*4.*0 to 3"),
    (ev.verification, (EYE,), {"pairs": PAIRS, "same": [True]}, r"same.*\(1,\).*\(2,\)"),
    (ev.verification, (EYE,), {"pairs": PAIRS, "same": [1, 0]}, "same.*int64"),
    (ev.verification, (NAN, TWICE), {}, "embeddings.*nan.*row 0"),
]

OPTIONS = [
    (ev.dunn_index, (EYE, TWICE), {"between": "complete"}, "between .*'complete'"),
    (ev.dunn_index, (EYE, TWICE), {"within": "radius"}, "within .*'radius'"),
    (ev.dunn_index, (EYE, TWICE), {"trim": 0}, "trim .*0"),
    (ev.dunn_index, (EYE, TWICE), {"trim": 95}, "trim .*95"),
    (ev.few_shot, (EYE, TWICE), {**EPISODES, "ways": 1}, "ways"),
    (ev.few_shot, (EYE, TWICE), {**EPISODES, "shots": 0}, "shots"),
    (ev.few_shot, (EYE, TWICE), {**EPISODES, "seed": -1}, "seed"),
    (ev.identification, (), {"ranks": [0]}, "ranks.*0"),
    (ev.identification, (), {"fpirs": [0.1, 0]}, "fpirs.*0"),
    (ev.identification, (), {"scoring": "min"}, "scoring"),
    (ev.no_threshold, ([[1.0], [2.0]], [0, 1], "manhattan"), {}, "euclidean, cosine"),
    *((ev.retrieval, ([[1.0], [2.0]], [0, 0]), {"ks": ks}, "ks") for ks in ([0], [1.5], ["1"], 0)),
    (ev.silhouette, ([[1.0], [2.0], [3.0]], [0, 0, 1], "angle"), {}, "'angle'"),
    (ev.trial, ([1, 1, 2],), {"enrolled": 0}, "enrolled.*0"),
    (ev.trial, ([1, 1, 2],), {"samples": 0}, "samples"),
    (ev.trial, ([1, 1, 2],), {"seed": -1}, "seed"),
    *((ev.verification, (EYE, TWICE, fars), {}, "fars") for fars in ([0.0], [0.1, 1.5], ["0.1"])),
    *(
        (ev.verification, (EYE, TWICE), {"intervals": True, "draws": draws}, "draws")
        for draws in (0, 1.5, "many")
    ),
]


@pytest.mark.parametrize(
    ("measure", "arguments", "options", "error", "words"),
    [
        pytest.param(*case[:3], error, case[3], id=f"{case[0].__name__}-{case[3]}")
        for error, cases in ((InputError, ARGUMENTS), (OptionError, OPTIONS))
        for case in cases
    ],
)
def test_one_sentence_names_what_is_wrong(measure, arguments, options, error, words):
    known = SEARCH if measure is ev.identification else {}
    with pytest.raises(error, match=words) as caught:
        measure(*arguments, **{**known, **options})
    assert "\n" not in str(caught.value)


def test_a_subject_whose_samples_cancel_out_has_no_mean():
    search = {**SEARCH, "gallery": [[1, 0], [-1, 0]], "gallery_labels": [7, 7]}
    with pytest.raises(InputError, match="subject 7"):
        ev.identification(**search, scoring="mean")
