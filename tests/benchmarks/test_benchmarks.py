"""The benchmarks at sizes where they take seconds: what they measure, write and print."""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
LONG = pytest.mark.long  # most take long to start: several processes that each import everything
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")


@pytest.fixture
def run(tmp_path):
    """Run a benchmark; the JSON that it writes, called like it, and what it prints."""

    def call(name, *words, written=None):
        command = [sys.executable, str(BENCHMARKS / f"{name}.py"), f"--out={tmp_path}", *words]
        alone = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=alone)
        assert done.returncode == 0, done.stderr[-3000:]
        content = (tmp_path / f"{written or name}.json").read_text(encoding="utf-8")
        return json.loads(content), done.stdout

    return call


@pytest.mark.parametrize("more", [(), pytest.param(("--everything",), marks=LONG)])
def test_all_searches_give_the_same_figures(run, more):
    """The one speed test that `make test` runs: the others take longer to start."""
    words = ["--count=300", "--dim=16", "--classes=30,3", "--repeats=2", *more]
    content, shown = run("retrieval", *words)
    assert [cell["classes"] for cell in content["cells"]] == [30, 3]
    for cell in content["cells"]:
        assert len(cell["seconds"]) >= 2
        for name, seconds in cell["seconds"].items():
            assert name in shown
            assert len(seconds) == 2
            assert min(seconds) <= cell["medians"][name] <= max(seconds)
            assert cell["values"][name] == pytest.approx(cell["values"]["arcset"], abs=1e-5)


MEASURES = {"auc", "eer", "tar_at_far[0.1]", "tar_at_far[0.01]", "recall_at[1]", "rank[1]"}
WIDEST = {20: 2.0, 50: 1.5, 200: 1.2}


def test_intervals_cover_few_identities(run):
    """Of 60 sets, 90 % less three standard errors."""
    words = ["--sets=60", "--identities=20", "--draws=200"]
    content, shown = run("coverage", *words, written="coverage-judged")
    cells = content["cells"]
    assert {cell["measure"] for cell in cells} == MEASURES
    assert "coverage" in shown
    for cell in cells:
        assert cell["interval"]["coverage"] >= 0.78, cell
        assert cell["interval"]["width"] <= 2.5, cell
    means = [sum(cell[form]["coverage"] for cell in cells) for form in ("percentile", "interval")]
    assert means[0] < means[1]


@LONG
@pytest.mark.timeout(1800)
def test_intervals_hold_the_truth_in_nine_of_ten_sets(run):
    """Of 200 sets of three sizes, 90 % less two standard errors; the benchmark takes 1,000."""
    for cell in run("coverage", "--sets=200", written="coverage-judged")[0]["cells"]:
        assert cell["interval"]["coverage"] >= 0.86, cell
        assert cell["interval"]["width"] <= 1.1 * WIDEST[cell["identities"]], cell


@LONG
@pytest.mark.timeout(1200)
def test_probabilities_keep_what_they_say_to_fresh_identities(run):
    content, shown = run("probabilities", "--worlds=60", "--identities=20,200")
    assert "calibration error" in shown
    for cell in content["cells"]:
        assert cell["pairs"] >= 50_000
        if cell["population"] != "chosen-hard":
            assert cell["error"]["smooth"] <= 0.025, cell  # 0.02, and the chance of 60 worlds
        if cell["identities"] == 200:
            assert cell["behind_isotonic"][0] <= 0, cell


@LONG
def test_embedding_is_compared_with_the_bare_network(run):
    content, shown = run("embed", "--only=conv4", "--repeats=2", "--count=600")
    found = [(cell["network"], cell["processes"]) for cell in content["cells"]]
    assert found == [("conv4", 1), ("conv4", 2)]
    for cell in content["cells"]:
        rates = cell["rates"]
        assert set(rates) == {"bare", "files", "pack"}
        assert all(len(turns) == 2 and min(turns) > 0 for turns in rates.values())
        for way, ratio in cell["ratios"].items():
            turns = zip(rates[way], rates["bare"], strict=True)
            assert ratio == pytest.approx(statistics.median(a / b for a, b in turns))
            assert f"{ratio:.2f}" in shown


@LONG
def test_an_exported_file_is_compared_with_torch(run):
    words = ["--only=simple", "--repeats=2", "--seconds=0.01", "--threads=1"]
    content, shown = run("export", *words)
    found = [(cell["network"], cell["batch"]) for cell in content["cells"]]
    assert found == [("simple", 256), ("simple", 1)]
    for cell in content["cells"]:
        assert cell["min_cosine"] > 0.99999
        assert all(len(rates) == 2 and min(rates) > 0 for rates in cell["rates"].values())
        turns = zip(cell["rates"]["ONNX Runtime"], cell["rates"]["torch"], strict=True)
        low, high = sorted(ours / theirs for ours, theirs in turns)
        assert low <= cell["ratio"] <= high
        assert f"{cell['ratio']:.2f}" in shown


