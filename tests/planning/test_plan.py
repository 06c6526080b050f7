"""Advice, time, and the machine they are for."""

import dataclasses
import statistics
import time

import pytest
import torch

from arcset import InputError
from arcset.planning import (
    Machine,
    Setting,
    make_plan,
    measure_exchange,
    measure_machine,
    plan_memory,
)
from arcset.planning.trial import Trial

GIB = 1 << 30
ROUND = Machine("a round one", flops=1e12, convolving=1e12, passes=2e11, bandwidth=1e11, rows=1e10)


def total(setting, limit):
    return plan_memory(setting, limit=limit, process=1 << 28).total


@pytest.mark.parametrize("classes", [10**6, 10**8, 10**9])
@pytest.mark.parametrize("options", [{}, {"sample": 0.1, "update": "sgd"}, {"network": "simple"}])
def test_limits_are_exact(classes, options):
    """One process fewer does not fit, nor does one class more; the numbers themselves do."""
    limit = 16 * GIB
    setting = Setting(classes=classes, dim=256, batch=32, processes=8, **options)
    plan = make_plan(setting, limit=limit, process=1 << 28)
    assert plan.fits == (total(setting, limit) <= limit)
    assert total(setting.but(processes=plan.fewest), limit) <= limit
    if plan.fewest > 1:
        assert total(setting.but(processes=plan.fewest - 1), limit) > limit
    assert total(setting.but(classes=plan.most), limit) <= limit
    assert total(setting.but(classes=plan.most + setting.processes), limit) > limit


