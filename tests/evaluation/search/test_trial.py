"""Open-set trials: who is enrolled, and what follows from the seed alone."""

import numpy as np
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from arcset.evaluation import Trial, trial

many_labels = st.lists(st.integers(-3, 6), min_size=2, max_size=40).map(np.array)


@given(many_labels, st.floats(0.01, 1.0), st.integers(1, 3), st.integers(0, 5))
def test_obeys_the_definition(labels, enrolled, samples, seed):
    sizes = {label: int((labels == label).sum()) for label in set(labels.tolist())}
    able = [label for label, size in sizes.items() if size >= samples + 1]
    assume(able and (len(sizes) > 1 or enrolled == 1))
    made = trial(labels, enrolled=enrolled, samples=samples, seed=seed)
    assert isinstance(made, Trial)
    assert sorted([*made.gallery, *made.probes]) == list(range(len(labels)))
    assert list(made.gallery) == sorted(made.gallery)
    assert list(made.probes) == sorted(made.probes)
    known = set(labels[made.gallery].tolist())
    assert known <= set(able)
    for label in known:
        assert (labels[made.gallery] == label).sum() == samples
        assert (labels[made.probes] == label).sum() == sizes[label] - samples >= 1
    expected = max(1, int(enrolled * len(able) + 0.5))
    assert made.subjects == len(known)
    assert made.unknown == len(sizes) - len(known)
    assert made.subjects == expected - (enrolled < 1 and expected == len(sizes))
    assert made.unknown >= 1 or enrolled == 1


def test_is_what_it_always_was():
    """The same rows on every platform and with every release."""
    labels = np.arange(24) // 3
    assert trial(labels).gallery.tolist() == [3, 7, 10, 20]
    assert trial(torch.as_tensor(labels)).gallery.tolist() == [3, 7, 10, 20]
    assert trial(labels, seed=1).gallery.tolist() != [3, 7, 10, 20]


def test_everybody_may_be_enrolled():
    made = trial([1, 1, 2, 2, 3], enrolled=1)
    assert (made.subjects, made.unknown) == (2, 1)
    made = trial([1, 1, 2, 2], enrolled=1.0)
    assert (made.subjects, made.unknown) == (2, 0)
