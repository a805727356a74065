"""Fill the caches that most commands need. The fork server imports this module, so forked processes inherit them."""

from __future__ import annotations

import backends
from backends.s3.control import Control, Credentials
from scenarios.reading.reader import read_scenario

for _name in backends.names():
    backends.load(_name)
read_scenario("dr550", quick=True)
Control(  # sends no request
    "http://127.0.0.1", "us-east-1", Credentials("key", "secret", None), verify=True, connect_timeout_seconds=1.0,
    read_timeout_seconds=1.0,
)  # fmt: skip
