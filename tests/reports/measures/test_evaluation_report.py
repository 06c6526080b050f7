"""The report of an evaluation: complete, alone, safe, and the same every time."""

import base64
import hashlib
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from arcset.errors import OptionError
from arcset.evaluation import Assessment, Interval, Realized, paired
from arcset.evaluation.few_shot import few_shot
from arcset.evaluation.measures import MEASURES
from arcset.reports.evaluation_report import compare_values, main_measures, write_evaluation

from .conftest import embeddings, only

pytestmark = pytest.mark.filterwarnings("error")

Measured = dict[str, Assessment]


class Page(HTMLParser):
    """Sees that every element is closed in its order."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.feed(content)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in {"br", "img", "meta", "link", "input"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def two(measured: Measured) -> Measured:
    return {label: measured[label] for label in ("arcface", "softmax")}


@pytest.fixture(scope="module")
def page(two: Measured, tmp_path_factory: Any) -> str:
    first, second = (found.verification for found in two.values())
    return written(
        tmp_path_factory.mktemp("evaluation"),
        two,
        command="arcset evaluate /home/anna/a runs/b",
        note="12 identities were in training.",
        differences={"a against b": [paired(first, second, name) for name in first.measures()]},
    )


def written(folder: Path, assessments: Measured, **options: Any) -> str:
    write_evaluation(folder, assessments, **{"title": "T", "command": "c", **options})
    return (folder / "report.html").read_text(encoding="utf-8")


def test_it_is_one_small_file_that_asks_for_nothing(page: str) -> None:
    found = Page(page)
    assert page.startswith("<!DOCTYPE html>")
    assert found.open == []
    assert len(found.ids) == len(set(found.ids))
    assert found.tags.count("h1") == found.tags.count("main") == 1
    assert not {"script", "link"} & {*found.tags}
    assert len(page.encode()) < 1_000_000
    assert "12 identities were in training." in page
    assert "arcset evaluate a runs/b" in page  # without folders of the machine
    assert not re.search(r"https?://| style=|url\((?!data:)|@import", page)
    sources = re.findall(r'<img[^>]*\ssrc="([^"]{0,20})', page)
    assert len(sources) == 6
    assert all(source.startswith("data:image/png") for source in sources)


def test_only_its_own_style_is_allowed(page: str) -> None:
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'"
    assert f'<meta http-equiv="Content-Security-Policy" content="{policy}">' in page


def test_few_identities_are_warned_of_and_equal_models_are_not_marked(
    page: str, tmp_path: Path
) -> None:
    warned = re.compile(r"(\d+) identities[^.]*guess")
    assert page.count('class="dot best"') > 5
    assert not warned.search(page)
    few = few_shot(*embeddings(0.2, identities=5), ways=3, episodes=9, intervals=True, draws=9)
    equal = written(tmp_path, dict.fromkeys("ab", only(few_shot=few)))
    assert equal.count('class="dot best"') == equal.count('class="dot near"') == 1  # in the key
    assert warned.search(equal)[1] == "5"


def test_marks_come_from_paired_draws(measured: Measured, bare: Assessment) -> None:
    models = {label: measured[label] for label in ("arcface", "softmax", "_hidden")}
    row = compare_values({**models, "bare": bare})["eer"]
    assert row["arcface"].mark == "best"
    close = paired(models["arcface"].verification, models["softmax"].verification, "eer")
    assert (row["softmax"].mark == "near") == (not close.shown)
    assert row["bare"].mark == ""  # without draws nothing can be said
    assert compare_values({"arcface": models["arcface"]})["eer"]["arcface"].mark == ""


def test_main_measures_are_taken_where_all_models_have_them(two: Measured) -> None:
    names = main_measures(compare_values(two))
    found = two["arcface"].identification.dir_at_fpir
    lowest = min(rate for rate, value in found.items() if not math.isnan(value))
    assert {"tar_at_far[0.001]", "rank[1]", f"dir_at_fpir[{lowest:g}]"} <= {*names}
    assert "auc" not in names


def test_every_measure_is_in_the_page(page: str, two: Measured) -> None:
    for label, found in two.items():
        assert f'<th scope="col">{label}</th>' in page
        for part in found.results().values():
            for name, value in part.measures().items():
                shown = MEASURES[name.partition("[")[0]].format(value).replace(" %", "\xa0%")
                assert math.isnan(value) or shown in page, name
    assert ">–<" in page  # a rate beyond the data


def test_parts_may_be_missing(measured: Measured, bare: Assessment, tmp_path: Path) -> None:
    few = only(bare, "retrieval", missing={"verification": "there is one sample per identity"})
    whole = only(measured["arcface"], "retrieval", missing={"thresholds": "no validation"})
    page = written(tmp_path / "both", {"whole": whole, "few": replace(few, samples=100)})
    assert "verification (few)" in page
    assert "thresholds (whole)" in page
    assert "whole: 200 samples of 40 identities, in 16 dimensions" in page
    assert "few: 100 samples" in page
    assert Page(page).open == []
    page = written(tmp_path / "few", {"few": few})
    assert "Same or different?" not in page
    assert "Without intervals" in page
    page = written(tmp_path / "none", {"none": only(missing={"all": "one sample"})})
    assert "one sample" in page
    assert "<img" not in page
    assert not (tmp_path / "none" / "pictures").exists()


def test_no_assessment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError):
        written(tmp_path, {})
    assert not list(tmp_path.iterdir())


def test_thresholds_and_what_they_did(tuned: Assessment, tmp_path: Path) -> None:
    outside = Realized("FPIR", 0.1, 0.5, Interval(0.05, 0.2), 0.3, math.nan, 60, True)
    page = written(tmp_path, {"one": replace(tuned, realized=(*tuned.realized, outside))})
    for heading in ("Which threshold?", "A cosine as a probability", "What the thresholds did"):
        assert f"<h2>{heading}" in page
    assert '<th scope="row">FAR 1 %</th>' in page
    assert f"<td>{tuned.thresholds.for_far(0.01).threshold:.4f}</td>" in page
    assert (
        "<td>60, extrapolated</td><td>0.5000</td><td>5 to 20 %</td><td>30 %</td><td>outside</td>"
        "<td>–</td>" in page
    )
    assert {"threshold.png", "probability.png"} <= {
        path.name for path in (tmp_path / "pictures").iterdir()
    }
    assert Page(page).open == []
