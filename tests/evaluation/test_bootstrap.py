import dataclasses
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from scipy import stats

from arcset.errors import InputError, OptionError
from arcset.evaluation import Difference, Interval, Result, paired
from arcset.evaluation.bootstrap import FEWEST
from arcset.evaluation.results import Replicates, share_interval


@dataclass(frozen=True, kw_only=True)
class Score(Result):
    named: ClassVar = ("eer", "tar_at_far", "intra")
    eer: float
    tar_at_far: dict[float, float]
    intra: float = 0.0

    def _size(self):
        return "two models"

    def _notes(self):
        return {"eer": "of few"}


def score(error, rate, *, key="k", draws=1000, noise=0.01, seed=0, identities=50):
    common = np.random.default_rng(99).normal(size=draws)  # what makes a draw hard for everybody
    own = np.random.default_rng(seed).normal(size=draws) * noise
    values = {
        "eer": error + 0.1 * common + own,
        "tar_at_far[0.001]": rate + 0.1 * common + own,
        "intra": 0 * common,
    }
    return Score(eer=error, tar_at_far={1e-3: rate}, replicates=Replicates(values, identities, key))


@pytest.mark.parametrize("share", [0.0, 0.003, 0.4, 0.98, 1.0])
@pytest.mark.parametrize("error", [0.0, 0.002, 0.05])
def test_the_interval_of_a_share_is_wilsons(share, error):
    """Its ends are the shares that would just be doubted, and it holds the share itself."""
    identities, trials = 30, 4
    low, high = share_interval(share, error, identities, trials)
    assert 0 <= low <= share <= high <= 1
    assert high - low > 0.001  # even where no error was seen
    most, t = trials * identities, stats.t.ppf(0.975, identities - 1)
    m = (share * (1 - share) + 1 / most) / (error**2 + 1 / most**2)
    for end in {low, high} - {share}:
        assert abs(share - end) == pytest.approx(t * math.sqrt(end * (1 - end) / m), rel=1e-9)


def test_the_interval_of_an_angle_is_students():
    values = np.append(np.linspace(10, 12, 1001), [np.nan] * 5)
    found = dataclasses.replace(
        score(0.1, 0.9), intra=11.0, replicates=Replicates({"intra": values}, 7, "k")
    )
    reach = stats.t.ppf(0.975, 6) * np.nanstd(values) * (7 / 6) ** 0.5
    assert found.interval("intra") == pytest.approx((11 - reach, 11 + reach))
    assert np.isnan(found.interval("eer")).all()


def test_names_of_measures():
    found = score(0.1, 0.9)
    assert list(found.measures()) == ["eer", "tar_at_far[0.001]", "intra"]
    for name, at in (("tar_at_far[1e-3]", None), ("tar_at_far", 0.001)):
        assert found.interval(name, at) == found.interval("tar_at_far[0.001]")
    with pytest.raises(OptionError, match="tar_at_far"):
        found.interval("tar_at_far")
    with pytest.raises(OptionError, match=r"tar_at_far\[0\.001\], intra"):
        found.interval("tar_at_far[x]")
    bare = dataclasses.replace(found, replicates=None)
    with pytest.raises(OptionError, match="intervals=True"):
        bare.interval("eer")
    assert bare.table().splitlines() == [
        "two models",
        "",
        "measure           value",
        "EER               0.1000  of few",
        "TAR at FAR 0.1 %  0.9000",
        "Intra             0.00",
    ]
    assert "0.1000 [" in found.table()


def test_json_has_text_keys_no_nan_and_the_intervals():
    content = score(float("nan"), 0.9).json()
    assert content["eer"] is None
    assert content["tar_at_far"] == {"0.001": 0.9}
    assert content["intervals"]["eer"] == [None, None]
    assert len(content["intervals"]["tar_at_far[0.001]"]) == 2
    assert content["identities"] == 50


def test_paired_draws_see_what_single_intervals_hide():
    worse, better = score(0.5, 0.50), score(0.46, 0.54, seed=1)
    alone = [result.interval("tar_at_far[0.001]") for result in (worse, better)]
    assert alone[0].high > alone[1].low  # the two intervals overlap widely
    rate = paired(better, worse, "tar_at_far", 0.001)
    assert rate.shown
    assert rate.gain == pytest.approx(0.04)
    assert 0 < rate.interval.low < 0.04 < rate.interval.high
    assert paired(better, worse, "eer").gain == pytest.approx(0.04)
    assert paired(worse, better, "eer").sentence().startswith("worse by 4.0 points [")
    assert not paired(worse, worse, "eer").shown
    assert paired(worse, better, "intra").degrees


def test_paired_means_over_runs_cover_the_luck_of_training():
    ours = [score(0.5, rate) for rate in (0.5, 0.6, 0.7)]
    theirs = [score(0.5, rate) for rate in (0.55, 0.6, 0.55)]
    found = paired(ours, theirs, "tar_at_far[0.001]")
    assert found.gain == pytest.approx(np.mean([-0.05, 0.0, 0.15]))
    assert found.interval.low < -0.1  # three runs that differ so much show nothing
    assert not found.shown


def test_seldom_a_difference_where_there_is_none():
    """Two models whose runs differ by luck alone: 5 % may look real, and few more do."""
    rng = np.random.default_rng(8)
    false = 0
    for _ in range(300):
        runs = [score(0.5, 0.5 + 0.05 * rng.normal(), seed=rng.integers(2**31)) for _ in range(6)]
        false += paired(runs[:3], runs[3:], "tar_at_far[0.001]").shown
    assert false <= 27  # 15 expected


@pytest.mark.parametrize("runs", [1, 3])
def test_few_identities_show_nothing(runs):
    """However large the gain, and however many runs have it."""
    for identities, shown in ((1, False), (FEWEST - 1, False), (FEWEST, True)):
        worse = [score(0.5, 0.2, identities=identities)] * runs
        better = [score(0.5, 0.9, seed=1, identities=identities)] * runs
        found = paired(better, worse, "tar_at_far[0.001]")
        assert found.gain == pytest.approx(0.7)
        assert (found.shown, not found.why) == (shown, shown)
        if not shown:
            assert np.isnan(found.interval).all()
            told = f"{identities} {'identity is' if identities == 1 else 'identities are'} too few"
            assert found.sentence() == f"no difference shown: 70.0 points, and {told} to tell"
            assert found.json()["why"] == f"{told} to tell"


def test_draws_that_all_show_the_same_say_little():
    for identities, shown in ((FEWEST, False), (19, False), (20, True)):
        worse, better = (score(0.5, rate, noise=0, identities=identities) for rate in (0.5, 0.6))
        assert paired(better, worse, "tar_at_far[0.001]").shown == shown
        none = paired(worse, worse, "tar_at_far[0.001]")
        assert (none.why, none.interval) == ("", Interval(0.0, 0.0))


def test_paired_refuses_what_does_not_go_together():
    one = score(0.1, 0.9)
    for others, words in (
        ([one, one], "1 .* 2"),
        (score(0.1, 0.9, key="other"), "identities"),
        (dataclasses.replace(one, replicates=None), "intervals=True"),
    ):
        with pytest.raises(InputError, match=words):
            paired(one, others, "eer")


def test_a_difference_of_angles_in_words():
    turned = Difference("a", -3.25, Interval(-5, -1), degrees=True)
    assert turned.sentence() == "worse by 3.2° [1.0, 5.0]"
