"""Buckets of real platforms."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any


def made_bucket(client: Any) -> Iterator[str]:
    name = f"changes-{time.time_ns()}"
    client.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    yield name
    for kind in ("Versions", "DeleteMarkers"):
        for row in client.list_object_versions(Bucket=name).get(kind, []):
            key = {"Bucket": name, "Key": row["Key"], "VersionId": row["VersionId"]}
            if kind == "Versions":
                client.put_object_legal_hold(**key, LegalHold={"Status": "OFF"})
            client.delete_object(**key, BypassGovernanceRetention=True)
    client.delete_bucket(Bucket=name)
