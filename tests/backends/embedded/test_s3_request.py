"""Parsing of request parameters, numbers and ranges."""

from __future__ import annotations

import pytest

from backends.embedded.s3.errors import S3Error, plain_number
from backends.embedded.s3.requests.request import byte_range, parse_query


def test_parameter_with_two_values_is_refused() -> None:
    """Signatures sort parameters, so their order can be changed on the way unnoticed."""
    with pytest.raises(S3Error, match="the parameter 'versionId' comes twice") as refused:
        parse_query("versionId=1&x=&versionId=2")
    assert refused.value.code == "InvalidArgument"
    assert parse_query("a=1&b=+x%2B&a=1") == {"a": "1", "b": " x+"}


@pytest.mark.parametrize("text", ["", "-1", "+1", "1.0", " 1", "٣", "²", "1" * 20, "9" * 5000, "0x1"])
def test_text_that_is_no_short_ascii_number_is_rejected(text: str) -> None:
    assert plain_number(text) is None


def test_range_with_too_many_or_non_ascii_digits_is_ignored() -> None:
    assert byte_range(f"bytes=0-{'9' * 5000}", 10) == (0, 10, 200)
    assert byte_range(f"bytes=0-{'9' * 18}", 10) == (0, 10, 206)
    assert byte_range("bytes=٣-٤", 10) == (0, 10, 200)
