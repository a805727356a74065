"""Parsing of request parameters, numbers and ranges."""

from __future__ import annotations

import pytest

from backends.embedded.s3.calls import conditions
from backends.embedded.s3.errors import S3Error, number_in, plain_number
from backends.embedded.s3.requests.request import byte_range, parse_query
from backends.embedded.s3.xml import parse_completion


def test_parameter_with_two_values_is_refused() -> None:
    """Signatures sort parameters, so their order can be changed on the way unnoticed."""
    with pytest.raises(S3Error, match="the parameter 'versionId' comes twice") as refused:
        parse_query("versionId=1&x=&versionId=2")
    assert refused.value.code == "InvalidArgument"
    assert parse_query("a=1&b=+x%2B&a=1") == {"a": "1", "b": " x+"}


@pytest.mark.parametrize("text", ["", "-1", "+1", "1.0", " 1", "٣", "²", "1" * 20, "9" * 5000, "0x1"])
def test_text_that_is_no_short_ascii_number_is_rejected(text: str) -> None:
    assert plain_number(text) is None


@pytest.mark.parametrize("number", ["9" * 5000, "٣", "-1", ""])
def test_part_number_that_is_no_number_is_malformed_xml(number: str) -> None:
    part = f"<Part><PartNumber>{number}</PartNumber><ETag>e</ETag></Part>"
    with pytest.raises(S3Error) as refused:
        parse_completion(f"<CompleteMultipartUpload>{part}</CompleteMultipartUpload>".encode())
    assert refused.value.code == "MalformedXML"


def test_number_outside_its_bounds_is_an_invalid_argument() -> None:
    assert [number_in(text, "n", "from 1 to 3", 1, 3) for text in "123"] == [1, 2, 3]
    for text in ("0", "4", "", "x", "9" * 5000):
        with pytest.raises(S3Error, match="from 1 to 3") as refused:
            number_in(text, "n", "from 1 to 3", 1, 3)
        assert refused.value.code == "InvalidArgument"
        assert refused.value.details == {"ArgumentName": "n", "ArgumentValue": text}


def test_range_with_too_many_or_non_ascii_digits_is_ignored() -> None:
    assert byte_range(f"bytes=0-{'9' * 5000}", 10) == (0, 10, 200)
    assert byte_range(f"bytes=0-{'9' * 18}", 10) == (0, 10, 206)
    assert byte_range("bytes=٣-٤", 10) == (0, 10, 200)


@pytest.mark.parametrize("text", ["yesterday", "Sat, 21 Nov 2026 18:00:00 +99999999999999999999"])
def test_condition_on_an_invalid_date_is_no_condition(text: str) -> None:
    assert conditions._date(text) is None
