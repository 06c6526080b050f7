"""Confidence against plain loops, torch's softmax and scikit-learn."""

import json

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from arcset.evaluation import confidence


def surest(logits):
    return torch.softmax(torch.tensor(logits, dtype=torch.float64), dim=1).amax(dim=1).numpy()


@pytest.fixture(scope="module")
def batches():
    generator = np.random.default_rng(1)
    labels = generator.integers(0, 5, 300)
    known = generator.normal(size=(300, 5)) + 3 * np.eye(5)[labels]
    return known, labels, 2 * generator.normal(size=(200, 5))


def test_every_number_equals_its_definition(batches):
    known, labels, unseen = batches
    found = confidence(known, labels, unseen, examples=4)
    for part, logits in ((found.known, known), (found.unseen, unseen)):
        expected = surest(logits)
        assert part.count == len(logits)
        assert part.mean == pytest.approx(expected.mean())
        assert part.quantiles[0.5] == part.median
        for share, value in part.quantiles.items():
            assert value == pytest.approx(np.quantile(expected, share))
        for level, value in part.above.items():
            assert value == sum(p > level for p in expected) / len(expected)
    right = sum(max(range(5), key=known[i].__getitem__) == labels[i] for i in range(300))
    assert found.accuracy == right / 300
    truth = [1] * 300 + [0] * 200
    assert found.auc == pytest.approx(
        roc_auc_score(truth, np.concatenate((surest(known), surest(unseen))))
    )
    by_hand = sorted(range(200), key=lambda i: -surest(unseen)[i])[:4]
    assert [example.index for example in found.examples] == by_hand
    for example in found.examples:
        assert example.label == unseen[example.index].argmax()
        assert example.probability == pytest.approx(surest(unseen)[example.index])


def test_what_people_and_programs_read(batches):
    found = confidence(*map(torch.tensor, batches), examples=2)
    content = json.loads(json.dumps(found.json()))
    assert content["known"]["above"]["0.99"] == found.known.above[0.99]
    assert f"{found.unseen.mean:.4f}" in found.table()
