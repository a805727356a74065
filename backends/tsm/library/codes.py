"""Return codes of the TSM client API: numbers and names.

The C header shim/include/archiver_tsm_rc.h is the only place that lists them; this module reads it. Names are those of
the header without DSM_RC_. The reason of a vote (DSM_RS_ in C) has the number of the return code of the same name.

The number shows the origin: up to 258 the server, 100 to 200 mostly the client machine, 400 to 996 options and logs,
from 2000 the use of the API, below 0 the connection.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Any, cast

from backends.tsm.library.structures import INCLUDE

_DEFINITION = r"(?m)^#define DSM_RC_(\w+) \(?(-?\d+)\)?$"

# The cast keeps mypy from looking for the members in this file.
Code = cast(Any, IntEnum)(
    "Code",
    {name: int(value) for name, value in re.findall(_DEFINITION, (INCLUDE / "archiver_tsm_rc.h").read_text())},
    module=__name__,
)

NAMES: dict[int, str] = {code.value: code.name for code in Code}


def describe(code: int) -> str:
    """Return the number and, if the code is known, its name: "248 ABORT_DELETE_NOT_ALLOWED"."""
    name = NAMES.get(code)
    return f"{code} {name}" if name else str(code)
