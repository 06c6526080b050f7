"""Many images decoded by threads come in order, with the errors of those that cannot be."""

import pytest

from arcset.data.decode import decode_many, in_chunks
from arcset.errors import DataError, InputError


def test_chunks_come_in_order_with_errors_in_place() -> None:
    def decode(number: int) -> str:
        if number == 3:
            raise DataError("3 is damaged")
        if number == 4:
            raise InputError("4 is no image")
        return str(number)

    found = list(decode_many(in_chunks(range(10), 4), decode))
    assert [len(chunk) for chunk in found] == [4, 4, 2]
    outcomes = [outcome for chunk in found for outcome in chunk]
    assert [number for number, _ in outcomes] == list(range(10))
    assert [type(outcome) for _, outcome in outcomes[2:6]] == [str, DataError, InputError, str]


def test_other_errors_are_raised() -> None:
    def decode(number: int) -> float:
        return 1 / number

    with pytest.raises(ZeroDivisionError):
        list(decode_many([[1, 0]], decode))
