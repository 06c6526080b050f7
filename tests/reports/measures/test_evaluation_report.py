"""The report of an evaluation: complete, alone, safe, and the same every time."""

import base64
import hashlib
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from arcset.errors import OptionError
from arcset.evaluation.assessment import Assessment
from arcset.evaluation.bootstrap import Difference, paired
from arcset.evaluation.few_shot import few_shot
from arcset.evaluation.measures import MEASURES
from arcset.reports.evaluation_report import cells, main_measures, write_evaluation

from .conftest import KEPT, MISSED, Measured, assessment, embeddings, made, small

pytestmark = pytest.mark.filterwarnings("error")

EMPTY = {"br", "img", "meta", "link", "input"}


class Page(HTMLParser):
    """Sees that every element is closed in its order, and keeps the text."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.feed(content)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text.append(data)


def differences(measured: dict[str, Measured]) -> dict[str, list[Difference]]:
    first, second = measured["arcface"], measured["softmax"]
    names = first.verification.measures()
    return {
        "arcface against softmax": [
            paired(first.verification, second.verification, name) for name in names
        ]
    }


@pytest.fixture(scope="module")
def two(measured: dict[str, Measured]) -> dict[str, Assessment]:
    return {label: assessment(measured[label]) for label in ("arcface", "softmax")}


@pytest.fixture(scope="module")
def folder(
    two: dict[str, Assessment], measured: dict[str, Measured], tmp_path_factory: Any
) -> Path:
    place: Path = tmp_path_factory.mktemp("evaluation")
    write_evaluation(
        place,
        two,
        title="Two models",
        command="arcset evaluate /home/anna/a runs/b",
        note="12 identities were in training.",
        differences=differences(measured),
        verdict="The first is better.",
    )
    return place


@pytest.fixture(scope="module")
def page(folder: Path) -> str:
    return (folder / "report.html").read_text(encoding="utf-8")


def written(place: Path, assessments: dict[str, Assessment], **options: Any) -> str:
    write_evaluation(place, assessments, **{"title": "T", "command": "c", **options})
    return (place / "report.html").read_text(encoding="utf-8")


def test_it_is_one_small_file_that_asks_for_nothing(page: str) -> None:
    found = Page(page)
    assert page.startswith("<!DOCTYPE html>")
    assert found.open == []
    assert len(found.ids) == len(set(found.ids))
    assert found.tags.count("h1") == found.tags.count("main") == 1
    assert len(page.encode()) < 1_000_000
    assert "12 identities were in training." in page
    assert "arcset evaluate a runs/b" in page  # without folders of the machine
    assert "http://" not in page
    assert "https://" not in page
    assert "<script" not in page
    assert "<link" not in page
    assert " style=" not in page
    assert not re.search(r"url\((?!data:)|@import", page)
    sources = re.findall(r'<img[^>]*\ssrc="([^"]{0,20})', page)
    assert len(sources) == 6
    assert all(source.startswith("data:image/png") for source in sources)


def test_only_its_own_style_is_allowed(page: str) -> None:
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'"
    assert f'<meta http-equiv="Content-Security-Policy" content="{policy}">' in page
    assert "prefers-color-scheme: dark" in style[1]


def test_the_best_is_marked_where_models_differ_and_few_identities_are_warned_of(
    page: str, measured: dict[str, Measured], tmp_path: Path
) -> None:
    warned = re.compile(r"(\d+) identities[^.]*guess")
    assert page.count('class="dot best"') > 5
    assert not warned.search(page)
    few = few_shot(*embeddings(0.2, identities=5), ways=3, episodes=9, intervals=True, draws=9)
    same = small(measured["arcface"], few_shot=few)
    equal = written(tmp_path, {"a": same, "b": same})
    assert equal.count('class="dot best"') == equal.count('class="dot near"') == 1  # in the key
    assert warned.search(equal)[1] == "5"


def test_marks_come_from_paired_draws(measured: dict[str, Measured], bare: Measured) -> None:
    labels = ("arcface", "softmax", "_hidden")
    models = {label: assessment(measured[label]) for label in labels}
    row = cells({**models, "bare": assessment(bare)})["eer"]
    assert row["arcface"].mark == "best"
    close = paired(measured["arcface"].verification, measured["softmax"].verification, "eer")
    assert (row["softmax"].mark == "near") == (not close.shown)
    assert row["bare"].mark == ""  # without draws nothing can be said
    assert cells({"arcface": models["arcface"]})["eer"]["arcface"].mark == ""


def test_main_measures_are_taken_where_all_models_have_them(
    measured: dict[str, Measured],
) -> None:
    names = main_measures(
        cells({label: assessment(measured[label]) for label in list(measured)[:2]})
    )
    rates = [
        rate
        for rate, found in measured["arcface"].identification.dir_at_fpir.items()
        if not math.isnan(found)
    ]
    assert {"tar_at_far[0.001]", "rank[1]", f"dir_at_fpir[{min(rates):g}]"} <= {*names}
    assert "auc" not in names


def test_every_measure_is_in_the_page(page: str, two: dict[str, Assessment]) -> None:
    for label, found in two.items():
        assert f'<th scope="col">{label}</th>' in page
        for part in found.results().values():
            for name, value in part.measures().items():
                base = name.partition("[")[0]
                shown = f"{100 * value:.2f}\xa0%"
                if MEASURES[base].unit == "degrees":
                    shown = f"{value:.2f}°"
                elif base == "auc":
                    shown = f"{value:.4f}"
                assert math.isnan(value) or shown in page, name
    assert ">–<" in page  # a rate beyond the data


def test_parts_may_be_missing(
    measured: dict[str, Measured], bare: Measured, tmp_path: Path
) -> None:
    few = assessment(
        bare,
        verification=None,
        identification=None,
        few_shot=None,
        own_angles=None,
        other_angles=None,
        shape={},
        missing={"verification": "there is one sample per identity"},
    )
    whole = small(measured["arcface"], missing={"thresholds": "there is no validation"})
    page = written(tmp_path / "both", {"whole": whole, "few": few})
    assert "verification (few)" in page
    assert "thresholds (whole)" in page
    assert Page(page).open == []
    page = written(tmp_path / "few", {"few": few})
    assert "Same or different?" not in page
    assert "Without intervals" in page
    none = Assessment(samples=1, identities=1, dim=2, missing={"all": "one sample"})
    page = written(tmp_path / "none", {"none": none})
    assert "one sample" in page
    assert "<img" not in page
    assert not (tmp_path / "none" / "pictures").exists()


def test_models_of_different_sets_say_so(measured: dict[str, Measured], tmp_path: Path) -> None:
    first = small(measured["arcface"])
    second = small(measured["softmax"], samples=100, dim=8)
    page = written(tmp_path, {"a": first, "b": second})
    assert "a: 200 samples of 40 identities, in 16 dimensions" in page
    assert "b: 100 samples of 40 identities, in 8 dimensions" in page


def test_no_assessment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError):
        written(tmp_path, {})
    assert not list(tmp_path.iterdir())


def test_thresholds_and_what_they_did(measured: dict[str, Measured], tmp_path: Path) -> None:
    thresholds = made(0.2)
    found = small(
        measured["arcface"],
        thresholds=thresholds,
        realized=(KEPT, MISSED),
    )
    page = written(tmp_path, {"arcface": found, "softmax": small(measured["softmax"])})
    for heading in (
        "Which threshold?",
        "A cosine as a probability",
        "What the thresholds did here",
    ):
        assert f"<h2>{heading}</h2>" in page
    assert '<th scope="row">FAR 1 %</th>' in page
    assert f"<td>{thresholds.for_far(0.01).threshold:.4f}</td>" in page
    assert ", extrapolated</td>" in page
    assert "<td>0.5 % to 2 %</td><td>1.23 %</td><td>as expected</td><td>90 %</td>" in page
    assert "<td>60, extrapolated</td><td>0.5000</td><td>5 % to 20 %</td><td>30 %</td>" in page
    assert "<td>outside</td><td>–</td>" in page
    assert (tmp_path / "pictures" / "threshold.png").exists()
    assert (tmp_path / "pictures" / "probability.png").exists()
    assert Page(page).open == []