@pytest.mark.parametrize(
    ("limit", "options"),
    [
        (16, {"classes": 10**7, "batch": 768}),
        (4, {"classes": 3 * 10**6, "batch": 512, "dim": 256}),
        (8, {"classes": 10**6, "dim": 512, "batch": 2048, "subcenters": 3}),
        (1, {"classes": 10**6, "dim": 4096, "batch": 1, "update": "adagrad"}),  # 24 fit, 25 do not
    ],
)
def test_the_fewest_processes_by_trying_all(limit, options):
    """Also where one more does not fit again."""
    setting = Setting(**options)
    fitting = []
    for count in range(1, 400):
        shared = -(-setting.classes // count) * (count - 1) < setting.classes
        if shared and total(setting.but(processes=count), limit * GIB) <= limit * GIB:
            fitting.append(count)
    assert make_plan(setting, limit=limit * GIB, process=1 << 28).fewest == fitting[0]


def options_that_fit(setting, limit):
    plan = make_plan(setting, limit=limit, process=1 << 28)
    assert not plan.fits
    for change in plan.changes:
        assert change.fits == (total(setting.but(**change.options), limit) <= limit)
    return plan, [change.options for change in plan.changes if change.fits]


def test_logits_that_auto_keeps_and_need_not():
    """They fit into half of what is free, and the optimizer's copies do not fit beside them."""
    setting = Setting(classes=2_350_000, batch=768)
    plan, fitting = options_that_fit(setting, 24 * GIB)
    assert {"mode": "recompute"} in fitting
    assert plan.most < setting.classes  # though 3 million would fit, whose logits are not kept


def test_too_many_processes():
    """Each sees the batches of all."""
    plan, fitting = options_that_fit(Setting(classes=2**20, processes=4096), 4 * GIB)
    assert plan.fewest < 10
    assert {"processes": plan.fewest} in fitting


def test_a_batch_that_is_far_too_large():
    setting = Setting(1000, 128, batch=512, network="iresnet18")
    _, fitting = options_that_fit(setting, 4 * GIB)
    (batch,) = [options["batch"] for options in fitting if options.keys() == {"batch"}]
    assert 16 < batch < 256
    assert total(setting.but(batch=batch + 1), 4 * GIB) > 4 * GIB


def test_leaner_and_with_a_smaller_batch_where_nothing_else_fits():
    setting = Setting(classes=10**6, batch=512, network="iresnet18")
    _, (options,) = options_that_fit(setting, 3 * GIB)
    assert options.keys() == {"storage", "update", "batch", "processes"}


def test_changes_are_ranked_and_true():
    setting = Setting(classes=10**8, processes=16)
    plan = make_plan(setting, limit=16 * GIB, process=1 << 28)
    assert not plan.fits
    assert len(plan.changes) >= 4
    sizes = [change.total for change in plan.changes]
    assert sizes == sorted(sizes)
    for change in plan.changes:
        assert change.total == total(setting.but(**change.options), 16 * GIB) < plan.memory.total
        assert change.fits == (change.total <= 16 * GIB)
    assert any(change.options == {"processes": plan.fewest} for change in plan.changes)
    assert any(change.fits for change in plan.changes)


def test_leaner_and_wider_where_nothing_else_fits():
    """So many processes that their batch together is what takes the most."""
    setting = Setting(classes=10**10, processes=4, batch=16)
    plan = make_plan(setting, limit=16 * GIB, process=1 << 28)
    assert plan.fewest is None
    (change,) = [change for change in plan.changes if change.fits]
    assert change.options["storage"] == "bfloat16"
    assert change.options["processes"] > 4
    assert total(setting.but(**change.options), 16 * GIB) == change.total <= 16 * GIB


def test_time_counts_among_the_changes():
    setting = Setting(classes=10**6, update="sgd")
    without = make_plan(setting, limit=16 * GIB)
    known = make_plan(setting, limit=16 * GIB, machine=ROUND)
    assert all(change.seconds is None for change in without.changes)
    (sampled,) = [change for change in known.changes if change.options == {"sample": 0.1}]
    assert sampled.seconds < 0.5 * sum(known.seconds.values())


def test_nothing_fits():
    plan = make_plan(Setting(classes=10**6), limit=1000, process=1 << 28)
    assert (plan.fits, plan.fewest, plan.most) == (False, None, None)
    assert not any(change.fits for change in plan.changes)


def test_time_follows_what_is_drawn_and_what_is_sent():
    fast = dataclasses.replace(ROUND, network=1e9, latency=1e-4)
    whole = Setting(classes=1_000_000, batch=64, update="sgd", processes=2)
    some = whole.but(sample=0.1)
    plans = [make_plan(one, limit=64 * GIB, machine=fast) for one in (whole, some)]
    products = [plan.seconds["products with the centers"] for plan in plans]
    assert products[1] == pytest.approx(0.1 * products[0], rel=0.01)
    sent = sum(one.sent for one in plans[0].traffic)
    assert plans[0].seconds["traffic"] == pytest.approx(sent / 1e9 + 7e-4)
    unknown = make_plan(whole, limit=64 * GIB, machine=ROUND)
    assert "traffic" not in unknown.seconds


def test_measured_here():
    found = measure_machine(Setting(classes=10_000, dim=64, batch=32), chunk=2000)
    assert 1e8 < found.flops < 1e15
    assert 1e7 < found.rows < 1e13
    assert 1e7 < found.bandwidth < 1e13


@pytest.mark.long
@pytest.mark.parametrize("options", [{"update": "sgd"}, {"sample": 0.2}, {}])
def test_time_is_a_floor_that_is_near(options):
    """Beside real steps of one thread, in turns with the rates: other work may slow down either."""
    setting = Setting(classes=60_000, dim=128, batch=64, **options)
    limit, threads = 4 * GIB, torch.get_num_threads()
    ratios = []
    torch.set_num_threads(1)
    try:
        trial = Trial(setting)
        trial.step()
        for _ in range(3):
            rates = measure_machine(setting, plan_memory(setting, limit=limit).chunk)
            floor = sum(make_plan(setting, limit=limit, machine=rates).seconds.values())
            for _ in range(3):
                began = time.perf_counter()
                trial.step()
                ratios.append((time.perf_counter() - began) / floor)
    finally:
        torch.set_num_threads(threads)
    assert 0.6 < statistics.median(ratios) < 6, ratios


@pytest.mark.long
def test_measuring_takes_little_memory_whatever_the_shape():
    """At these sizes a single matrix of the step would have gigabytes."""
    for options in ({"dim": 10**9}, {"batch": 10**8}):
        assert measure_machine(Setting(classes=10**6, **options), chunk=10**6).flops > 0


@pytest.mark.long
def test_between_processes_here():
    speed, latency = measure_exchange()
    assert 1e6 < speed < 1e12
    assert 0 < latency < 1


def test_kept_in_a_file(tmp_path):
    ROUND.save(tmp_path / "round.json")
    assert Machine.load(tmp_path / "round.json") == ROUND


@pytest.mark.parametrize(
    "content",
    [
        *("", "[]", "3", '{"name": "x"}', '{"flops": 1}', '{"more": 2}', b"\xff\xfe"),
        '{"name":"x","flops":-1,"convolving":1,"passes":1,"bandwidth":1,"rows":1}',
        '{"name":"x","flops":"fast","convolving":1,"passes":1,"bandwidth":1,"rows":1}',
        '{"name":"x","flops":NaN,"convolving":1,"passes":1,"bandwidth":1,"rows":1}',
        '{"name":"x","flops":1,"convolving":1,"passes":1,"bandwidth":1,"rows":1,"network":-1}',
    ],
)
def test_other_files_are_refused(tmp_path, content):
    file = tmp_path / "other.json"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=r"other\.json"):
        Machine.load(file)
