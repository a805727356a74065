"""A run on a platform whose disk becomes full: nothing that it acknowledged is lost, and cleanup works there."""

from __future__ import annotations

import json
import resource
from pathlib import Path

from backends.embedded import process
from tests.support.commands import archiver
from tests.support.runs import keys_of, left_in, s3

FILE_BYTES_MAX = 2 << 20  # no file of the store may be longer; the kernel refuses the writes
BENCH = (
    "bench", "--operation", "archive", "--size", "256KiB", "--objects-per-session", "4", "--clients", "1",
    "--duration", "500ms", "--max-locked-bytes", "100MB",
)  # fmt: skip


def test_run_on_a_full_store_fails_and_all_acknowledged_objects_are_whole(home: Path, tmp_path: Path) -> None:
    with process.start(tmp_path / "store") as store:
        keys, limits = keys_of(store), resource.prlimit(store.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(store.pid, resource.RLIMIT_FSIZE, (FILE_BYTES_MAX, limits[1]))
        done = archiver(*BENCH, "--endpoint", store.endpoint, "--json", **keys)
        assert done.returncode == 1, done.stderr
        document = json.loads(done.stdout)
        assert document["verdict"] in ("errors", "fail")
        (result,) = document["results"]
        assert {error["reason"] for error in result["first_errors"]} == {"503 ServiceUnavailable"}
        acknowledged = result["objects"] + result["warm_up_objects"] + result["drained_objects"] + 1  # the probe
        pages = s3(store).get_paginator("list_object_versions").paginate(Bucket=document["location"]["bucket"])
        stored = sum(len(page.get("Versions", ())) for page in pages)
        assert 0 < acknowledged == stored <= sum(row["objects"] for row in left_in(home))

        audited = archiver("audit", "latest", **keys)
        assert audited.returncode == 0, audited.stdout + audited.stderr
        assert f"read {acknowledged} objects (all)" in audited.stdout
        assert "every byte and every lock that was read is as archived" in audited.stdout
        cleaned = archiver("cleanup", "latest", "--bypass-governance", **keys)
        assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
        assert f"removed {acknowledged} objects" in cleaned.stdout
        assert left_in(home) == []
