"""Test `archiver audit` on the real command line, through S3 and TSM, on the embedded store."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from backends.embedded import process as embedded
from backends.tsm.library import api
from tests.support.commands import archiver
from tests.support.runs import TINY, keys_of, left_in, s3
from tests.support.servers.fault_proxy import FaultProxy, asks_for, nothing_of, silence


def test_audit_names_findings_and_is_recorded_with_the_run(home: Path, store: embedded.StoreProcess) -> None:
    keys = keys_of(store)
    assert archiver("run", "dr550", *TINY, "--endpoint", store.endpoint, **keys).returncode == 0
    good = archiver("audit", "latest", "--clients", "2", **keys)
    assert good.returncode == 0
    assert good.stderr.startswith(f"endpoint {store.endpoint} from the record of run ")
    assert good.stderr.count("\n") == 1
    assert "every byte and every lock that was read is as archived" in good.stdout

    rows = left_in(home)
    bucket, prefix, run = rows[-1]["bucket"], rows[-1]["prefix"], rows[-1]["run"]
    archived = sum(row["objects"] for row in rows)
    damaged, gone = f"{prefix}{3:012d}", f"{prefix}{4:012d}"  # after the numbers of the probe object
    s3(store).put_object(Bucket=bucket, Key=damaged, Body=b"other bytes")
    (version,) = s3(store).list_object_versions(Bucket=bucket, Prefix=gone)["Versions"]
    s3(store).delete_object(Bucket=bucket, Key=gone, VersionId=version["VersionId"], BypassGovernanceRetention=True)
    bad = archiver("audit", run, "--json", **keys)
    assert bad.returncode == 1, bad.stderr
    document = json.loads(bad.stdout)
    assert document["counts"] == {"missing": 1, "hidden behind something newer": 1}
    assert [finding["name"] for finding in document["findings"]] == [f"{bucket}/{gone}", f"{bucket}/{damaged}"]
    assert document["objects"] == document["population_objects"] == archived
    assert document["bytes"] == archived * 8192
    assert document["objects_per_second"] > 0

    assert archiver("report", run, "--format", "html").returncode == 0
    report = (home / "runs" / run / "report" / "report.html").read_text()
    assert "Audits: objects read again and compared" in report
    assert "1 missing; 1 hidden behind something newer" in report

    shutil.rmtree(home / "runs" / run)  # an audit needs only the ledger
    again = archiver("audit", run, "--sample", "5", **keys)
    assert again.returncode in (0, 1), again.stderr
    assert f"a random sample of the {archived}" in again.stdout
    assert "with 99% confidence at most" in again.stdout
    assert "no longer exists, so this audit is not recorded" in again.stdout

    store.stop()
    unreachable = archiver("audit", run, **keys)
    assert unreachable.returncode == 3
    first, message = unreachable.stderr.splitlines()
    assert first == f"endpoint {store.endpoint} from the record of run {run}"
    assert message.startswith(f"archiver: {store.endpoint}: could not be reached")


def test_audit_waits_for_silent_platform_up_to_read_timeout(store: embedded.StoreProcess) -> None:
    keys = keys_of(store)
    with FaultProxy(int(store.endpoint.rpartition(":")[2])) as proxy:
        assert archiver("run", "dr550", *TINY, "--endpoint", proxy.url, **keys).returncode == 0
        is_retrieve = asks_for("GET")
        proxy.asks = lambda message: silence(nothing_of) if is_retrieve(message) else None
        done = archiver("audit", "latest", "--sample", "1", "--read-timeout", "700ms", "--json", **keys)
    assert done.returncode == 1, done.stderr
    (finding,) = json.loads(done.stdout)["findings"]
    assert finding["kind"] == "could not be read"
    assert finding["words"] == "read timeout: nothing arrived for 0.7 s (--read-timeout)"


def test_audit_of_unknown_or_removed_run_is_refused_with_one_message(home: Path) -> None:
    unknown = archiver("audit", "nosuch")
    assert unknown.returncode == 2
    assert unknown.stderr == "archiver: nosuch: the ledger has no such run; its id is the name of its folder\n"
    assert archiver("audit", "latest").returncode == 2
    assert archiver("run", "dr550", *TINY).returncode == 0
    (run,) = {row["run"] for row in left_in(home)}
    assert archiver("cleanup", run, "--bypass-governance").returncode == 0
    removed = archiver("audit", run)
    assert removed.returncode == 2
    assert removed.stderr == f"archiver: {run}: all its objects have been removed already\n"


@pytest.mark.skipif(not api.OWN_LIBRARY.exists(), reason="our TSM library was not built: no C compiler")
def test_run_archived_through_tsm_is_audited_through_tsm(home: Path) -> None:
    assert archiver("run", "dr550", *TINY, "--backend", "tsm").returncode == 0
    archived = sum(row["objects"] for row in left_in(home))
    done = archiver("audit", "latest", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["objects"], document["findings"], document["broken_off"]) == (archived, [], None)

    with closing(sqlite3.connect(home / "store" / "catalogue.db")) as catalogue, catalogue:
        gone, early = (row[0] for row in catalogue.execute("SELECT id FROM archives ORDER BY id LIMIT 2"))
        catalogue.execute("DELETE FROM archives WHERE id = ?", (gone,))
        catalogue.execute("UPDATE archives SET archived_ms = archived_ms - 600000 WHERE id = ?", (early,))
    bad = archiver("audit", "latest")
    assert bad.returncode == 1, bad.stderr
    assert "1 missing, 8.2 kB:" in bad.stdout
    assert "1 weaker locked, 8.2 kB:" in bad.stdout
