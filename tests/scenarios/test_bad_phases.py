"""Invalid scenarios with phases are refused with the file, the place and the remedy."""

from __future__ import annotations

import copy
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archiver.values.errors import ScenarioError
from scenarios.reading.reader import read_scenario
from tests.scenarios.files import toml
from tests.support.examples import share_of

# A valid scenario. The tests make one or more values of a copy invalid.
RIGHT: dict[str, Any] = {
    "name": "mine",
    "title": "Mine",
    "scale": {"name": "tiles", "each": "tile", "values": [1, 2]},
    "search": {"first": 1, "last": 8},
    "criterion": [{"that": "object_ms.mean <= 20", "workload": "mail", "operation": "retrieve"}],
    "weights": {"mail": 1, "web": 2},
    "phase": [
        {
            "name": "load", "load": True, "copies": "tiles",
            "workload": [
                {"name": "pages", "operation": "archive", "data": "mail", "sizes": "8KiB", "clients": 2, "fill": 100},
                {"name": "files", "operation": "archive", "data": "web", "clients": 2, "objects": 50,
                 "sizes": {"histogram": {"512": 1, "8KiB": 3}}, "retain_for": "3s"},
            ],
        },
        {
            "name": "mix", "copies": "tiles", "quick": {"cache": "keep"},
            "workload": [
                {"name": "mail", "clients": 4, "data": "mail", "sizes": {"uniform": ["1KiB", "9KiB"]},
                 "transactions": [{"steps": ["retrieve", "archive"], "share": 3}, {"steps": ["delete"], "share": 1}],
                 "aside": {"name": "log", "data": "log", "sizes": 500, "per_operation": 0.2},
                 "warm_up": "1s", "seconds": "5s", "bytes_max": "9MB"},
                {"name": "check", "operation": "retrieve", "clients": 4, "data": "mail", "keys": "each-once",
                 "after": "mail"},
                {"name": "web", "operation": "range-retrieve", "clients": 3, "data": "web", "range": 100,
                 "keys": "zipf", "zipf_exponent": 1.1, "seconds": "9s", "deadline": "1s", "until": "mail",
                 "arrivals": {"kind": "poisson", "per_second": "9 tiles"}, "quick": {"seconds": "2s"}},
            ],
        },
    ],
}  # fmt: skip
PAGES, FILES = ("phase", 0, "workload", 0), ("phase", 0, "workload", 1)
MAIL, CHECK, WEB = (("phase", 1, "workload", index) for index in range(3))
GONE = object()


def changed(*changes: tuple[tuple[Any, ...], Any]) -> dict[str, Any]:
    """Return a copy of RIGHT with other values at some paths; GONE removes a value."""
    document = copy.deepcopy(RIGHT)
    for path, value in changes:
        at: Any = document
        for step in path[:-1]:
            at = at[step]
        if value is GONE:
            del at[path[-1]]
        else:
            at[path[-1]] = value
    return document


def refusal(folder: Path, document: dict[str, Any], **given: Any) -> str:
    """Read the document as a scenario, which must fail; return the message without the path that it begins with."""
    path = folder / "mine.toml"
    path.write_text(toml(document))
    with pytest.raises(ScenarioError) as refused:
        read_scenario(str(path), **given)
    assert str(refused.value).startswith(f"{path}: ")
    return str(refused.value).removeprefix(f"{path}: ")


def test_base_scenario_of_these_tests_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(toml(RIGHT))
    for searches in (False, True):
        for quick in (False, True):
            assert read_scenario(str(path), searches=searches, quick=quick).phases


