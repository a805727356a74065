"""Which runs may be compared, and which differences between them are marked."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import Any

import pytest

from archiver.values.platform import PlatformProfile
from results.comparison.likeness import RULES, Likeness, likeness
from results.recorded.database import StoredRun
from tests.results.watched_run import PLATFORM, RECORD

LABELS = ("minio", "versitygw")
UNLIKE = {"settings__verify": "none", "settings__checksum": "none", "platform__durability": "none"}


def scenario(seconds_min: str, seconds_max: str) -> str:
    """Return a scenario with one sweep, as a run records it."""
    stop = {"seconds_min": seconds_min, "seconds_max": seconds_max, "bytes_max": "1MB"}
    return json.dumps({"sweep": [{"stop": stop}]})


def row(**given: Any) -> StoredRun:
    """Return the record of a run; ``part__key=value`` changes one key of a part."""
    made: dict[str, Any] = {
        **RECORD,
        "backend": "s3",
        "scenario": "dr550",
        "scenario_json": scenario("3s", "10s"),
        "content_kind": "shake-256",
        "workers": 1,
        "shared_host": True,
        "platform": {
            **asdict(PLATFORM), "version": "1", "durability": "fsync", "tls": False, "endpoints": ("http://one",),
            "details": {"retries": 0},
        },
        "settings": {
            "retention_mode": "GOVERNANCE", "checksum": "crc32c", "payload_signing": False, "session_kind": "opened",
            "session_open": "head-bucket", "legal_hold": False, "verify": "all", "poll": "sleep",
            "objects_per_transaction_max": None,
        },
        "host": {
            "host": "one", "processor": "fast", "cores_usable": 8, "kernel": "6.1", "python": "3.12", "archiver": "0.1",
        },
    }  # fmt: skip
    for name, value in given.items():
        part, _, key = name.partition("__")
        if key:
            made[part][key] = value
        else:
            made[part] = value
    return StoredRun(**{**made, "platform": PlatformProfile(**made["platform"])})


OTHER = {"platform__name": "versitygw"}


def test_runs_differing_only_in_platform_are_alike() -> None:
    assert likeness(row(), row(**OTHER, platform__version="2"), LABELS) == Likeness(())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"settings__retention_mode": "COMPLIANCE"}, "retention mode differs .minio: GOVERNANCE; versitygw: COMPLIANCE."
         ".*--retention-mode"),
        ({"settings__checksum": "none"}, "checksum differs .minio: crc32c; versitygw: none.*--checksum"),
        ({"settings__payload_signing": True}, "payload signing differs .minio: no; versitygw: yes.*--payload-signing"),
        ({"settings__session_kind": "kept"}, "session kind differs .*--keep-sessions-open"),
        ({"settings__session_open": "connect"}, "session open differs .*--session-open"),
        ({"settings__legal_hold": True}, "legal hold differs .*--legal-hold"),
        ({"settings__verify": "none"}, "verification of retrieved objects differs .minio: all; .*--verify"),
    ],
)  # fmt: skip
def test_settings_that_change_the_clients_work_are_refused(change: dict[str, Any], words: str) -> None:
    found = likeness(row(), row(**OTHER, **change), LABELS)
    assert re.search(words, f"{found.refusals[0]} {found.options[0]}")


@pytest.mark.parametrize(
    ("change", "mark"),
    [
        ({"platform__durability": "none"}, "durability differs (minio: fsync; versitygw: none)"),
        ({"platform__tls": True}, "TLS differs (minio: no; versitygw: yes)"),
        ({"platform__endpoints": ("http://one", "http://two")}, "number of endpoints differs (minio: 1; versitygw: 2)"),
        ({"platform__details": {"retries": 0, "on_close": "stop"}},
         "what follows a closed connection differs (minio: reconnect; versitygw: stop)"),
        ({"platform__details": {"retries": 3}}, "number of retries differs (minio: 0; versitygw: 3)"),
        ({"scenario": "mine"}, "scenario differs (minio: dr550; versitygw: mine)"),
        ({"scenario_json": scenario("1s", "2s")},
         "stopping rule differs (minio: 3s to 10s, at most 1MB; versitygw: 1s to 2s, at most 1MB)"),
        ({"content_kind": "zeros"}, "content differs (minio: shake-256; versitygw: zeros)"),
        ({"host__processor": "slow"},
         "client machine differs (minio: one, fast, 8 cores; versitygw: one, slow, 8 cores)"),
        ({"host__cores_usable": 4},
         "client machine differs (minio: one, fast, 8 cores; versitygw: one, fast, 4 cores)"),
        ({"host__kernel": "6.2"}, "kernel differs (minio: 6.1; versitygw: 6.2)"),
        ({"host__python": "3.13"}, "Python differs (minio: 3.12; versitygw: 3.13)"),
        ({"host__archiver": "0.2"}, "Archiver version differs (minio: 0.1; versitygw: 0.2)"),
        ({"workers": 4}, "number of worker processes differs (minio: 1; versitygw: 4)"),
        ({"settings__poll": "busy"}, "waiting of the workers for answers differs (minio: sleep; versitygw: busy)"),
        ({"shared_host": False}, "sharing of one machine by client and server differs (minio: yes; versitygw: no)"),
    ],
)  # fmt: skip
def test_other_surroundings_are_marked(change: dict[str, Any], mark: str) -> None:
    assert likeness(row(), row(**OTHER, **change), LABELS) == Likeness((mark,))


def test_setting_unknown_on_both_sides_is_marked() -> None:
    assert likeness(row(platform__tls=None), row(**OTHER, platform__tls=None), LABELS) == Likeness(("TLS unknown",))


def test_protocol_specific_settings_are_marked_across_protocols() -> None:
    tsm = row(
        platform__protocol="tsm", settings__retention_mode="CLASS", settings__checksum="crc32",
        settings__session_open="sign-on", settings__objects_per_transaction_max=256, platform__version="other words",
    )  # fmt: skip
    found = likeness(tsm, row(), ("tsm", "s3"))
    assert found.refusals == ()
    assert [mark.partition(" differs")[0] for mark in found.marks] == [
        "protocol", "retention mode", "checksum", "session open", "limit of objects per transaction",
    ]  # fmt: skip


@pytest.mark.parametrize("change", [{"settings__verify": "none"}, {"settings__legal_hold": True}])
def test_differing_setting_common_to_all_protocols_is_refused(change: dict[str, Any]) -> None:
    found = likeness(row(platform__protocol="tsm"), row(**change), ("tsm", "s3"))
    assert len(found.refusals) == len(found.options) == 1


def test_differing_settings_on_one_platform_are_marked_and_allowed() -> None:
    locked, unlocked = row(), row(settings__retention_mode="none", platform__version="2")
    found = likeness(locked, unlocked, ("run-1", "run-2"))
    assert found == Likeness(
        ("retention mode differs (run-1: GOVERNANCE; run-2: none)", "platform version differs (run-1: 1; run-2: 2)")
    )


def test_pooled_runs_with_different_settings_are_refused() -> None:
    found = likeness(row(), row(settings__checksum="none"), ("run-1", "run-2"), pooled=True)
    assert found.refusals[0].startswith("checksum differs (run-1: crc32c; run-2: none)")
    assert found.options == ("--checksum",)


def test_unknown_durability_is_marked_and_not_taken_as_equal() -> None:
    unknown = {"platform__durability": "unknown"}
    assert likeness(row(**unknown), row(**OTHER, **unknown), LABELS) == Likeness(("durability unknown",))


def test_all_refusals_options_and_differences_are_listed() -> None:
    found = likeness(row(), row(**OTHER, platform__version="2", **UNLIKE), LABELS)
    assert found.refusals == (
        "checksum differs (minio: crc32c; versitygw: none), and a checksum is work for client and platform",
        "verification of retrieved objects differs (minio: all; versitygw: none), and the client spends more time on"
        " one of them",
    )
    assert found.options == ("--checksum", "--verify")
    assert [mark.partition(" differs")[0] for mark in found.marks] == [
        "checksum", "verification of retrieved objects", "durability",
    ]  # fmt: skip


def test_only_settings_of_both_protocols_are_refused_across_protocols() -> None:
    found = likeness(row(), row(**OTHER, platform__protocol="tsm", **UNLIKE), LABELS)
    assert found.options == ("--verify",)


def test_every_refusal_rule_has_option_and_reason() -> None:
    assert all(rule.option.startswith("--") for rule in RULES if rule.action.startswith("refuse"))
    assert all(rule.why for rule in RULES)
