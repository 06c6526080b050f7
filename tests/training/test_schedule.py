import pytest
import torch

from arcset.training.optimize import learning_rate


@pytest.mark.parametrize(
    ("steps", "share"), [(2, None), (10, None), (137, None), (40, 0.1), (40, 0.5)]
)
def test_one_cycle_is_torchs(steps, share):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
    peer = torch.optim.lr_scheduler.OneCycleLR(
        *(optimizer, 0.3), total_steps=steps, pct_start=share or 0.3, final_div_factor=1e5 / 25
    )
    ours, theirs = [], []
    for step in range(steps):
        ours.append(learning_rate(step, steps, 0.3, "one-cycle", share))
        theirs.append(peer.get_last_lr()[0])
        optimizer.step()
        if step + 1 < steps:
            peer.step()
    assert ours == pytest.approx(theirs, rel=1e-9)
    assert ours[-1] == pytest.approx(0.3e-5)


@pytest.mark.parametrize("schedule", ["cosine", "constant"])
@pytest.mark.parametrize("steps", [1, 7, 100])
@pytest.mark.parametrize("share", [None, 0.0, 0.25, 0.99])
def test_the_rise_is_a_line_to_the_peak(schedule, steps, share):
    rates = [learning_rate(step, steps, 0.5, schedule, share) for step in range(steps)]
    rising = round((share or 0) * steps)
    assert rates[:rising] == pytest.approx([0.5 * (i + 1) / rising for i in range(rising)])
    assert rates[max(rising - 1, 0)] == pytest.approx(0.5)  # the peak is reached
    assert rates[rising:] == sorted(rates[rising:], reverse=True)
    if schedule == "constant":
        assert set(rates[rising:]) <= {0.5}
    elif not rising and steps > 1:
        assert rates[-1] == pytest.approx(0.5e-5)
    assert all(0 < rate <= 0.5 for rate in rates)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.99])
@pytest.mark.parametrize("steps", [1, 2, 3, 50])
def test_one_cycle_stays_between_almost_nothing_and_the_peak(steps, share):
    rates = [learning_rate(step, steps, 0.5, "one-cycle", share) for step in range(steps)]
    assert all(0 < rate <= 0.5 for rate in rates)
    assert max(rates) > 0.3 or steps < 4
