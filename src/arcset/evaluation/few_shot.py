"""Few-shot: told apart after a few examples, among a few identities never seen in training?

Random draws that are the same on every platform and with every release of numpy.

They use the raw stream of a bit generator, the only one numpy promises to keep, and whole numbers.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from arcset.checks import check_count
from arcset.errors import InputError
from arcset.evaluation.arrays import Array, read_labelled
from arcset.evaluation.bootstrap import DRAWS, Resampling, draw_means, groups_of
from arcset.evaluation.pairs import Rows, round_cosines, unit_rows
from arcset.evaluation.results import Result
from arcset.text import plural

BLOCK_NUMBERS = 2**21  # numbers of rows held at once, 8 MB


def draw_in_order(sizes: Rows, random: npt.NDArray[np.uint64]) -> Rows:
    """For each row r, k distinct numbers below `sizes[r]` in random order; (R, k).

    The shuffle of Fisher and Yates, stopped after k steps; k ≤ sizes. Step i takes the number at
    place i + random modulo (size − i), and puts there what stood at place i.

    Parameters:
        sizes: (R,), how many there are to draw from.
        random: (R, k), what chance says. Taken modulo at most `sizes`, which favours some numbers
            by less than one in 2⁶⁴ / sizes.

        >>> draw_in_order(np.array([3, 5]), np.array([[1, 1], [4, 3]], dtype=np.uint64))
        array([[1, 2],
               [4, 0]])
    """
    steps = np.arange(random.shape[1])
    left = sizes[:, None] - steps  # (R, k)
    places = steps + (random % left.astype(np.uint64)).astype(np.intp)
    drawn = places.copy()  # what each step takes, if none before it was there
    moved = np.tile(steps, (len(sizes), 1))  # what each step puts there
    for i in steps[:-1]:
        place, number = places[:, i, None], moved[:, i, None]
        drawn[:, i + 1 :] = np.where(places[:, i + 1 :] == place, number, drawn[:, i + 1 :])
        moved[:, i + 1 :] = np.where(steps[i + 1 :] == place, number, moved[:, i + 1 :])
    return drawn


@dataclass(frozen=True, kw_only=True)
class FewShot(Result):
    """How often a query goes to its own identity, in episodes of N ways and K shots.

    Fields:
        accuracy: share of queries that lie nearest to the prototype of their own identity.
        standard_error: of the accuracy, over episodes: how much it would change with others drawn
            from the same samples. It does not tell how it would change with other identities; the
            interval does. NaN for a single episode.
        ways, shots, queries: identities per episode, support samples and queries of each.
        episodes: how many there are.
        identities: how many have enough samples to be drawn.
    """

    named: ClassVar[tuple[str, ...]] = ("accuracy",)

    accuracy: float
    standard_error: float
    ways: int
    shots: int
    queries: int
    episodes: int
    identities: int

    def _size(self) -> str:
        queries = plural(self.queries, "query", "queries")
        return (
            f"{self.ways}-way {self.shots}-shot, {queries} of each,"
            f" {plural(self.episodes, 'episode')} from {self.identities:,} identities"
        )

    def _notes(self) -> dict[str, str]:
        error = f"standard error over episodes {self.standard_error:.4f}"
        return {"accuracy": "a single episode" if math.isnan(self.standard_error) else error}


def few_shot(
    embeddings: Array,
    labels: Array,
    *,
    ways: int = 20,
    shots: int = 1,
    queries: int = 1,
    episodes: int = 1000,
    seed: int = 0,
    intervals: bool = False,
    draws: int = DRAWS,
    groups: Array | None = None,
) -> FewShot:
    """Accuracy over random episodes of N ways and K shots, by nearest prototype.

    Each episode draws `ways` identities, and of each of them `shots` support samples and `queries`
    others, all without replacement. The prototype of an identity is the direction of the mean of
    its unit support embeddings; a query goes to the prototype with the highest cosine. If another
    prototype is as near as its own, it counts as wrong: ties count against the model.

    Snell, Swersky and Zemel, "Prototypical networks for few-shot learning" (NeurIPS 2017), with
    cosines; Lake, Salakhutdinov and Tenenbaum (Science 2015) for 20 ways and 1 shot.

    Parameters:
        embeddings, labels: (N, D) and (N,); cosines are rounded as `pairs` says.
        seed: the episodes follow from the labels and the seed, never from the embeddings, so that
            two models meet the same ones; on every platform, and whichever way the rows of
            different identities are mixed. More episodes begin with the same ones.
        intervals: whether to add the 95 % interval over identities. The episodes stay, and so does
            who is compared with whom; the eligible identities are drawn anew, `draws` times from
            `seed`, and each query weighs as often as its own identity was drawn.
        groups: (N,), to draw whole groups of identities, see `bootstrap`.

    Raises `InputError` for fewer than `ways` identities with `shots` + `queries` samples, and where
    the support of an identity cancels out.

        >>> points = [[1, 0], [1, 0.1], [0, 1], [0.1, 1]]
        >>> few_shot(points, [4, 4, 9, 9], ways=2, episodes=10).accuracy
        1.0
    """
    check_count("ways", ways, least=2)
    for option, value in (("shots", shots), ("queries", queries), ("episodes", episodes)):
        check_count(option, value)
    check_count("seed", seed, least=0)
    matrix, distinct, numbers = read_labelled(embeddings, labels)
    units = unit_rows(matrix)
    sizes = np.bincount(numbers)
    eligible = np.flatnonzero(sizes >= shots + queries)
    if len(eligible) < ways:
        raise InputError(
            f"labels hold {len(eligible)} identities with {shots + queries} samples or more,"
            f" expected at least {ways} for {ways} ways, {shots} shots and {queries} queries"
        )
    by_identity = np.argsort(numbers, kind="stable")
    starts = (np.cumsum(sizes) - sizes)[eligible]
    chance = np.random.PCG64(seed)
    people, answers = [], []  # of each episode its identities (e, N), and of each query (e, N, Q)
    each = shots + queries
    step = max(1, BLOCK_NUMBERS // (ways * max(each * units.shape[1], queries * ways)))
    for start in range(0, episodes, step):
        count = min(step, episodes - start)
        random = chance.random_raw((count, ways * (1 + each)))
        who = draw_in_order(np.full(count, len(eligible)), random[:, :ways])  # (e, N)
        which = draw_in_order(
            sizes[eligible[who.ravel()]], random[:, ways:].reshape(count * ways, each)
        )
        rows = by_identity[starts[who][:, :, None] + which.reshape(count, ways, each)]
        people.append(who)
        answers.append(_answers(units, rows, shots, distinct[eligible[who]]))
    whose, right = np.concatenate(people), np.concatenate(answers)
    replicates = None
    if intervals:
        owners = groups_of(numbers, groups)
        owners = None if owners is None else owners[eligible]
        resampling = Resampling.of(distinct[eligible], owners, draws, seed)
        each_query = right.reshape(-1, queries)
        drawn = draw_means(each_query, whose.ravel(), resampling.of_identities).mean(axis=1)
        replicates = resampling.replicates({"accuracy": drawn})
    error = math.nan
    if episodes > 1:
        error = float(right.mean(axis=(1, 2)).std(ddof=1) / math.sqrt(episodes))
    return FewShot(
        accuracy=float(right.mean()),
        standard_error=error,
        ways=ways,
        shots=shots,
        queries=queries,
        episodes=episodes,
        identities=len(eligible),
        replicates=replicates,
    )


def _answers(
    units: npt.NDArray[np.float32], rows: Rows, shots: int, labels: npt.NDArray[Any]
) -> npt.NDArray[np.bool_]:
    """Whether each query is answered right, (e, N, Q), given the rows (e, N, K + Q)."""
    count, ways, each = rows.shape
    prototypes = units[rows[:, :, :shots]].mean(axis=2)  # (e, N, D)
    length = np.sqrt(np.einsum("end,end->en", prototypes, prototypes))
    if length.min() < 16 * np.finfo(np.float32).eps:
        label = labels.ravel()[int(np.argmin(length))]
        raise InputError(
            f"the support samples of class {label} cancel out in an episode, so that their mean"
            " has no direction; expected classes that do not surround the origin"
        )
    prototypes /= length[:, :, None]
    queries = units[rows[:, :, shots:].reshape(count, -1)]
    cosines = round_cosines(queries @ prototypes.transpose(0, 2, 1))  # (e, N·Q, N)
    cosines = cosines.reshape(count, ways, each - shots, ways)
    own = cosines[:, np.arange(ways), :, np.arange(ways)].transpose(1, 0, 2)  # (e, N, Q)
    answers: npt.NDArray[np.bool_] = (cosines >= own[..., None]).sum(axis=3) == 1
    return answers
