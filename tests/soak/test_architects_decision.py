"""An architect decides between two platforms: one file, five commands, one page.

Mail of 30,000 users with 30 messages of 50 KiB a day for seven years with 10% growth, and 200 cameras of 0.5 MB/s kept
for 90 days; a user's year back within an hour, and a budget per TB. MinIO or SeaweedFS?
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.commands import archiver
from tests.support.servers.real import need

NEED = """
years = 7
headroom = "30%"
usable = "100TB"
prices = "prices.toml"
budget-per-tb = 400
must = ["check RET-05", "check DEL-02", "synced", "within budget"]

[[load]]
kind = "mail"
users = 30000
messages = 30
mean-size = "50KiB"
objects-per-session = 10
growth = "10%"
retention = "2555d"
discovery-messages = 10950
discovery-within = "1h"

[[load]]
kind = "video"
cameras = 200
stream-rate = "0.5MB/s"
objects-per-session = 10
retention = "90d"
"""
PRICES = """
currency = "EUR"
[[part]]
item = "storage server"
quantity = 1
list_price = 9000
support_years = 3
support_price_per_year = 900
"""
CELLS = ("--size", "8KiB,64KiB,1MiB", "--objects-per-session", "1,10", "--clients", "1", "--duration", "1s")
PLATFORMS = ("--platform", "minio", "--platform", "seaweedfs")


@pytest.mark.long
@pytest.mark.platforms
def test_architect_decides_between_two_platforms_with_five_commands(home: Path, tmp_path: Path) -> None:
    need("minio")
    need("seaweedfs")
    (tmp_path / "need.toml").write_text(NEED)
    (tmp_path / "prices.toml").write_text(PRICES)
    measured = archiver("bench", *CELLS, *PLATFORMS, "--repeat", "2", "--quiet")
    assert measured.returncode == 0, measured.stderr
    for each in ("minio", "seaweedfs"):
        checked = archiver("worm", "--platform", each, "--check", "RET-05", "--check", "DEL-02")
        assert checked.returncode in (0, 1), checked.stderr
    runs = sorted(path.name for path in (home / "runs").iterdir())
    assert len(runs) == 4
    done = archiver("decide", str(tmp_path / "need.toml"), *runs, "--json", "--out", str(tmp_path / "decision"))
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    found = {each["label"]: each for each in document["platforms"]}
    assert set(found) == {"minio", "seaweedfs"}
    assert found["seaweedfs"]["must"]["synced"]["outcome"] == "not met"  # it acknowledges from memory
    assert document["recommended"] in ("minio", None)
    for each in found.values():
        assert each["platforms_needed"] > 1
        assert each["price"] > 0
        assert each["lights"]["cost"]["words"].startswith(f"{each['price']:,.0f} EUR in 7 years")
    page = (tmp_path / "decision" / "decision.html").read_text()
    assert document["answer"][0] in page
    assert all(run in page for run in runs)