HEAD = ["--dim=16", "--threads=1", "--repeats=2", "--batch=8"]
HEADS = ["preallocated", "allocating", "store", "recompute", "plain", "arccos", "pml"]
HEADS += ["sgd", "fused"]


@LONG
def test_heads_are_timed(run, tmp_path):
    content, shown = run("head", *HEAD, "--classes=300,600", "--skip-memory")
    assert content["machine"]["threads"] == 1
    assert [cell["classes"] for cell in content["cells"]] == [300, 600]
    for cell in content["cells"]:
        assert (cell["batch"], cell["dim"], cell["rounds"]) == (8, 16, 2)
        assert cell["weight_bytes"] == cell["classes"] * 16 * 4
        assert list(cell["contenders"]) == HEADS
        for row in cell["contenders"].values():
            low, high = row["quartiles"]
            assert len(row["seconds"]) == 2
            assert 0 < low <= row["median"] <= high
            assert row["label"] in shown
            assert "memory" not in row
    assert content["bars"] == []
    assert (tmp_path / "head.png").read_bytes().startswith(b"\x89PNG")


@LONG
@on_linux
def test_memory_of_heads_is_in_multiples_of_the_centers(run):
    """4 MB of centers: the gradient at least lies beside them, and nothing absurd does."""
    (cell,) = run("head", *HEAD, "--classes=65536", "--only=store")[0]["cells"]
    assert list(cell["contenders"]) == ["preallocated", "allocating", "store"]
    for row in cell["contenders"].values():
        memory = row["memory"]
        assert memory["bytes"] == pytest.approx(memory["weights"] * cell["weight_bytes"])
        assert 1.5 < memory["weights"] < 10


@LONG
@on_linux
@pytest.mark.timeout(1200)  # a minute and a half of work, each part in a process of its own
def test_every_part_of_scale(run):
    content, shown = run("scale", "--small", "--threads=1")
    assert content["met"] is None
    sampling = content["sampling"]
    assert list(sampling["seconds"]) == ["1.0", "0.03", "0.05", "0.1", "0.2", "0.4"]
    assert min(sampling["median"].values()) > 0
    assert sampling["faster"] == sampling["median"]["1.0"] / sampling["median"]["0.1"]
    sharing = content["sharing"]
    assert 0 < sharing["ratio"] == sharing["each"] / sharing["one"]
    assert content["many"]["stored"] == 2 * 64 + 4
    assert content["many"]["losses"][-1] < content["many"]["losses"][0]
    assert len(content["planned"]) == 7
    assert all(0.5 < row["planned"] / row["measured"] < 2 for row in content["planned"])
    for count in ("1", "2"):
        for losses, centers in content["exact"][count].values():
            assert losses < 1e-9
            assert centers < 1e-8
    assert min(content["peers"]["sampled"]["median"].values()) > 0
    assert "NOT MET" not in shown
    content, _ = run("scale", "--small", "--threads=1", "--only=exact")
    assert "sampling" not in content
    assert content["exact"]


@LONG
@pytest.mark.timeout(600)
@pytest.mark.parametrize("count", [400, 2000])
def test_so_many_requests_are_served_and_none_fails(run, tmp_path, count):
    words = [f"--requests={count}", "--subjects=200", "--network=simple", "--size=28"]
    content, shown = run("serve", *words, f"--turn={count // 2}", f"--place={tmp_path}")
    assert content["failed"] == 0, content["wrong"]
    assert content["exit"] == 0
    assert content["bars"]["failed"]
    assert 0 < content["latency"]["p50"] <= content["latency"]["p99"]
    assert len(content["served"]) == len(content["offline"]) == 2
    assert f"0 of {count:,} requests" in shown
    assert f"p99 {content['latency']['p99']:.3f}" in shown


@LONG
@on_linux
def test_verification_is_compared_with_scikit_learn(run):
    words = ["--small=300", "--large=600", "--middle=500", "--dim=16", "--repeats=2", "--threads=1"]
    content, shown = run("verification", *words)
    assert content["machine"]["threads"] == 1
    found = [(cell["count"], *cell["contenders"]) for cell in content["cells"]]
    assert found[0] == (300, "roc_curve", "products", "arcset")
    assert found[1:] == [(500, "products", "arcset"), (600, "products", "arcset")]
    small = content["cells"][0]["contenders"]
    rates = [small[name]["tar_at_far_1e-3"] for name in ("roc_curve", "arcset")]
    assert rates[0] == pytest.approx(rates[1], abs=1e-9)
    for cell in content["cells"]:
        for row in cell["contenders"].values():
            assert len(row["seconds"]) == 2
            assert min(row["seconds"]) <= row["median"] <= max(row["seconds"])
            assert row["memory"]["input_bytes"] == cell["count"] * (16 * 4 + 8)
    assert "scikit-learn" in shown
    assert "bare products" in shown
