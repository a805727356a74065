"""Test generated traces: they follow the model, request only existing objects, and are reproducible."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from archiver.cli import main
from archiver.traces.format import Origin, Trace, TracedOperation, numbers_of
from archiver.traces.generating import SETTLED_SECONDS, Stock, generate
from archiver.traces.summary import Unwritten, summarise
from archiver.values.errors import UsageError
from scenarios.notation.distribution import Sizes
from scenarios.work.application_model import ApplicationModel
from tests.archiver.traces.made import read

SIZES = Sizes.of([(8 << 10, 6), (64 << 10, 3), (1 << 20, 1)])
MODEL = ApplicationModel(
    streams=8,
    per_second=50.0,
    busy_share=0.4,
    busy_seconds=3.0,
    objects_per_session=6.0,
    gap_seconds=0.005,
    operations=(
        ("archive", 0.25), ("new-version", 0.05), ("retrieve", 0.4), ("range-retrieve", 0.15), ("head", 0.1),
        ("query", 0.05),
    ),
    sizes=SIZES,
    zipf_exponent=0.9,
    recent_share=0.4,
    range_bytes=20_000,
)  # fmt: skip
STEADY = replace(MODEL, busy_share=1.0, busy_seconds=0.0, objects_per_session=1.0, gap_seconds=0.0)
LIES_THERE_BYTES = 100_000_000


def made(
    folder: Path,
    model: ApplicationModel = MODEL,
    *,
    name: str = "mail server",
    seconds: float = 120.0,
    lies_there_bytes: int = LIES_THERE_BYTES,
    seed: int = 0,
) -> Path:
    out = folder / "made.parquet"
    generate(out, model, name=name, seconds=seconds, lies_there_bytes=lies_there_bytes, seed=seed, overwrite=True)
    return out


def is_stock(row: TracedOperation) -> bool:
    return (row.key or "").startswith("mail-server/stock/")


def test_same_seed_makes_the_same_bytes_and_another_seed_another_trace(tmp_path: Path) -> None:
    first = made(tmp_path).read_bytes()
    assert made(tmp_path).read_bytes() == first
    times = [row.due_ns for row in read(made(tmp_path))]
    assert [row.due_ns for row in read(made(tmp_path, seed=1))] != times
    assert [row.due_ns for row in read(made(tmp_path, name="web"))] != times


def test_longer_trace_begins_with_the_shorter_one(tmp_path: Path) -> None:
    short = read(made(tmp_path, seconds=20.0))
    longer = read(made(tmp_path, seconds=2000.0))  # several blocks of rows
    assert len(longer) > 65_536
    assert longer[: len(short)] == short


def test_made_trace_names_its_model_and_has_no_measured_times(tmp_path: Path) -> None:
    path = made(tmp_path, seconds=20.0)
    info = Trace.open(path).info
    assert info.origins == (Origin("model", "mail server"),)
    assert info.rises
    for row in read(path):
        assert (row.sent_ns, row.first_byte_ns, row.done_ns, row.source) == (None, None, None, None)
        assert (row.retention_mode, row.retain_for_seconds, row.legal_hold) == (None, None, None)
        assert (row.endpoint, row.status, row.attempts) == (0, 0, 1)
        assert 0 <= row.due_ns < 20 * 10**9


def test_operations_have_the_rate_and_shares_of_the_model(tmp_path: Path) -> None:
    rows = read(made(tmp_path, STEADY, seconds=2000.0))
    assert len(rows) == pytest.approx(100_000, rel=6 / 100_000**0.5)
    counts = Counter(row.operation for row in rows)
    for label, share in MODEL.operations:
        assert counts[label] / len(rows) == pytest.approx(share, abs=6 * (share / len(rows)) ** 0.5), label
    of_streams = Counter(row.client for row in rows)
    assert sorted(of_streams) == list(range(8))
    assert min(of_streams.values()) > 0.9 * len(rows) / 8


def test_bursts_keep_the_mean_rate_with_quiet_times_between(tmp_path: Path) -> None:
    def per_half_second(model: ApplicationModel) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        batches = Trace.open(made(tmp_path, model, seconds=3000.0)).batches(["due_ns"])
        due_ns = np.concatenate([numbers_of(batch, "due_ns") for batch in batches])
        counts: np.ndarray[tuple[int], np.dtype[np.int64]] = np.bincount(due_ns // (500 * 10**6), minlength=6000)
        return counts

    steady, bursts = per_half_second(STEADY), per_half_second(MODEL)
    assert bursts.sum() == pytest.approx(150_000, rel=0.15)  # 400 busy periods of exponential length
    assert (steady == 0).mean() < 0.01
    assert (bursts == 0).mean() == pytest.approx(0.6 * np.exp(-0.5 / 4.5), abs=0.08)  # quiet for the whole half second
    assert bursts.std() / bursts.mean() > 3 * steady.std() / steady.mean()


def test_traces_begin_quiet_with_the_probability_of_the_model(tmp_path: Path) -> None:
    model = replace(STEADY, busy_share=0.25, busy_seconds=1000.0)
    quiet = sum(len(read(made(tmp_path, model, seconds=1.0, seed=seed))) == 1 for seed in range(40))
    assert 20 <= quiet < 40


def test_sessions_are_groups_of_one_stream_with_silence_between(tmp_path: Path) -> None:
    model = replace(MODEL, busy_share=1.0, busy_seconds=0.0)
    rows = read(made(tmp_path, model, seconds=1000.0))
    latest: dict[int, TracedOperation] = {}
    within: list[float] = []
    between: list[float] = []
    for row in rows:
        before = latest.get(row.client)
        if before is None:
            assert row.session == 0
        else:
            assert row.session - before.session in (0, 1)
            (within if row.session == before.session else between).append((row.due_ns - before.due_ns) / 1e9)
        latest[row.client] = row
    assert len(rows) / (len(between) + 8) == pytest.approx(6, rel=0.05)
    assert np.mean(within) == pytest.approx(model.gap_seconds, rel=0.05)
    assert np.mean(between) == pytest.approx(model.silence_seconds, rel=0.05)


def test_a_quiet_time_ends_sessions(tmp_path: Path) -> None:
    model = replace(MODEL, busy_share=0.1, busy_seconds=0.5)
    latest: dict[int, TracedOperation] = {}
    for row in read(made(tmp_path, model, seconds=300.0)):
        before = latest.get(row.client)
        if before is not None and row.session == before.session:
            assert row.due_ns - before.due_ns < 0.1 * 1e9
        latest[row.client] = row


def test_made_trace_requests_only_stock_or_earlier_archived_objects(tmp_path: Path) -> None:
    path = made(tmp_path, seconds=2000.0)
    archived_ns: dict[str, int] = {}
    recent = stock = 0
    for row in read(path):
        key = row.key or ""
        if row.operation == "archive":
            assert key not in archived_ns
            assert key.startswith("mail-server/new/")
            archived_ns[key] = row.due_ns
        elif is_stock(row):
            assert row.operation != "new-version"
            stock += 1
        else:
            assert row.due_ns - archived_ns[key] >= SETTLED_SECONDS * 1e9
            recent += row.operation != "new-version"
    assert recent / (recent + stock) == pytest.approx(MODEL.recent_share, abs=0.02)
    finds = Unwritten()
    needed = [key for batch in Trace.open(path).batches() for key, _ in finds.of(batch)]
    assert needed
    assert all(key.startswith("mail-server/stock/") for key in needed)


def test_only_archives_occur_until_an_object_can_be_replaced(tmp_path: Path) -> None:
    model = replace(STEADY, operations=(("archive", 0.01), ("new-version", 0.99)), recent_share=0.0, range_bytes=None)
    rows = read(made(tmp_path, model, seconds=20.0))
    assert {row.operation for row in rows if row.due_ns < SETTLED_SECONDS * 1e9} == {"archive"}
    assert Counter(row.operation for row in rows)["new-version"] > len(rows) / 2


@pytest.mark.parametrize("lies_there_bytes", [8192, 10_000, 80_000, 2_000_000, 30_000_001])
def test_stock_fits_the_capacity_and_follows_the_size_shares(tmp_path: Path, lies_there_bytes: int) -> None:
    model = replace(STEADY, zipf_exponent=0.0, recent_share=0.0)
    rows = read(made(tmp_path, model, seconds=600.0, lies_there_bytes=lies_there_bytes))
    sizes = {row.key: row.size_bytes or 0 for row in rows if is_stock(row)}
    assert 0 < sum(sizes.values()) <= lies_there_bytes
    if lies_there_bytes > 10 * SIZES.largest:
        assert sum(sizes.values()) > 0.95 * (lies_there_bytes - SIZES.largest)
        found = Counter(sizes.values())
        for size, share in SIZES.classes:
            assert found[size] / len(sizes) == pytest.approx(share, abs=0.02)


def test_each_object_has_one_size_and_ranges_lie_within_it(tmp_path: Path) -> None:
    sizes: dict[str | None, int | None] = {}
    for row in read(made(tmp_path)):
        assert sizes.setdefault(row.key, row.size_bytes) == row.size_bytes
        if row.operation == "range-retrieve":
            assert row.offset is not None
            assert row.length is not None
            assert row.size_bytes is not None
            assert row.offset % 20_000 == 0
            assert row.length == min(20_000, row.size_bytes - row.offset) > 0
        else:
            assert (row.offset, row.length) == (None, None)


@pytest.mark.parametrize("exponent", [0.0, 0.8, 1.0, 1.5])
def test_object_popularity_follows_the_zipf_exponent(tmp_path: Path, exponent: float) -> None:
    model = replace(STEADY, zipf_exponent=exponent, recent_share=0.0, sizes=Sizes.constant(10_000))
    rows = read(made(tmp_path, model, seconds=1000.0, lies_there_bytes=1_000_000))
    counts = Counter(row.key for row in rows if is_stock(row))
    reads = counts.total()
    ranks = np.arange(1, 101) ** -exponent
    expected = np.cumsum(ranks / ranks.sum())
    found = np.cumsum([count for _, count in counts.most_common()]) / reads
    # If all objects have the same popularity, some are read more often by chance.
    assert found[9] == pytest.approx(expected[9], rel=0.15)
    assert found[0] == pytest.approx(expected[0], rel=0.15 if exponent else 0.4)


def test_recently_archived_objects_are_read_most_often(tmp_path: Path) -> None:
    model = replace(STEADY, operations=(("archive", 0.5), ("retrieve", 0.5)), recent_share=1.0, range_bytes=None)
    archived: list[int] = []
    ages = []
    for row in read(made(tmp_path, model, seconds=1500.0)):  # several blocks of rows
        number = int((row.key or "").rpartition("/")[2])
        if row.operation == "archive":
            archived.append(row.due_ns)
        elif not is_stock(row):
            ages.append(bisect_right(archived, row.due_ns - SETTLED_SECONDS * 1e9) - 1 - number)
    assert min(ages) == 0
    assert np.median(ages) < len(archived) / 20


def test_a_trace_is_never_empty(tmp_path: Path) -> None:
    model = replace(STEADY, streams=1, per_second=1e-6)
    (row,) = read(made(tmp_path, model, seconds=10.0))
    assert row.due_ns == 5 * 10**9


def test_application_name_with_any_characters_makes_valid_keys(tmp_path: Path) -> None:
    keys = {(row.key or "").partition("/")[0] for row in read(made(tmp_path, name="wéb / 1\n", seconds=5.0))}
    assert keys == {"w-b-1-"}
    assert {(row.key or "").partition("/")[0] for row in read(made(tmp_path, name="", seconds=5.0))} == {"application"}


def test_generated_trace_can_be_summarised(tmp_path: Path) -> None:
    summary = summarise(made(tmp_path))
    assert summary.streams == 8
    assert summary.kinds["retrieve"].unknown_sizes == 0
    assert summary.read_share() == pytest.approx(0.7, abs=0.03)


def test_impossible_trace_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"8\.2 kB; give it more capacity"):
        made(tmp_path, lies_there_bytes=8191)
    for seconds in (0.0, -1.0, float("nan"), 1e9):
        with pytest.raises(UsageError, match="cannot be made"):
            made(tmp_path, seconds=seconds)
    out = tmp_path / "there.parquet"
    out.write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        generate(out, MODEL, name="mail server", seconds=1.0, lies_there_bytes=LIES_THERE_BYTES, seed=0)
    assert [path.name for path in tmp_path.iterdir()] == ["there.parquet"]


def test_first_objects_of_stock_have_the_size_shares_of_all() -> None:
    many = Sizes.lognormal(20 << 10, 0.97, 1 << 20)
    assert Stock(many, 10**9).sizes_of(np.arange(8)).mean() == pytest.approx(many.mean, rel=0.35)
    stock = Stock(SIZES, 10**9)
    for first in (10, 50, 137):
        found = Counter(stock.sizes_of(np.arange(first)).tolist())
        for size, share in SIZES.classes:
            assert abs(found[size] - share * first) <= 2, (first, size)


SCENARIO = """
[[phase]]
seconds = "20s"
[[phase.replay]]
name = "mail server"
capacity = "100MB"
model = { streams = 2, per_second = 20, operations = { archive = 1, head = 1 }, sizes = "8KiB" }
"""


def ask(folder: Path, *words: str) -> Result:
    (folder / "sets.toml").write_text(SCENARIO)
    out, scenario = str(folder / "made.parquet"), str(folder / "sets.toml")
    return CliRunner().invoke(main, ["trace", "generate", out, "--scenario", scenario, "--application", *words])


def test_trace_generate_makes_the_trace_of_an_application(tmp_path: Path) -> None:
    done = ask(tmp_path, "mail server")
    assert done.exit_code == 0, done.output
    rows = read(tmp_path / "made.parquet")
    assert f"{len(rows)} operations, 2 streams" in done.output
    assert 15 < rows[-1].due_ns / 1e9 < 20  # the length of the phase
    assert ask(tmp_path, "mail server").exit_code == 2  # the file exists
    assert ask(tmp_path, "mail server", "--seconds", "5s", "--seed", "1", "--overwrite").exit_code == 0
    others = read(tmp_path / "made.parquet")
    assert others[-1].due_ns < 5e9
    assert others[0].due_ns != rows[0].due_ns
    assert ask(tmp_path, "mail server", "--capacity-scale", "0.0001", "--overwrite").exit_code == 0
    assert {row.key for row in read(tmp_path / "made.parquet") if is_stock(row)} == {"mail-server/stock/0000/000000"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["web"], "it has no application 'web'; it has mail server"),
        (["mail server", "--capacity-scale", "2"], "--capacity-scale 2: write a share above 0 and up to 1"),
        (["mail server", "--capacity-scale", "nan"], "--capacity-scale nan: write a share above 0"),
        (["mail server", "--capacity-scale", "1e-9"], "give it more capacity"),
        (["mail server", "--seconds", "0s"], "a trace of 0 s cannot be made"),
        (["mail server", "--scenario", "nowhere"], "no scenario 'nowhere'"),
    ],
)
def test_command_refuses_invalid_input_with_a_reason(tmp_path: Path, words: list[str], says: str) -> None:
    done = ask(tmp_path, *words)
    assert done.exit_code == 2
    assert says in done.output
    assert not (tmp_path / "made.parquet").exists()


def test_trace_generate_without_a_length_is_refused(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(SCENARIO.replace('seconds = "20s"', ""))
    done = ask(tmp_path, "mail server", "--scenario", str(tmp_path / "own.toml"))
    assert done.exit_code == 2
    assert "give --seconds" in done.output
