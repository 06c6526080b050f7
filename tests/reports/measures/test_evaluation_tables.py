"""The tables of an evaluation's report, piece by piece.

Goes with the tables of today; the page as a whole is in test_evaluation_report.py.
"""

import pytest

from arcset.evaluation.bootstrap import paired
from arcset.evaluation.few_shot import few_shot
from arcset.reports.measures.tables import key, main_figures
from arcset.reports.measures.threshold_sections import realized_rows, threshold_rows
from arcset.reports.measures.values import marks, values_of

from .conftest import KEPT, MISSED, Measured, assessment, embeddings, made, small

pytestmark = [pytest.mark.filterwarnings("error"), pytest.mark.long]


def test_marks_come_from_paired_draws(measured: dict[str, Measured], bare: Measured) -> None:
    name = ("verification", "eer")
    labels = ("arcface", "softmax", "_hidden")
    values = {label: values_of(assessment(measured[label]))[name] for label in labels}
    found = marks(values)
    assert found["arcface"] == "best"
    close = paired(measured["arcface"].verification, measured["softmax"].verification, "eer")
    assert (found.get("softmax") == "near") == (not close.shown)
    without = {**values, "bare": values_of(assessment(bare))[name]}
    assert "bare" not in marks(without)
    assert marks({"arcface": values["arcface"]}) == {}
    assert marks({"a": values["arcface"], "b": values["arcface"]}) == {}


def test_main_figures_take_rates_that_all_models_have(measured: dict[str, Measured]) -> None:
    values = {label: values_of(assessment(measured[label])) for label in ("arcface", "softmax")}
    table = main_figures(values).replace("\xa0", " ")
    assert ">TAR at FAR 0.1 %<" in table
    assert ">rank 1<" in table
    rates = [
        rate for rate, tar in measured["arcface"].identification.dir_at_fpir.items() if tar == tar
    ]
    assert f">DIR at FPIR {100 * min(rates):g} %<" in table


def test_intervals_that_say_little_are_said_to(measured: dict[str, Measured]) -> None:
    values = values_of(assessment(measured["arcface"]))
    assert "guesses" not in key({"a": values})
    few = few_shot(*embeddings(0.2, identities=5), ways=3, episodes=9, intervals=True, draws=9)
    said = key({"a": values_of(small(measured["arcface"], few_shot=few))})
    assert "From 5 identities even the intervals are guesses." in said


def test_thresholds_of_several_models_say_whose_they_are(measured: dict[str, Measured]) -> None:
    rows = threshold_rows({"a": made(0.2), "b": made(0.3)})
    assert {row[0].partition(":")[0] for row in rows[1:]} == {"a", "b"}
    rows = realized_rows({"a": [KEPT], "b": [KEPT, MISSED], "c": []})
    assert [row[0] for row in rows] == ["to keep", "a: FAR 1 %", "b: FAR 1 %", "b: FPIR 10 %"]
    assert realized_rows({"a": []}) == []
