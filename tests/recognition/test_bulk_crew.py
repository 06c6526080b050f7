"""How processes find each other and share work; here as threads with a store in memory.

Goes with that protocol: what it does for users is in `test_bulk_processes`.
"""

from concurrent.futures import ThreadPoolExecutor

import pytest
from torch.distributed import HashStore

from arcset import OptionError, RunError
from arcset.recognition.bulk.crew import Crew, SaidByChiefError, join_crew, meet


def together(store, count, work):
    """What `work` gives each of so many members of a crew."""
    with ThreadPoolExecutor(count) as pool:
        members = [pool.submit(meet, store, rank, count) for rank in range(count)]
        return list(pool.map(work, [member.result() for member in members]))


def test_numbers_go_to_one_each_also_in_a_store_that_others_have_used():
    """As after a restart with fewer processes, which the store knows nothing of."""
    store = HashStore()

    def work(crew):
        found = []
        for job in range(2):  # one after the other, by the same crew
            assert crew.shared(lambda: {"job": job}) == {"job": job}  # noqa: B023
            mine = []
            for number in crew.numbers(100):
                mine.append(number)
                crew.told(1)
            found.append(crew.gathered(mine, lambda done: None))
        return found

    for count in (2, 1):
        by_chief, *_ = together(store, count, work)
        for parts in by_chief:
            assert len(parts) == count
            assert sorted(number for part in parts for number in part) == list(range(100))


@pytest.mark.long
def test_a_process_that_is_gone_is_not_waited_for():
    """It had asked, and was replaced by another of its rank before anybody answered."""
    store = HashStore()
    store.set("arcset/embed/asks/1", '"somebody who was killed"')
    first, second = together(store, 2, lambda crew: crew.shared(lambda: crew.rank))
    assert (first, second) == (0, 0)


@pytest.mark.long
def test_what_the_chief_raises_ends_all():
    def work(crew):
        def fail():
            raise OptionError("this is wrong")

        try:
            crew.shared(fail)
        except (OptionError, SaidByChiefError) as error:
            return type(error), str(error)

    said = "this is wrong"
    assert together(HashStore(), 2, work) == [(OptionError, said), (SaidByChiefError, said)]


@pytest.mark.long
def test_somebody_who_never_comes(monkeypatch):
    monkeypatch.setattr("arcset.recognition.bulk.crew._PATIENCE", 0.2)
    with pytest.raises(RunError, match="2"):
        meet(HashStore(), 0, 2)
    with pytest.raises(RunError, match="2"):
        meet(HashStore(), 1, 2)


@pytest.mark.long
def test_somebody_who_is_gone_without_a_word(monkeypatch):
    """As a machine without power: nobody tells the chief, who would wait for ever."""
    monkeypatch.setattr("arcset.recognition.bulk.crew._SILENCE", 0.3)
    store = HashStore()

    def work(crew):
        crew.shared(lambda: None)
        return crew.gathered("mine", lambda done: None) if crew.chief else None

    with pytest.raises(RunError, match="1 of 2"):
        together(store, 2, work)


@pytest.mark.parametrize(
    "words", [{"WORLD_SIZE": "two"}, {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}]
)
def test_an_environment_that_nobody_can_meet_in(monkeypatch, words):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in words.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(RunError):
        join_crew()


@pytest.mark.long
def test_whose_parent_is_gone_ends(monkeypatch):
    crew = meet(HashStore(), 0, 1)
    crew.check()
    monkeypatch.setattr("os.getppid", lambda: 1)
    with pytest.raises(RunError):
        crew.told(1)


def test_alone(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    crew = join_crew()
    assert type(crew) is Crew
    assert (crew.chief, list(crew.numbers(3)), crew.told(2), crew.told(3)) == (
        True,
        [0, 1, 2],
        2,
        5,
    )
    assert crew.shared(lambda: "x") == "x"
    assert crew.told(1) == 1
    assert crew.gathered(7, lambda done: None) == [7]