ARRIVALS = (*WEB, "arrivals")
PLACE_WEB = "phase 'mix': workload 'web': "
PLACE_MAIL = "phase 'mix': workload 'mail': "


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        # ---- unknown keys, at every level
        (("tilte",), 1, "unknown key 'tilte'; did you mean 'title'?"),
        (("scale", "vlaues"), [1], "scale: unknown key 'vlaues'; did you mean 'values'?"),
        (("search", "lsat"), 1, "search: unknown key 'lsat'; did you mean 'last'?"),
        (("criterion", 0, "worklaod"), "x", "criterion[0]: unknown key 'worklaod'; did you mean 'workload'?"),
        (("phase", 1, "copeis"), 1, "phase 'mix': unknown key 'copeis'; did you mean 'copies'?"),
        ((*WEB, "client"), 1, f"{PLACE_WEB}unknown key 'client'; did you mean 'clients'?"),
        ((*WEB, "colour"), 1, f"{PLACE_WEB}unknown key 'colour'; known here: after, application, arrivals,"),
        ((*ARRIVALS, "per_secnod"), 1, f"{PLACE_WEB}arrivals: unknown key 'per_secnod'; did you mean 'per_second'?"),
        ((*MAIL, "aside", "size"), 1, f"{PLACE_MAIL}aside: unknown key 'size'; did you mean 'sizes'?"),
        ((*MAIL, "sizes", "unifrom"), 1, f"{PLACE_MAIL}sizes: unknown key 'unifrom'; did you mean 'uniform'?"),
        ((*MAIL, "transactions", 0, "step"), 1, f"{PLACE_MAIL}transactions[0]: unknown key 'step'; did you mean"),
        ((*WEB, "quick", "secnods"), "2s", f"{PLACE_WEB}unknown key 'secnods'; did you mean 'seconds'?"),
        (("phase", 1, "quick", "cahce"), "keep", "phase 'mix': unknown key 'cahce'; did you mean 'cache'?"),
        # ---- invalid words
        ((*CHECK, "operation"), "retreive", "operation: Invalid enum value 'retreive'; choose one of archive, retr"),
        ((*MAIL, "transactions", 0, "steps", 1), "put", "steps[1]: Invalid enum value 'put'; choose one of archive,"),
        ((*ARRIVALS, "kind"), "random", "Invalid enum value 'random'; choose one of constant, poisson, ramp, bursts"),
        ((*WEB, "keys"), "random", "'random'; choose one of uniform, zipf, sequential, each-once"),
        (("phase", 1, "cache"), "empty", "'empty'; choose one of drop, keep"),
        ((*PAGES, "lock"), "hard", "'hard'; choose one of none, bucket-default, header, separate, header-and-hold"),
        ((*PAGES, "checksum"), "sha1", "'sha1'; choose one of crc32c,"),
        # ---- missing keys, and names
        ((*WEB, "clients"), GONE, f"{PLACE_WEB}Object missing required field `clients`"),
        ((*WEB, "data"), "", f"{PLACE_WEB}data: Expected `str` of length >= 1"),
        ((*WEB, "name"), "", "name: Expected `str` of length >= 1"),
        (("phase", 1, "workload"), [],
         "phase 'mix': there is no [[phase.workload]] and no [[phase.replay]]; write one of them"),
        (("phase", 1, "workload"), GONE,
         "phase 'mix': there is no [[phase.workload]] and no [[phase.replay]]; write one of them"),
        (("phase", 1, "name"), "load", "phase 'load': the name is used twice; give each phase its own"),
        ((*WEB, "name"), "mail", "phase 'mix': two workloads are called 'mail'; give each a name of its own"),
        # ---- clients and copies
        ((*WEB, "clients"), 0, "workload 'web': clients: [0] is not possible; each number must be at least 1"),
        ((*WEB, "clients"), -3, "clients: [-3] is not possible"),
        ((*WEB, "clients"), [], "clients: [] is not possible"),
        ((*WEB, "clients"), [2, 2],
         "clients: [2, 2] is not possible; each number must be at least 1 and occur only once"),
        ((*WEB, "clients"), 10**30, "is above 100000, the maximum of a phase"),
        ((*WEB, "clients"), list(range(1, 302)), "'mix': more than 300 workloads, each number of clients counted"),
        ((*WEB, "clients"), "4 tile",
         "clients: Expected `int | array`, got `str`; write a number, or a multiple of [scale]: '20 tiles'"),
        ((*WEB, "clients"), ["tiles", 4], "clients[0]: Expected `int`, got `str`"),
        (("phase", 1, "copies"), 0, "phase 'mix': copies: 0 is not possible; write at least 1"),
        (("phase", 1, "copies"), 10**12, "over all workloads and copies is above 100000"),
        (("phase", 1, "copies"), "0.5 tiles", "scale: copies = '0.5 tiles' is 0.5 at 1 tiles; copies must be a whole"),
        # ---- operations, sizes, keys
        ((*CHECK, "operation"), GONE, "'check': write either operation, or transactions with their steps and shares"),
        ((*MAIL, "operation"), "archive", f"{PLACE_MAIL}write either operation, or transactions"),
        ((*MAIL, "transactions", 0, "share"), 0, "transactions: share: 0 is not possible; write more than 0,"),
        ((*MAIL, "transactions", 0, "share"), float("nan"),
         "transactions: share: nan is not possible; write more than 0, at most 1,000,000,000"),
        ((*MAIL, "transactions", 0, "steps"), [], "transactions: each needs steps"),
        ((*MAIL, "sizes"), GONE, "sizes is missing: write the sizes of the objects that it archives"),
        ((*CHECK, "sizes"), "8KiB",
         "sizes: requested objects have the sizes that they were archived with; leave it out"),
        ((*PAGES, "sizes"), "65MiB", "sizes: an object must have 1 byte to 64MiB"),
        ((*PAGES, "sizes"), 0, "sizes: an object must have 1 byte to 64MiB"),
        ((*PAGES, "sizes"), -1, "sizes: '-1' is not a size such as 8KiB"),
        ((*PAGES, "sizes"), "8KX", "sizes: '8KX': unknown size unit 'KX'; use B, KiB"),
        ((*PAGES, "sizes"), 8.5, "sizes: Expected `int | str | object | null`, got `float`"),
        ((*PAGES, "sizes"), {}, "sizes: sizes is one size, or a table with one of uniform, median (with sigma and "),
        ((*MAIL, "sizes", "median"), "1KiB", "histogram; it has uniform and median"),
        ((*MAIL, "sizes", "uniform"), ["9KiB", "1KiB"],
         "sizes: uniform needs the smallest size, of at least 1 byte, and then the largest"),
        ((*MAIL, "sizes", "uniform"), [0, "1KiB"],
         "sizes: uniform needs the smallest size, of at least 1 byte, and then the largest"),
        ((*MAIL, "sizes", "uniform"), ["1KiB"], "sizes.uniform: Expected `array` of length 2, got 1"),
        ((*MAIL, "sizes", "sigma"), 1.0, "sizes: sigma and largest apply only to median"),
        ((*MAIL, "sizes"), {"median": "1KiB", "largest": "1MiB"},
         "sizes: median needs sigma, the standard deviation of the logarithm: above 0 and up to 5"),
        ((*MAIL, "sizes"), {"median": "1KiB", "sigma": 6, "largest": "1MiB"}, "sizes: median needs sigma"),
        ((*MAIL, "sizes"), {"median": "1KiB", "sigma": 1},
         "sizes: median needs largest, the cut-off, which must not be below median"),
        ((*MAIL, "sizes"), {"median": "1KiB", "sigma": 1, "largest": 9}, "sizes: median needs largest"),
        ((*FILES, "sizes", "histogram"), {}, "sizes: histogram needs 1 to 1000 sizes with their shares, each above 0"),
        ((*FILES, "sizes", "histogram", "512"), 0, "sizes: histogram needs 1 to 1000 sizes with their shares, each"),
        ((*FILES, "sizes", "histogram", "512"), -1, "sizes: histogram needs 1 to 1000 sizes with their shares"),
        ((*FILES, "sizes", "histogram", "512"), float("inf"), "sizes: histogram needs 1 to 1000 sizes"),
        ((*FILES, "sizes", "histogram", "half"), 1, "sizes: 'half' is not a size such as 8KiB"),
        ((*WEB, "range"), GONE, "range is the length, above 0, that range-retrieve requests; write both or neither"),
        ((*WEB, "range"), 0, "range is the length, above 0, that range-retrieve requests; write both or neither"),
        ((*CHECK, "range"), 5, "range is the length, above 0, that range-retrieve requests; write both or neither"),
        ((*PAGES, "part"), "4MiB", "part applies only to archived objects, and S3 takes parts of 5MiB and more"),
        ((*CHECK, "part"), "8MiB", "part applies only to archived objects, and S3 takes parts of 5MiB and more"),
        ((*PAGES, "keys"), "zipf", "keys: archive makes new objects and chooses no existing ones; leave it out"),
        ((*WEB, "zipf_exponent"), 0, 'zipf_exponent needs keys = "zipf", and must be above 0 and below 10'),
        ((*CHECK, "zipf_exponent"), 1, 'zipf_exponent needs keys = "zipf", and must be above 0 and below 10'),
        ((*WEB, "objects_per_session"), 0, "objects_per_session: 0 is not possible; write 1 to 20,000,000"),
        ((*WEB, "objects_per_session"), 501,
         "objects_per_session: 501 is above 500, the maximum of a session in this study; --allow-large-sessions"),
        ((*MAIL, "aside", "per_operation"), 0, "aside.per_operation: 0 is not possible; write more than 0, at most 10"),
        ((*MAIL, "aside", "per_operation"), float("nan"), "aside.per_operation: nan is not possible; write more"),
        ((*MAIL, "aside", "sizes"), 0, "aside.sizes: an object must have 1 byte to 64MiB"),
        ((*MAIL, "aside", "data"), "mail",
         "aside.data: 'mail' is the data set of the workload itself; give the aside its own"),
        ((*MAIL, "aside", "name"), "delete", "aside.name: 'delete' is one of its operations; choose another name"),
        # ---- ends and times
        ((*PAGES, "fill"), GONE, "it must end by one of seconds, objects, fill, or after one pass over keys = "
         "'each-once'; it has none of these"),
        ((*PAGES, "objects"), 5, "it has objects and fill"),
        ((*CHECK, "objects"), 5, "objects is for operation archive in a closed loop, without arrivals"),
        ((*PAGES, "fill"), 0, "fill: 0 is not possible; write 1 to 20,000,000"),
        ((*PAGES, "fill"), 10**30, "fill: 1000000000000000000000000000000 is not possible; write 1 to 20,000,000"),
        ((*WEB, "seconds"), "0s", "seconds: 0s is not possible; write more than 0s, at most 2h"),
        ((*WEB, "seconds"), "121m", "seconds: 7260s is not possible; write more than 0s, at most 2h"),
        ((*WEB, "seconds"), 5, "seconds: '5': a duration needs a unit"),
        ((*WEB, "seconds"), "9" * 400 + "s", "is more than 100y"),
        ((*WEB, "begins"), "59m 55s", "begins: '59m 55s' is not a duration"),
        ((*WEB, "begins"), "7195s", "phase 'mix': its workloads take up to 7,204 s, one after another; a phase may"),
        ((*MAIL, "warm_up"), "5s", "warm_up is a part of seconds and must be shorter, because the rest is measured"),
        ((*CHECK, "warm_up"), "1s", "warm_up is a part of seconds and must be shorter, because the rest is measured"),
        ((*MAIL, "bytes_max"), GONE, "bytes_max is missing: it archives for 5 s in a closed loop"),
        ((*MAIL, "bytes_max"), 9000, "bytes_max: 9000 is not enough for an object of each client"),
        ((*MAIL, "bytes_max"), "99999999TB", "is more than 1EiB"),
        ((*MAIL, "bytes_max"), "1000TB", "objects would be archived; at most 20,000,000"),
        ((*CHECK, "bytes_max"), "1MB",
         "bytes_max is only for a workload that archives for some seconds in a closed loop"),
        ((*WEB, "bytes_max"), "1MB",
         "bytes_max is only for a workload that archives for some seconds in a closed loop"),
        ((*WEB, "deadline"), "0s", "deadline: 0s is not possible; write more than 0s, at most 2h"),
        # ---- order
        ((*CHECK, "after"), "mali", "workload 'check': after: there is no workload 'mali' in this phase; did you mean"),
        ((*WEB, "until"), "pages", "until: there is no workload 'pages' in this phase; known here: check, mail"),
        ((*MAIL, "after"), "check", f"{PLACE_MAIL}after, until: it would wait for itself"),
        ((*MAIL, "after"), "mail", f"{PLACE_MAIL}after, until: it would wait for itself"),
        ((*MAIL, "until"), "web", f"{PLACE_MAIL}after, until: it would wait for itself"),
        ((*CHECK, "until"), "mail", "until needs seconds, its maximum duration, and one number of clients"),
        ((*WEB, "clients"), [1, 2], "until needs seconds, its maximum duration, and one number of clients"),
        ((*WEB, "begins"), "5s", "workload 'tile 1 web': until: 'tile 1 mail' ends before this workload is measured"),
        # ---- data
        ((*WEB, "data"), "wbe", "data: no workload archives 'tile 1 wbe' before it; archive it in an earlier phase "
         "with as many copies; did you mean 'tile 1 web'?"),
        (("phase", 0, "copies"), GONE, "no workload archives 'tile 1 mail' before it"),
        (("phase", 0, "copies"), 1, "no workload archives 'tile 2 mail' before it"),  # at the second scale
        ((*WEB, "data"), "mail", "it changes data 'mail', which 'web' uses at the same time; give each its own data"),
        ((*CHECK, "clients"), 3,
         "it changes data 'mail', which is partitioned over its clients; give 'mail', 'check' the same"),
        ((*FILES, "data"), "mail", "no workload archives 'tile 1 web'"),
        # ---- arrivals
        ((*ARRIVALS, "per_second"), 0, "workload 'tile 1 web': arrivals: no session is due in 9 s"),
        ((*ARRIVALS, "per_second"), -1, "arrivals: per_second: -1 is not possible; write 0 to 1,000,000"),
        ((*ARRIVALS, "per_second"), 1e7, "arrivals: per_second: 1e+07 is not possible; write 0 to 1,000,000"),
        ((*ARRIVALS, "per_second"), float("nan"), "arrivals: per_second: nan is not possible; write 0 to 1,000,000"),
        ((*ARRIVALS, "per_second"), float("inf"), "arrivals: per_second: inf is not possible; write 0 to 1,000,000"),
        ((*ARRIVALS, "to_per_second"), 5, "arrivals: to_per_second is the last rate of a ramp; write both or neither"),
        ((*ARRIVALS, "kind"), "ramp", "arrivals: to_per_second is the last rate of a ramp; write both or neither"),
        ((*ARRIVALS, "kind"), "bursts",
         "arrivals: bursts need burst_sessions of at least 1, and every of at least 1ms"),
        ((*ARRIVALS, "burst_sessions"), 5, 'arrivals: burst_sessions and every need kind = "bursts"'),
        ((*ARRIVALS, "every"), "1s", 'arrivals: burst_sessions and every need kind = "bursts"'),
        (ARRIVALS, {"kind": "bursts", "per_second": 1, "burst_sessions": -1, "every": "1s"}, "of at least 1, and"),
        (ARRIVALS, {"kind": "bursts", "per_second": 1, "burst_sessions": 1, "every": "0s"}, "every of at least 1ms"),
        (ARRIVALS, {"kind": "bursts", "per_second": 1, "burst_sessions": 9**6, "every": "1ms"},
         "arrivals: more than 20,000,000 sessions in 9 s"),
        ((*ARRIVALS, "backlog_max"), -1, "arrivals: backlog_max: -1 is not possible; write 0 to 20,000,000"),
        ((*CHECK, "arrivals"), {"kind": "constant", "per_second": 1},
         "arrivals need seconds: the time in which sessions are due"),
        # ---- locks
        ((*FILES, "retain_for"), "1500ms", "retain_for: a lock of 1.5 s may end before the platform has it"),
        ((*FILES, "lock"), "none", "retain_for: it applies only to objects archived with their own date"),
        ((*CHECK, "retain_for"), "3s", "retain_for: it applies only to archived objects"),
        ((*CHECK, "lock"), "header", "lock: it applies only to archived objects"),
        ((*CHECK, "checksum"), "md5", "checksum: it applies only to archived objects"),
        # ---- scale, search, criteria, weights
        (("scale",), GONE, "write a number, or a multiple of [scale]"),
        (("scale", "name"), "users",
         "copies: Expected `int | null`, got `str`; write a number, or a multiple of [scale]: '20 users'"),
        (("scale", "name"), "", "scale.name: Expected `str` of length >= 1"),
        (("scale", "each"), GONE, "scale: Object missing required field `each`"),
        (("scale", "values"), [0, 1], "scale.values: 0 is not possible; write more than 0, at most 1,000,000,000"),
        (("scale", "values"), [-1], "scale.values: -1 is not possible; write more than 0, at most 1,000,000,000"),
        (("scale", "values"), [float("nan")], "scale.values: nan is not possible; write more than 0,"),
        (("scale", "values"), [float("inf")], "scale.values: inf is not possible; write more than 0,"),
        (("scale", "values"), [2, 1, 2], "scale.values: write at least one, and each once; or write [search]"),
        (("scale", "values"), [10**6], "is above 100000, the maximum of a phase"),
        (("scale", "values"), 3, "scale.values: Expected `array`, got `int`"),
        (("scale",), 3, "scale: Expected `object`, got `int`"),
        (("criterion", 0, "that"), "object_msec.mean <= 20", "there is no metric 'object_msec'; did you mean"),
        (("criterion", 0, "that"), "errors", "write it as metric, operator, limit"),
        (("criterion", 0, "workload"), "mial", "no workload 'mial' is measured; did you mean 'mail'?"),
        (("criterion", 0, "workload"), "pages", "no workload 'pages' is measured"),  # a load phase has no criteria
        (("criterion", 0, "operation"), "query", "there is no operation 'query' of 'mail'"),
        (("weights",), {"mail": 0, "web": 0}, "weights: all of them are 0; at least one must be above 0"),
        (("weights", "web"), -1, "weights: -1 of 'web' is not possible; each is at least 0"),
        (("weights", "web"), float("nan"), "weights: nan of 'web' is not possible"),
        (("weights", "wbe"), 1, "weights: no application 'wbe' is measured; did you mean 'web'?"),
        (("weights", "pages"), 1, "weights: no application 'pages' is measured"),
        (("weights", "web"), "much", "weights: Expected `float`, got `str`"),
        (("phase",), 3, "phase: Expected `array`, got `int`"),
        (("phase",), {"name": "mix"}, "phase: Expected `array`, got `object`"),
        (("phase",), [], "there is no [[sweep]] and no [[phase]], so there is nothing to measure"),
        (("sweep",), [{}], "sweep[0]: Object missing required field `name`"),
    ],
)  # fmt: skip
def test_invalid_phase_is_refused_with_place_and_remedy(
    tmp_path: Path, path: tuple[Any, ...], value: Any, message: str
) -> None:
    assert message in refusal(tmp_path, changed((path, value)))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            ("search", "first"),
            9,
            "search: from 9 to 8 by 1 is not a range; first and step must be at least 1, and last from first",
        ),
        (("search", "first"), 0, "search: from 0 to 8 by 1 is not a range"),
        (("search", "step"), 0, "search: from 1 to 8 by 0 is not a range"),
        (("search", "step"), 2, "search: first and last must be multiples of step (2)"),
        (("search", "repeat"), 0, "search.repeat: 0 is not possible; write 1 to 100"),
        (("search", "last"), 10**5, "is above 100000, the maximum of a phase"),  # before the first step
        (("search", "last"), 10**400, "is not a range"),
        (("search", "first"), 1.5, "search.first: Expected `int`, got `float`"),
        (("scale",), GONE, "[scale]"),
        (("criterion",), GONE, "search needs [scale], which it varies, and [[criterion]], which decides what passes"),
        (("search",), GONE, "--search: the scenario has no [search] with the range of scales"),
    ],
)
def test_invalid_search_is_refused_before_first_step(
    tmp_path: Path, path: tuple[Any, ...], value: Any, message: str
) -> None:
    assert message in refusal(tmp_path, changed((path, value)), searches=True)


