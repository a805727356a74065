"""Test what a run shows live: on a pseudo-terminal, in a log, with --quiet, and to Prometheus."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.support.commands import archiver, hear_ctrl_c
from tests.support.runs import TINY
from tests.support.waiting import wait_until

# Archive and retrieve repeatedly, long enough for live figures in each phase. The tests end the run.
ENDLESS = (
    "--quick", "--set", "object_sizes=8KiB", "--set", "objects_per_session=2", "--set", "clients=2",
    "--set", "stop.warm_up_seconds=20ms", "--set", "stop.seconds_min=2500ms",
    "--set", "stop.client_bytes_max=24MB", "--repeat", "33",
)  # fmt: skip
ROOT = Path(__file__).parents[4]
# Gauges that may have no value in a short run on a small machine.
MAYBE_UNKNOWN = {
    "archiver_run_left_seconds", "archiver_server_cpu_cores", "archiver_server_host_cpu_ratio",
    "archiver_server_disk_busy_ratio",
}  # fmt: skip
GAUGES = (
    "archiver_objects_per_second", "archiver_bytes_per_second", "archiver_object_service_p50_seconds",
    "archiver_object_service_p99_seconds", "archiver_server_host_cpu_ratio",
)  # fmt: skip
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
LINE = re.compile(
    r"phase \d+/132 (archive|retrieve) 8KiB x 2, 2 clients( \(drift check\))?: [\d,.]+ objects/s, [\d,.]+ MB/s, "
    r"p99 [\d,.]+ ms, 0 errors(, (server|host) cpu \d+%)?"
)


@dataclass(frozen=True, slots=True)
class Shown:
    """The output of a run on its terminal, and on a stdout that is not a terminal."""

    status: int
    terminal: str
    stdout: str

    @property
    def frames(self) -> list[list[str]]:
        """Return the lines of each table that was drawn."""
        return frames(self.terminal)


def frames(text: str) -> list[list[str]]:
    drawn = text.partition(HIDE_CURSOR)[2].partition(SHOW_CURSOR)[0]
    tables = re.split(r"(?:\x1b\[1A\x1b\[2K)+", drawn)
    return [[line.rstrip("\r") for line in ESCAPES.sub("", table).strip("\r\n").split("\n")] for table in tables]


Step = tuple[str, Callable[[int, int], object]]


def on_terminal(folder: Path, arguments: tuple[str, ...], steps: list[Step]) -> Shown:
    """Run a command whose stderr is a pseudo-terminal of 80 columns.

    Each step waits until its pattern is in the newest whole table, and then acts on the process or the terminal.
    """
    ours, theirs = pty.openpty()
    resize(ours, 80)
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    with open(folder / "stdout", "wb") as stdout:
        process = subprocess.Popen(
            [sys.executable, "-m", "archiver", *arguments], stdin=subprocess.DEVNULL, stdout=stdout, stderr=theirs,
            start_new_session=True, preexec_fn=hear_ctrl_c, env={**environment, "TERM": "xterm-256color"},
        )  # fmt: skip
    os.close(theirs)
    written, left = b"", list(steps)
    try:
        for chunk in _chunks(ours):
            written += chunk
            tables = frames(written.decode(errors="replace"))[:-1]  # the last may be incomplete
            if left and tables and re.search(left[0][0], "\n".join(tables[-1])):
                left.pop(0)[1](process.pid, ours)
        status = process.wait(60)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert not left, f"never shown: {left[0][0]}"
    return Shown(status, written.decode(), (folder / "stdout").read_text())


def _chunks(descriptor: int) -> Iterator[bytes]:
    while True:
        try:
            yield os.read(descriptor, 65536)
        except OSError:  # every process has closed the terminal
            return


def resize(terminal: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


def interrupt(process: int, terminal: int = -1) -> None:
    os.killpg(process, signal.SIGINT)  # to the whole group, as a terminal does


# Rates, latency, errors and the server's resources.
ROW = r"(archive|retrieve) 8KiB x 2 +2 +[\d,.]+ +[\d.]+ +[\d.]+ +[\d.]+ +0 +(\d+%|-) +(\d+%|-)"
NARROW_ROW = r"\n(archive|retrieve) 8KiB x 2 +[\d,.]+ +[\d.]+ +[\d.]+\n"


def test_terminal_table_follows_width_and_is_removed_on_ctrl_c(home: Path, tmp_path: Path) -> None:
    steps: list[Step] = [
        (f"(?s)phase \\d+/132.*\n{ROW}.*objects/s, up to", lambda _, terminal: resize(terminal, 44)),
        (f"(?s)phase ([2-9]|\\d\\d+)/132.*{NARROW_ROW}", interrupt),
    ]
    done = on_terminal(tmp_path, ("run", "dr550", *ENDLESS, "--json"), steps)
    assert done.status == 130
    assert json.loads(done.stdout)["results"]  # stdout has nothing but the document
    assert max(len(line) for lines in done.frames for line in lines) <= 80
    is_narrow = [re.search(NARROW_ROW, "\n".join(lines)) is not None for lines in done.frames]
    after_resizing = done.frames[is_narrow.index(True) :]
    assert max(len(line) for lines in after_resizing for line in lines) <= 44
    before, _, after = done.terminal.rpartition(SHOW_CURSOR)
    assert HIDE_CURSOR in before
    assert HIDE_CURSOR not in after
    # The last table is removed before the message.
    assert re.match(r"[\r\n]*(\x1b\[1A\x1b\[2K)+archiver: interrupted; what finished is in ", after)
    assert "Traceback" not in done.terminal


def test_log_gets_progress_lines_without_escape_sequences(home: Path) -> None:
    often = "import archiver.cli.live.progress as p; p.LINE_SECONDS_MIN = 0.5; from archiver.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", often, "run", "dr550", *ENDLESS], start_new_session=True, preexec_fn=hear_ctrl_c,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        assert "\x1b" not in line
        if line.startswith("phase"):
            lines.append(line)
        if len(lines) == 3:
            break
    interrupt(process.pid)
    stdout, _ = process.communicate(timeout=60)
    assert [line for line in lines if not LINE.fullmatch(line.rstrip("\n"))] == []
    assert lines
    assert "phase 1/132" not in stdout


def test_prometheus_scrapes_metrics_during_a_quiet_run(home: Path) -> None:
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "archiver", "run", "dr550", *ENDLESS, "--quiet", "--metrics-port", str(port)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=hear_ctrl_c,
    )  # fmt: skip
    pages: list[str] = []
    families: list[dict[str, Metric]] = []

    def phases() -> set[float | None]:
        return {value(page, "archiver_phase") for page in families} - {None}

    def has_been(gauge: str) -> bool:
        return any((value(page, gauge) or 0) > 0 for page in families)

    def two_phases_and_all_gauges() -> bool:
        time.sleep(0.1)
        page = scrape(port)
        if page is not None:
            pages.append(page)
            families.append({family.name: family for family in text_string_to_metric_families(page)})
        return len(phases()) >= 2 and all(map(has_been, GAUGES))

    wait_until(lambda: process.poll() is not None or two_phases_and_all_gauges(), "second phase and all gauges")
    interrupt(process.pid)
    stdout, stderr = process.communicate(timeout=60)
    assert stdout == ""
    assert [line for line in stderr.splitlines() if "interrupted" not in line and "archiver resume" not in line] == []
    assert scrape(port) is None  # the server ends with the run
    for by_name in families:
        assert all(family.documentation for family in by_name.values())
        assert {family.type for family in by_name.values()} == {"counter", "gauge", "histogram"}
        labels = {
            tuple(sorted((name, value) for name, value in sample.labels.items() if name != "le"))
            for family in by_name.values()
            for sample in family.samples
        }
        assert labels <= {
            (), (("platform", "embedded"),),
            (("operation", "archive"), ("platform", "embedded")),
            (("operation", "retrieve"), ("platform", "embedded")),
        }  # fmt: skip
    archived = [value(page, "archiver_objects", "archive") for page in families]
    known = [count for count in archived if count is not None]
    assert known == sorted(known)
    assert known[-1] > 0
    assert value(families[-1], "archiver_bytes", "archive") == known[-1] * 8192
    assert value(families[-1], "archiver_errors", "archive") == 0
    buckets = [
        sample
        for sample in families[-1]["archiver_object_service_seconds"].samples
        if sample.labels["operation"] == "archive"
    ]
    counts = [sample.value for sample in buckets if sample.name.endswith("_bucket")]
    assert counts == sorted(counts), "buckets are cumulative"
    assert counts[-1] == known[-1], "every object is in the last bucket"
    (seconds,) = [sample.value for sample in buckets if sample.name.endswith("_sum")]
    assert 0 < seconds < 120
    dashboard = json.loads((ROOT / "docs/grafana-dashboard.json").read_text())
    queries = " ".join(target["expr"] for panel in dashboard["panels"] for target in panel["targets"])
    served = {sample.name for page in families for family in page.values() for sample in family.samples}
    assert set(re.findall(r"archiver_\w+", queries)) - served <= MAYBE_UNKNOWN
    assert [gauge for gauge in GAUGES if not has_been(gauge)] == []
    assert {value(page, "archiver_phase_clients") for page in families} <= {None, 2}
    assert len(phases()) >= 2
    for name, credential in json.loads((home / "store" / "credentials.json").read_text()).items():
        assert not any(secret in page for page in pages for secret in _texts(credential)), name


def test_metrics_port_in_use_is_refused_before_the_run(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = archiver("run", "dr550", *TINY, "--quiet", "--metrics-port", str(port))
    assert done.returncode == 2
    assert done.stderr == (
        f"archiver: --metrics-port {port}: cannot listen on 127.0.0.1:{port} (Address already in use); choose another "
        "port\n"
    )
    assert not (home / "store").exists()
    assert not (home / "runs").exists()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def scrape(port: int) -> str | None:
    """Return the metrics page, or None if no server answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text: str = answer.read().decode()
            return text
    except (urllib.error.URLError, ConnectionError):
        return None


def value(page: dict[str, Metric], name: str, operation: str | None = None) -> float | None:
    for sample in page[name].samples if name in page else ():
        if operation is None or sample.labels["operation"] == operation:
            return sample.value
    return None


def _texts(found: object) -> Iterator[str]:
    """Yield every text of at least 8 characters in a JSON document."""
    if isinstance(found, str) and len(found) >= 8:
        yield found
    elif isinstance(found, dict | list):
        for each in found.values() if isinstance(found, dict) else found:
            yield from _texts(each)
