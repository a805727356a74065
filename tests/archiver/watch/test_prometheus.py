"""Test the source `prometheus:URL`: names files, node_exporter's page in our quantities, and failing endpoints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from archiver.values.errors import UsageError
from archiver.watch.prometheus import PrometheusSource, builtin, read_names
from archiver.watch.source import WatchError
from results.recorded.resources import QUANTITIES
from tests.support.servers.scripted import Request, ScriptedServer, serve

# A shortened answer of node_exporter 1.9: two cores, a disk, and a virtual interface without a speed
NODE_EXPORTER = """\
# HELP node_cpu_guest_seconds_total Seconds the CPUs spent in guests (VMs) for each mode.
# TYPE node_cpu_guest_seconds_total counter
node_cpu_guest_seconds_total{cpu="0",mode="user"} 40
# HELP node_cpu_seconds_total Seconds the CPUs spent in each mode.
# TYPE node_cpu_seconds_total counter
node_cpu_seconds_total{cpu="0",mode="idle"} 1000.5
node_cpu_seconds_total{cpu="0",mode="iowait"} 3.25
node_cpu_seconds_total{cpu="0",mode="irq"} 1
node_cpu_seconds_total{cpu="0",mode="nice"} 0.5
node_cpu_seconds_total{cpu="0",mode="softirq"} 2
node_cpu_seconds_total{cpu="0",mode="steal"} 0.25
node_cpu_seconds_total{cpu="0",mode="system"} 30
node_cpu_seconds_total{cpu="0",mode="user"} 100
node_cpu_seconds_total{cpu="1",mode="idle"} 2000
node_cpu_seconds_total{cpu="1",mode="iowait"} 0
node_cpu_seconds_total{cpu="1",mode="irq"} 0
node_cpu_seconds_total{cpu="1",mode="nice"} 0
node_cpu_seconds_total{cpu="1",mode="softirq"} 0
node_cpu_seconds_total{cpu="1",mode="steal"} 0
node_cpu_seconds_total{cpu="1",mode="system"} 7
node_cpu_seconds_total{cpu="1",mode="user"} 9
# TYPE node_disk_io_time_seconds_total counter
node_disk_io_time_seconds_total{device="nvme0n1"} 12.5
node_disk_read_bytes_total{device="nvme0n1"} 4.096e+06
node_disk_read_time_seconds_total{device="nvme0n1"} 1.5
node_disk_reads_completed_total{device="nvme0n1"} 1000
node_disk_write_time_seconds_total{device="nvme0n1"} 2.25
node_disk_writes_completed_total{device="nvme0n1"} 2000
node_disk_written_bytes_total{device="nvme0n1"} 8.192e+06
node_memory_MemAvailable_bytes 6e+09
node_memory_MemTotal_bytes 1.6e+10
node_network_receive_bytes_total{device="eth0"} 123456
node_network_receive_bytes_total{device="veth1"} 5
node_network_speed_bytes{device="eth0"} 1.25e+08
node_network_speed_bytes{device="veth1"} -125000
node_network_transmit_bytes_total{device="eth0"} 654321
node_network_transmit_bytes_total{device="veth1"} 6
process_cpu_seconds_total 0.5
"""


class Endpoint:
    """A page that a test can change."""

    def __init__(self) -> None:
        self.page = ""
        self.status = "200 OK"
        self.server = ScriptedServer([], [serve(self._answer)])

    @property
    def url(self) -> str:
        return f"{self.server.url}/metrics"

    def _answer(self, _: Request) -> bytes:
        head = f"HTTP/1.1 {self.status}\r\nContent-Length: {len(self.page)}\r\n\r\n"
        return head.encode() + self.page.encode()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    endpoint.server.start()
    yield endpoint
    endpoint.server.stop()
    assert endpoint.server.failures == []


def names(folder: Path, text: str) -> Path:
    path = folder / "names.toml"
    path.write_text(text)
    return path


def test_node_exporter_page_is_read_as_host_quantities(endpoint: Endpoint) -> None:
    endpoint.page = NODE_EXPORTER
    source = PrometheusSource(endpoint.url)
    assert source.name == f"prometheus:{endpoint.url}"
    assert source.read() == {
        "cpu_user_seconds": {"0": 100.5, "1": 9.0},  # with nice; user time already includes guest time
        "cpu_system_seconds": {"0": 33.0, "1": 7.0},  # with irq and softirq
        "cpu_iowait_seconds": {"0": 3.25, "1": 0.0},
        "cpu_steal_seconds": {"0": 0.25, "1": 0.0},
        "cpu_idle_seconds": {"0": 1000.5, "1": 2000.0},
        "memory_used_bytes": {"": 10e9},
        "memory_total_bytes": {"": 16e9},
        "disk_busy_seconds": {"nvme0n1": 12.5},
        "disk_read_bytes": {"nvme0n1": 4096000.0},
        "disk_write_bytes": {"nvme0n1": 8192000.0},
        "disk_reads": {"nvme0n1": 1000.0},
        "disk_writes": {"nvme0n1": 2000.0},
        "disk_request_seconds": {"nvme0n1": 3.75},
        "network_receive_bytes": {"eth0": 123456.0, "veth1": 5.0},
        "network_send_bytes": {"eth0": 654321.0, "veth1": 6.0},
        "network_speed_bytes_per_second": {"eth0": 125e6},
    }


def test_node_exporter_gives_every_quantity_of_the_host() -> None:
    host = [name for name in QUANTITIES if name.startswith(("cpu_", "memory_", "disk_", "network_"))]
    assert sorted(read_names(builtin("node_exporter"))) == sorted(host)


@pytest.mark.parametrize(
    ("rule", "page", "items"),
    [
        ('metric = "a"', 'a{x="1"} 2\na{x="2"} 3', {"": 5.0}),
        ('metric = "a"\nitem = "x"', 'a{x="1",y="1"} 2\na{x="1",y="2"} 3\na{x="2"} 4\na 9', {"1": 5.0, "2": 4.0}),
        ('metric = "a"\nitem = ["x", "le"]', 'a{le="0.1",x="Put"} 2', {"Put 0.1": 2.0}),
        ('metric = "a"\nwhere = { x = "1" }', 'a{x="1"} 2\na{x="2"} 3\na 4', {"": 2.0}),
        ('metric = "a"\nwhere = { x = ["1", "2"], y = "" }', 'a{x="1",y=""} 2\na{x="2"} 3', {"": 2.0}),
        ('metric = "a"\nfactor = 0.001', "a 2500", {"": 2.5}),
        ('metric = ["a", "b"]\nitem = "x"', 'a{x="1"} 1\nb{x="1"} 2\na{x="2"} 4', {"1": 3.0}),  # only items with both
        ('metric = "a"\nminus = "b"', "a 5\nb 3", {"": 2.0}),
        ('metric = "a"\nminus = "b"\nitem = "x"', 'a{x="1"} 5\na{x="2"} 5\nb{x="2"} 1', {"2": 4.0}),
        ('metric = "a"\nitem = "x"', 'a{x="1"} NaN\na{x="2"} +Inf\na{x="3"} -1\na{x="4"} 0', {"4": 0.0}),
    ],
)
def test_rule_selects_sums_and_scales_metrics_of_a_page(
    endpoint: Endpoint, tmp_path: Path, rule: str, page: str, items: dict[str, float]
) -> None:
    endpoint.page = page
    assert PrometheusSource(endpoint.url, names(tmp_path, f"[requests]\n{rule}")).read() == {"requests": items}


def test_missing_metric_drops_only_its_quantity(endpoint: Endpoint) -> None:
    endpoint.page = NODE_EXPORTER.replace("node_memory_MemAvailable_bytes", "node_memory_Other")
    reading = PrometheusSource(endpoint.url).read()
    assert "memory_used_bytes" not in reading
    assert reading["memory_total_bytes"] == {"": 16e9}


def test_page_without_required_metrics_is_reported_with_their_names(endpoint: Endpoint) -> None:
    endpoint.page = NODE_EXPORTER.replace("node_", "host_")
    with pytest.raises(WatchError) as failed:
        PrometheusSource(endpoint.url).read()
    assert str(failed.value) == (
        f"prometheus:{endpoint.url}: the page has none of the required metrics (node_cpu_seconds_total, "
        "node_memory_MemTotal_bytes, node_memory_MemAvailable_bytes, ...); check the endpoint; if its metrics have "
        "other names, map these in a names file"
    )


def test_series_without_the_expected_labels_are_reported(endpoint: Endpoint, tmp_path: Path) -> None:
    endpoint.page = 'a{operation="PutObject"} 3'
    with pytest.raises(WatchError, match=r"a exists, but no series of it gives requests \(labels api, type\)"):
        PrometheusSource(
            endpoint.url, names(tmp_path, '[requests]\nmetric = "a"\nwhere = { type = "s3" }\nitem = "api"')
        ).read()


def test_source_is_read_again_after_a_refused_request(endpoint: Endpoint) -> None:
    source = PrometheusSource(endpoint.url, token="the-secret-token")
    endpoint.page, endpoint.status = NODE_EXPORTER, "403 Forbidden"
    with pytest.raises(WatchError) as failed:
        source.read()
    assert str(failed.value) == (
        f"prometheus:{endpoint.url}: reading the metrics was refused (403); is the token of --metrics-token-file meant "
        "for this server, and not expired?"
    )
    endpoint.status = "200 OK"
    assert source.read()["memory_total_bytes"] == {"": 16e9}
    assert endpoint.server.requests[-1].headers["authorization"] == "Bearer the-secret-token"


def test_refused_connection_is_a_watch_error() -> None:
    with pytest.raises(WatchError, match="metrics: the connection was refused"):
        PrometheusSource("http://127.0.0.1:1/metrics").read()


def test_credentials_in_the_url_are_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError) as refused:
        PrometheusSource("http://me:secret@127.0.0.1:9100/metrics")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", 'is empty; write a table for each quantity: [cpu_user_seconds] with metric = "..."'),
        ("requests = ", "not TOML: Invalid value"),
        (
            '[cpu_user_second]\nmetric = "a"',
            "cpu_user_second: there is no such quantity; did you mean 'cpu_user_seconds'?",
        ),
        ('[zzz]\nmetric = "a"', "zzz: there is no such quantity; known here: cpu_idle_seconds, "),
        ('[requests]\nmetrc = "a"', "requests: unknown key 'metrc'; did you mean 'metric'?"),
        ('[requests]\nmetric = "a"\nzzz = 1', "unknown key 'zzz'; known here: factor, item, metric, minus, where"),
        ("[requests]\nmetric = 3", 'metric: Expected `str | array`, got `int`; write metric = "name", or'),
        ("[requests]\nmetric = []", "metric: is empty; write metric ="),
        ('[requests]\nmetric = ["a", ""]', "metric: is empty; write metric ="),
        ("[requests]\nitem = 'x'", "missing required field `metric`; write metric ="),
        ("requests = 3", "requests: Expected `object`, got `int`; write metric ="),
        ('[requests]\nmetric = "a"\nwhere = "x"', "where: Expected `object`, got `str`; write where = {"),
        ('[requests]\nmetric = "a"\nwhere = { x = 1 }', "where: Expected `str | array`, got `int`; write where = {"),
        ('[requests]\nmetric = "a"\nitem = 1', 'item: Expected `str | array`, got `int`; write item = "label"'),
        ('[requests]\nmetric = "a"\nminus = 1', 'minus: Expected `str`, got `int`; write minus = "name"'),
        ('[requests]\nmetric = "a"\nfactor = "1"', "factor: Expected `float`, got `str`; write a number above 0"),
        ('[requests]\nmetric = "a"\nfactor = 0', "factor: 0.0 is not possible; write a number above 0"),
        ('[requests]\nmetric = "a"\nfactor = nan', "factor: nan is not possible; write a number above 0"),
    ],
)
def test_invalid_names_file_is_refused_with_file_key_and_remedy(tmp_path: Path, text: str, said: str) -> None:
    path = names(tmp_path, text)
    with pytest.raises(UsageError) as refused:
        PrometheusSource("http://127.0.0.1:9100", path)
    assert str(refused.value).startswith(f"{path}: ")
    assert said in str(refused.value)


def test_unreadable_names_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    for path in (tmp_path / "absent.toml", tmp_path, tmp_path / "binary.toml"):
        with pytest.raises(UsageError, match="cannot be read"):
            PrometheusSource("http://127.0.0.1:9100", path)