def test_repeat_option_is_refused_with_search(tmp_path: Path) -> None:
    assert "--repeat: a search repeats its trials as search.repeat says; set that instead" in refusal(
        tmp_path, RIGHT, searches=True, repetitions=2
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([((*WEB, "name"), "mail 4"), ((*MAIL, "clients"), [4]), ((*CHECK, "clients"), [4])],
         "two workloads are called 'mail 4' after the number of clients is added to the name; rename one"),
        ([((*MAIL, "clients"), [4, 5]), ((*CHECK, "clients"), [4, 5]), ((*WEB, "until"), GONE)],
         "give 'mail', 'check' the same number of clients"),
        ([((*PAGES, "clients"), [1, 2])],
         "fill: only one workload of a phase may fill a data set, with one number of clients"),
        ([((*FILES, "data"), "mail"), ((*FILES, "objects"), GONE), ((*FILES, "fill"), 5)],
         "'pages': fill: only one workload of a phase may fill a data set, with one number of clients"),
        ([((*FILES, "operation"), "delete"), ((*FILES, "data"), "mail"), ((*FILES, "objects"), GONE),
          ((*FILES, "sizes"), GONE), ((*FILES, "retain_for"), GONE), ((*FILES, "seconds"), "1s"),
          ((*FILES, "after"), "pages")],
         "'pages': fill: another workload deletes objects of 'mail'; fill it in another phase"),
        ([((*MAIL, "after"), "web"), ((*WEB, "until"), GONE), ((*WEB, "after"), "check"), ((*CHECK, "after"), "web")],
         "'check': after, until: it would wait for itself"),  # and mail for both
        ([((*CHECK, "aside"), {"name": "log", "data": "log", "sizes": 5, "per_operation": 1})],
         "it must end by one of"),
        ([(("phase", 0, "copies"), 2), (("phase", 1, "copies"), 2), ((*ARRIVALS, "per_second"), 9)],
         "scale: no key uses it; write 'tiles', or '20 tiles', in place of a number in a phase: backlog_max,"),
        ([(("phase",), GONE), (("scale",), GONE)], "there is no [[sweep]] and no [[phase]], so there is nothing to"),
    ],
)  # fmt: skip
def test_invalid_combinations_are_refused(tmp_path: Path, changes: list[Any], message: str) -> None:
    assert message in refusal(tmp_path, changed(*changes))


