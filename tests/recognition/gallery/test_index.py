"""Rows added, moved and removed in any order: the index holds what a plain table holds."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from arcset.recognition.gallery.index import Index
from support.galleries import unit

DIM = 3


class Table(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.index, self.rows, self.last = Index(DIM), {}, 0

    @rule(owners=st.lists(st.integers(1, 6), min_size=1, max_size=9))
    def add(self, owners):
        ids = np.arange(self.last + 1, self.last + 1 + len(owners))
        vectors = unit(len(owners), DIM, seed=self.last)
        self.last = int(ids[-1])
        self.index.add(ids, np.array(owners), vectors)
        self.rows |= {
            int(one): (owner, row) for one, owner, row in zip(ids, owners, vectors, strict=True)
        }

    @rule(drawn=st.sets(st.integers(1, 40), max_size=9))
    def remove(self, drawn):
        self.index.remove(np.array(sorted(drawn), np.int64))
        self.rows = {one: row for one, row in self.rows.items() if one not in drawn}

    @rule(drawn=st.dictionaries(st.integers(1, 40), st.integers(1, 6), max_size=9))
    def move(self, drawn):
        known = {one: owner for one, owner in drawn.items() if one in self.rows}
        self.index.move(np.array(list(known), np.int64), np.array(list(known.values()), np.int64))
        for one, owner in known.items():
            self.rows[one] = owner, self.rows[one][1]

    @invariant()
    def equal(self):
        index = self.index
        assert len(index) == len(index.matrix) == len(self.rows)
        found = {
            int(one): (int(owner), row)
            for one, owner, row in zip(index.ids, index.subjects, index.matrix, strict=True)
        }
        assert found.keys() == self.rows.keys()
        for one, (owner, row) in self.rows.items():
            assert found[one][0] == owner
            assert np.array_equal(found[one][1], row)
        owners = [owner for owner, _ in self.rows.values()]
        assert index.subject_count == len(set(owners))
        assert index.counts.sum() == len(owners)
        for owner in set(owners):
            assert index.counts[owner] == owners.count(owner) == len(index.rows_of(owner))
        if len(index):  # FAISS sees the same rows
            cosines, rows = index.search(np.eye(DIM, dtype=np.float32)[:1], 1)
            assert cosines[0, 0] == index.matrix[rows[0, 0], 0] == index.matrix[:, 0].max()


TestTable = Table.TestCase
TestTable.settings = settings(max_examples=40, stateful_step_count=15, deadline=None)


def test_what_is_removed_does_not_stay_in_memory():
    index, rows = Index(DIM), unit(3, DIM)
    index.add(np.array([1, 2, 3]), np.array([1, 2, 3]), rows)
    memory = index.matrix
    index.remove(np.array([2]))
    assert np.array_equal(np.sort(index.matrix, 0), np.sort(rows[[0, 2]], 0))
    assert not memory[2].any()
