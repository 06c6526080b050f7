"""What measures and calibrations refuse: each wrong argument in one sentence that names it.

What all share is shown for one of them; what a function checks by itself, for that function.
"""

import numpy as np
import pytest

from arcset import evaluation as ev
from arcset.errors import InputError, OptionError

EYE, ZERO, LINE = np.eye(4), [[1.0, 0.0], [0.0, 0.0]], [[1.0], [2.0]]
OPPOSITE = [[1.0, 0.0], [-1.0, 0.0]]
NAN = np.where(EYE == 1, np.nan, 0)
TWICE = [0, 0, 1, 1]
PAIRS, SAME = [[0, 1], [1, 2]], [True, False]
KNOWN, AMONG = [[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
SEARCH = {"gallery": KNOWN, "gallery_labels": [0, 1], "probes": AMONG, "probe_labels": [0, 1, 2]}
EPISODES = {"ways": 2, "episodes": 3}
POINTS, LABELS = np.random.default_rng(4).normal(size=(80, 8)), np.arange(80) // 2
FAR, FPIR = (
    ev.threshold_for_far(POINTS, LABELS, 0.1),
    ev.threshold_for_fpir(POINTS, LABELS, 0.5, 3),
)

ARGUMENTS = [
    (ev.verification, ([[1, 2], [3]], [0, 1]), {}, "embeddings"),
    (ev.verification, (np.zeros(4), TWICE), {}, r"embeddings.*\(4,\)"),
    (ev.verification, (NAN, TWICE), {}, "embeddings.*nan.*row 0.*4 of 4"),
    (ev.verification, (ZERO, [0, 0]), {}, "embeddings.*row 1"),
    (ev.verification, (EYE, [0, 1]), {}, r"labels.*\(2,\).*\(4,\)"),
    (ev.verification, (EYE, [0.5] * 4), {}, "labels.*float64"),
    (ev.verification, (EYE, [0] * 4), {}, "6 genuine and 0 impostor"),
    (ev.verification, (EYE,), {}, "labels.*pairs"),
    (ev.verification, (EYE,), {"pairs": PAIRS}, "pairs.*same"),
    (ev.verification, (EYE, TWICE), {"pairs": PAIRS, "same": [True] * 2}, "pair 1.*0 and 1.*True"),
    (ev.verification, (EYE,), {"pairs": PAIRS, "same": SAME, "intervals": True}, "labels"),
    (ev.verification, (EYE,), {"pairs": np.zeros((0, 2), int), "same": []}, r"pairs.*\(0, 2\)"),
    (ev.verification, (EYE,), {"pairs": [[0, 1], [3, 4]], "same": SAME}, "pairs.*4.*0 to 3"),
    (ev.verification, (EYE,), {"pairs": PAIRS, "same": [True]}, r"same.*\(1,\).*\(2,\)"),
    (ev.verification, (EYE,), {"pairs": PAIRS, "same": [1, 0]}, "same.*int64"),
    (ev.angles, (OPPOSITE, [7, 7]), {}, "class 7"),
    (ev.angles, ([[1.0, 0.0]], [0], [[1.0]]), {}, "centers.*1.*embeddings.*2"),
    (ev.angles, ([[1.0, 0.0]], [0]), {"center_labels": [0]}, "center_labels.*centers"),
    (ev.angles, ([[1.0, 0.0]], [0], KNOWN), {"center_labels": [3, 3]}, "center_labels.*3"),
    (ev.confidence, ([[1.0, 2.0]], [0], [[1.0]]), {}, "2.*unseen_logits.*1"),
    (ev.confidence, ([[1.0, 2.0]], [2], [[1.0, 2.0]]), {}, "known_labels.*2"),
    (ev.dunn_index, (EYE, [7] * 4), {}, "labels.*7"),
    (ev.few_shot, (EYE, TWICE), {**EPISODES, "ways": 4}, "labels.*2.*2"),
    (
        ev.few_shot,
        ([*OPPOSITE, *KNOWN, *KNOWN], [8, 8, 8, 9, 9, 9]),
        {"ways": 2, "shots": 2, "episodes": 50},
        "class 8",
    ),
    (ev.identification, (), {"probes": np.ones((3, 5))}, "probes.*5.*2"),
    (ev.identification, (), {"gallery": ZERO}, "gallery.*row 1"),
    (
        ev.identification,
        (),
        {"gallery": OPPOSITE, "gallery_labels": [7, 7], "scoring": "mean"},
        "subject 7",
    ),
    (ev.no_threshold, (LINE, [0, 1]), {}, "one sample"),
    (ev.retrieval, (LINE, [0, 1]), {}, "2 queries"),
    (ev.retrieval, ([[1.0]], [0]), {"references": [[1.0]]}, "reference_labels"),
    (ev.silhouette, (LINE, [0, 1]), {}, "2 classes"),
    (ev.trial, ([1, 2, 3],), {}, "3 identities.*2 samples"),
    (ev.trial, ([4, 4, 4],), {}, "labels.*4"),
    (ev.calibrate, ([0.1, 0.2], [1, 0]), {}, "same"),
    (ev.calibrate, ([0.1, np.nan], SAME), {}, "NaN"),
    (ev.calibrate, ([[0.1, 0.2]], SAME), {}, "cosines"),
    (ev.calibrate, ([0.1, 0.2], SAME), {"weights": [1, 0]}, "weights"),
    # Shares would say that little is known.
    (ev.calibrate, ([0.1, 0.2], SAME), {"weights": [0.5, 0.5]}, r"weights .*0\.5"),
    (ev.reliability, ([0.1, 1.2], SAME), {}, r"1\.2"),
    (ev.threshold_for_far, (POINTS, np.ones(80, int), 0.1), {}, "one identity"),
    (ev.threshold_for_fpir, (POINTS, LABELS, 0.1, 10), {"samples": 3}, "3 samples"),
    (ev.make_thresholds, (POINTS, np.arange(80)), {}, "genuine"),
]

OPTIONS = [
    (ev.dunn_index, (EYE, TWICE), {"between": "complete"}, "between .*'complete'"),
    (ev.dunn_index, (EYE, TWICE), {"trim": 0}, "trim .*0"),
    (ev.few_shot, (EYE, TWICE), {**EPISODES, "ways": 1}, "ways"),
    (ev.identification, (), {"fpirs": [0.1, 0]}, "fpirs.*0"),
    (ev.identification, (), {"scoring": "min"}, "scoring"),
    (ev.no_threshold, (LINE, [0, 1], "manhattan"), {}, "euclidean, cosine"),
    *((ev.retrieval, (LINE, [0, 0]), {"ks": ks}, "ks") for ks in ([0], [1.5], ["1"], 0)),
    (ev.trial, ([1, 1, 2],), {"enrolled": 0}, "enrolled.*0"),
    (ev.verification, (EYE, TWICE, [0.1, 1.5]), {}, "fars"),
    (ev.verification, (EYE, TWICE), {"intervals": True, "draws": 0}, "draws"),
    (ev.calibrate, ([0.1, 0.2], SAME, "beta"), {}, "method"),
    (ev.calibrate, ([0.1, 0.2], SAME), {"prior": 1}, "prior"),
    (ev.reliability, ([0.1, 0.2], SAME), {"bins": 0}, "bins"),
    *((ev.threshold_for_far, (POINTS, LABELS, far), {}, "far") for far in (0, 1, "0.1", True)),
    (ev.threshold_for_fpir, (POINTS, LABELS, 0.1, 0), {}, "gallery"),
    (ev.make_thresholds, (EYE, TWICE), {"fars": [0]}, "fars"),
    (FAR.expect, (1,), {}, "identities"),
    (FPIR.expect, (0,), {}, "unknown"),
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
