"""Times in S3's answers: read quickly, and as botocore reads them."""

import math
import threading
from datetime import UTC, datetime

import botocore.parsers
import botocore.utils
import pytest
from botocore.utils import parse_timestamp
from hypothesis import given
from hypothesis import strategies as st

from blizzard.storage.s3 import S3Settings, S3Store
from blizzard.storage.s3_connection import parse_aws_timestamp
from tests.fixtures_s3 import BUCKET

_TIMES = st.integers(86_400, 2**31 - 1).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))
_FORMS = (
    "%Y-%m-%dT%H:%M:%S.000Z",
    "%Y-%m-%dT%H:%M:%S.%fZ",
    "%Y-%m-%dT%H:%M:%SZ",
    "%Y-%m-%dT%H:%M:%S+00:00",
    "%Y-%m-%dT%H:%M:%S",
    "%Y%m%dT%H%M%SZ",
    "%a, %d %b %Y %H:%M:%S GMT",
    "%s",
    "%Y%m%d",
)


@given(time=_TIMES, form=st.sampled_from(_FORMS))
def test_a_time_is_parsed_as_botocore_parses_it(time: datetime, form: str) -> None:
    text = time.strftime(form)

    assert parse_aws_timestamp(text) == parse_timestamp(text)


@given(st.integers(0, 2**31 - 1) | st.floats(0, 2**31 - 1).filter(math.isfinite))
def test_seconds_since_1970_are_parsed_as_botocore_parses_them(value: float) -> None:
    assert parse_aws_timestamp(value) == parse_timestamp(value)


@pytest.mark.parametrize("text", ["", "Z", "TZ", "yesterday", "2026-13-01T00:00:00Z", "2026-11-22T25:00:00.000Z"])
def test_malformed_times_are_refused_as_botocore_refuses_them(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_timestamp(text)
    with pytest.raises(ValueError, match=r"."):
        parse_aws_timestamp(text)


def test_a_listing_does_not_use_botocores_slow_parser(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = S3Store(BUCKET, "times/", S3Settings(s3_endpoint, "us-east-1", page_size=7))
    put = {key: store.put(key, b"x").modified_ts for key in ("a", "b", "c")}
    slow: list[object] = []

    def counted(value: object) -> datetime:
        # The server reads times, too, in threads of its own.
        if threading.current_thread() is threading.main_thread():
            slow.append(value)
        return datetime.now(UTC)

    monkeypatch.setattr(botocore.utils, "parse_timestamp", counted)
    monkeypatch.setattr(botocore.parsers, "DEFAULT_TIMESTAMP_PARSER", counted)
    fresh = S3Store(BUCKET, "times/", S3Settings(s3_endpoint, "us-east-1", page_size=8))

    listed = {info.key: info.modified_ts for info in fresh.list()}

    assert listed == pytest.approx(put, abs=2)
    assert slow == []
