import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcset.data import Dataset, ImageSet, load_dataset, parse_classes, select
from arcset.errors import OptionError

DIGITS = tuple("0123456789")


def _dataset(classes: int) -> Dataset:
    """Every pixel of an image is the number of its class, so that no relabelling can hide it."""

    def part(each: int) -> ImageSet:
        labels = np.random.default_rng(each).permutation(np.repeat(np.arange(classes), each))
        images = np.broadcast_to(labels[:, None, None], (len(labels), 2, 2)).astype(np.uint8)
        return ImageSet(images, labels, tuple(str(label) for label in range(classes)))

    return Dataset("made", part(3), part(2), "free")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("0-4", "01234"),
        ("0,2,5-7", "02567"),
        (" 9 , 0 - 1 ", "019"),
        ("7,3", "37"),
        ("4-4,5", "45"),
        ("00-02", "012"),
        ("0-9", "0123456789"),
    ],
)
def test_lists_and_ranges(text: str, names: str) -> None:
    assert parse_classes(text, DIGITS) == tuple(names)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "classes '' have an empty place"),
        (" ", "empty place"),
        ("0,,1", "classes '0,,1' have an empty place"),
        ("0,1,", "empty place"),
        ("4-0", "the range '4-0' in classes '4-0' runs backwards; write 0-4"),
        ("0-4,3", "classes '0-4,3' name '3' more than once"),
        ("1,1", "name '1' more than once"),
        ("0,10", "no class is called '10'"),
        ("5-12", "no class is called '12'"),
        ("0-99999999999999999999", "no class is called '99999999999999999999'"),
        ("cat", "no class is called 'cat'; known: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9"),
        ("0-", "no class is called '0-'"),
        ("-1", "no class is called '-1'"),
        ("1-2-3", "no class is called '1-2-3'"),
        ("0.5", "no class is called '0.5'"),
    ],
)
def test_bad_lists_are_refused_in_the_words_of_the_user(text: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_classes(text, DIGITS)


def test_a_name_with_a_hyphen_is_no_range() -> None:
    assert parse_classes("1-2,x-y", ["x-y", "1", "1-2"]) == ("x-y", "1-2")


def test_a_range_over_a_gap_names_what_is_missing() -> None:
    with pytest.raises(OptionError, match="no class is called '2'"):
        parse_classes("1-3", ["1", "3"])


@given(st.data())
def test_no_unseen_class_ever_gets_into_training_or_test(data: st.DataObject) -> None:
    dataset = _dataset(data.draw(st.integers(2, 12), label="classes"))
    names = dataset.class_names
    known = data.draw(st.lists(st.sampled_from(names), min_size=2, unique=True), label="known")
    selection = select(dataset, ",".join(known))

    assert selection.name == "made"
    for kept, whole in ((selection.train, dataset.train), (selection.test, dataset.test)):
        assert kept.class_names == tuple(name for name in names if name in known)
        _agrees(kept, whole)
    if selection.unseen is None:
        assert set(known) == set(names)
    else:
        assert selection.unseen.class_names == tuple(name for name in names if name not in known)
        _agrees(selection.unseen, dataset.test)


def _agrees(kept: ImageSet, whole: ImageSet) -> None:
    """`kept` holds the images of its classes in `whole`, all of them, in order, named rightly."""
    expected = [pixels for pixels in whole.images if str(pixels[0, 0]) in kept.class_names]
    np.testing.assert_array_equal(kept.images, expected)
    shown = [str(pixels[0, 0]) for pixels in kept.images]
    assert [kept.class_names[label] for label in kept.labels] == shown
    assert set(kept.labels.tolist()) == set(range(len(kept.class_names)))


def test_all_classes_leave_none_unseen() -> None:
    dataset = _dataset(4)
    for classes in (None, "0-3"):
        selection = select(dataset, classes)
        assert selection.unseen is None
        np.testing.assert_array_equal(selection.train.labels, dataset.train.labels)
        np.testing.assert_array_equal(selection.test.images, dataset.test.images)


@pytest.mark.parametrize(("classes", "shown"), [("3", "'3'"), (None, "'all'")])
def test_one_class_is_not_enough(classes: str | None, shown: str) -> None:
    with pytest.raises(OptionError, match=f"at least two known classes.*{shown}"):
        select(_dataset(1 if classes is None else 4), classes)


def test_the_shipped_digits_split_in_halves() -> None:
    selection = select(load_dataset("mnist-sample"), "5-9")
    assert selection.unseen is not None
    assert selection.unseen.class_names == tuple("01234")
    counts = [np.bincount(part.labels) for part in (selection.train, selection.test)]
    assert [count.tolist() for count in counts] == [[400] * 5, [100] * 5]