SWEEP = {
    "name": "archive", "operation": "archive", "object_sizes": ["8KiB"], "objects_per_session": [1], "clients": [1],
    "stop": {"warm_up_sessions": 1, "warm_up_seconds": "1s", "sessions_min": 1, "large_sessions_min": 1,
             "large_session": "1MB", "seconds_min": "1s", "seconds_max": "2s", "bytes_max": "1MB",
             "client_bytes_max": "1MB", "precision": 0.1},
}  # fmt: skip


def test_scenario_with_sweeps_and_phases_is_refused(tmp_path: Path) -> None:
    message = refusal(tmp_path, {**RIGHT, "sweep": [SWEEP]})
    assert message == "[[sweep]] and [[phase]]: a scenario has only one of them; write two scenarios"


def test_weights_of_sweep_are_refused(tmp_path: Path) -> None:
    message = refusal(tmp_path, {"name": "a", "title": "b", "sweep": [SWEEP], "weights": {"archive": 1}})
    assert message == "scale, search and weights are for phases; sweeps have their own lists"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("web.cleints=2", "unknown key 'web.cleints'; did you mean 'clients'?"),
        ("wbe.clients=2", "no phase or workload 'wbe'; did you mean 'web'?"),
        ("quick.clients=2", "no phase or workload 'quick'; known here: check, files, load, mail, mix, pages, scale,"),
        ("mix.clients=2", "unknown key 'mix.clients'; did you mean 'copies'?"),
        ("scale.value=2", "unknown key 'scale.value'; did you mean 'values'?"),
        ("search.lst=2", "unknown key 'search.lst'; did you mean 'last'?"),
        ("arrivals.persecond=2", "unknown key 'arrivals.persecond'; did you mean 'per_second'?"),
        ("check.arrivals.per_second=2", "there is no table 'arrivals'; write the whole table: arrivals={ ... }"),
        ("check.colour.per_second=2", "unknown key 'check.colour.per_second'"),
        ("clients", "write it as key=value, for example --set clients=1,2"),
        ("web..clients=2", "write it as key=value"),
    ],
)
def test_override_of_unknown_key_is_refused(tmp_path: Path, override: str, message: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(toml(RIGHT))
    with pytest.raises(ScenarioError) as refused:
        read_scenario(str(path), overrides=[override])
    assert str(refused.value).startswith(f"--set {override}: ")
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("web.clients=0", "workload 'web': clients: [0] is not possible"),
        ("web.clients=many", "clients: Expected `int | array`, got `str`"),
        ("web.arrivals.per_second=fast", "arrivals.per_second: Expected `float`, got `str`"),
        ("scale.values=0", "scale.values: 0 is not possible; write more than 0, at most 1,000,000,000"),
        ("mail.data=nothing", "no workload archives 'tile 1 nothing'"),
        ("clients=" + "9" * 5000, "Expected `int | array`, got `str`"),
    ],
)
def test_override_of_phase_is_validated_like_the_file(tmp_path: Path, override: str, message: str) -> None:
    assert message in refusal(tmp_path, RIGHT, overrides=[override])


