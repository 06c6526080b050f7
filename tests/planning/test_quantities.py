"""Numbers as people write them."""

import pytest

from arcset import OptionError
from arcset.planning import parse_number, show_bytes, show_count, show_seconds


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("1,000,000", 10**6),
        ("1_000", 1000),
        ("500k", 500_000),
        ("100M", 10**8),
        ("100m", 10**8),
        ("1.5G", 1_500_000_000),
        ("1e6", 10**6),
        ("2T", 2 * 10**12),
        ("32GB", 32 * 10**9),
        ("24GiB", 24 * 2**30),
        ("24 Gi", 24 * 2**30),
        ("0.5KiB", 512),
        ("100Gbit", 12_500_000_000),
        (" 3k ", 3000),
    ],
)
def test_read(text, value):
    assert parse_number(text, "x") == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "k",
        "ten",
        "-5",
        "0",
        "0.5",
        "1.2345k5",
        "1..5G",
        "1,5G",
        "1,0000",
        "1 G 2",
        "5x",
        "iB",
        "5i",
        "nan",
        "inf",
    ],
)
def test_refused_in_one_sentence(text):
    with pytest.raises(OptionError, match=r"^--classes") as raised:
        parse_number(text, "--classes")
    assert "\n" not in str(raised.value)


def test_too_many():
    with pytest.raises(OptionError, match="classes"):
        parse_number("9" * 30, "classes")


def test_a_lone_b_is_asked_about():
    with pytest.raises(OptionError, match="1G"):
        parse_number("1B", "classes")


def test_shown():
    assert show_bytes(1024**2 - 1) == "1.0 MiB"
    assert show_bytes(1000) == "1000 B"
    assert show_bytes(5.5 * 2**40) == "5.5 TiB"
    assert show_bytes(3 * 2**60) == "3.0 EiB"
    assert show_count(9_999) == "9,999"
    assert show_count(10**20) == "100 E"
    assert show_count(999_999_999) == "1 G"
    assert show_seconds(1603.8) == "1,603.8 s"
    assert show_seconds(0.004) == "4.0 ms"