@pytest.mark.parametrize("text", ["a = " + "9" * 5000, "a = " + "[" * 5000])
def test_toml_that_breaks_the_parser_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(ScenarioError, match="not TOML"):
        read_scenario(str(tmp_path / "mine.toml"))


# ---- arbitrary values


def places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value of a document."""
    steps = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    return [found for step, value in steps for found in ((*path, step), *places(value, (*path, step)))]


WORDS = ["", "tiles", "2 tiles", "0.5 tiles", "mail", "log", "check", "8KiB", "0B", "3s", "0s", "ramp", "zipf", "drop",
         "each-once", "delete", "archive", "new-version", "99999999999999999999s", "none", "nan", "[1"]  # fmt: skip
ATOMS = st.one_of(
    st.booleans(), st.sampled_from([0, -1, 1, 2, 501, 10**6, 2**63, 10**25, 10**310]), st.integers(-9, 99),
    st.floats(), st.sampled_from(WORDS), st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=4),
    st.just(date(2026, 1, 1)), st.just(datetime(2026, 1, 1, tzinfo=UTC)),
)  # fmt: skip
KEYS = st.sampled_from(sorted({str(path[-1]) for path in places(RIGHT)} | {"operation", "median", "quick", "begins"}))
VALUES = st.recursive(
    ATOMS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=5
)


@settings(max_examples=share_of(300))
@given(st.sampled_from(places(RIGHT)), VALUES, st.booleans(), st.booleans())
def test_scenario_with_any_value_replaced_is_read_or_refused(
    tmp_path_factory: Any, path: tuple[Any, ...], value: Any, quick: bool, searches: bool
) -> None:
    file = tmp_path_factory.getbasetemp() / "anything.toml"
    file.write_text(toml(changed((path, value))))
    try:
        scenario = read_scenario(str(file), quick=quick, searches=searches)
    except ScenarioError:
        return
    assert scenario.phases
    assert all(phase.label for phase in scenario.phases)
    assert scenario.archived_max()[1] > 0


@settings(max_examples=share_of(100))
@given(st.sampled_from(["web.", "mail.", "mix.", "scale.", "search.", "", "arrivals.", "web.arrivals.", "mail.sizes."]),
       KEYS, VALUES | st.text(max_size=8).map(str))  # fmt: skip
def test_any_override_of_phases_is_applied_or_refused(tmp_path_factory: Any, name: str, key: str, value: Any) -> None:
    file = tmp_path_factory.getbasetemp() / "right.toml"
    file.write_text(toml(RIGHT))
    text = value if isinstance(value, str) else toml({"v": value}).partition("=")[2].strip()
    try:
        assert read_scenario(str(file), overrides=[f"{name}{key}={text}"]).phases
    except ScenarioError:
        return
