"""The results of capacity exercises compared with plans made from their own rates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from results.document.table import NOT_MEASURED, Table
from results.planning.capacity import capacity_tables, mixed_trials
from results.planning.loads import LoadCourse
from results.planning.measured_rates import exercise_surface, measured_surface, published_surface, rate_cells
from results.recorded.model import CriterionResult, Offered, Result
from tests.results.conftest import MakeRun
from tests.results.planning.plans import plan_mail
from tests.results.tile_run import criterion, latency
from tests.results.watched_run import phase_record

MESSAGE, CHUNK = 32768, 1_000_000
Make = Callable[..., Result]


def offered(sessions_per_second: float) -> Offered:
    return Offered(100, sessions_per_second, 100, 0, 0, 0, None)


class Exercise:
    """Synthetic trials of a capacity exercise. Each has lone rates first, then concurrent workloads."""

    def __init__(self, make: Make) -> None:
        self._make = make
        self.results: list[Result] = []
        self.criteria: list[CriterionResult] = []
        self._position = 1

    def rate(self, operation: str, count: int, rate: float, clients: int = 1, size: int = MESSAGE) -> None:
        """Add a lone rate, in objects per second, to the next trial."""
        self.results.append(
            self._make(operation, size, count, rate, phase="rates", clients=clients, position=self._position,
                       application="archive alone" if operation == "archive" else "alone", scale=0.0)
        )  # fmt: skip

    def mail_rates(self, factor: float = 1.0) -> None:
        self.rate("archive", 30, 100 * factor)
        self.rate("archive", 30, 400 * factor, clients=8)
        self.rate("retrieve", 1, 100 * factor)
        self.rate("retrieve", 30, 300 * factor)

    def night(self, users: int, seconds: float, window: float = 30.0, aborted: bool = False, **given: Any) -> None:
        """Add a trial of e-mail: retrieving one message took 15 ms, thirty messages 250 ms."""
        held = seconds <= window
        self._position += 1  # the rates were a phase of their own
        self.one("nightly archive", "archive", users, objects_per_session=30, clients=8, seconds=seconds,
                 sizes="32 sizes of 2421B to 195123B, 32.01KiB on average", **given)  # fmt: skip
        self.one("single retrieval", "retrieve", users, objects_per_session=1, session_ms=latency(15.0, 60))
        self.one("discovery", "retrieve", users, objects_per_session=30, session_ms=latency(250.0, 30))
        self.judged("nightly archive", f"seconds <= {window:g}", window, seconds, held, users, aborted)
        self.judged("single retrieval", "session_ms.p90 <= 250", 250, 20.0, True, users)
        self._position += 1

    def video_rates(self) -> None:
        self.rate("archive", 1, 50, size=CHUNK)
        self.rate("archive", 1, 80, clients=8, size=CHUNK)
        self.rate("retrieve", 1, 100, size=CHUNK)
        self.rate("retrieve", 30, 200, size=CHUNK)
        self.rate("retrieve", 30, 300, clients=2, size=CHUNK)

    def shift(self, cameras: int, missed: int = 0) -> None:
        """Add a trial of cameras: retrieving one chunk took 25 ms, a film 600 ms."""
        each = {"object_bytes": CHUNK, "phase": "shift"}
        due = cameras / 2
        self._position += 1  # the rates were a phase of their own
        self.one("camera streams", "archive", cameras, objects_per_session=1, clients=cameras, deadline_seconds=2.0,
                 offered=offered(due), offered_per_second=due, sizes="1000000B", **each)  # fmt: skip
        self.one("playback", "retrieve", cameras, objects_per_session=1, session_ms=latency(25.0), **each)
        self.one("editors", "retrieve", cameras, objects_per_session=30, clients=2,
                 session_ms=latency(600.0), **each)  # fmt: skip
        self.judged("camera streams", "missed_deadlines == 0", 0, missed, not missed, cameras)
        self._position += 1

    def one(self, application: str, operation: str, scale: int, **given: Any) -> None:
        values = {"phase": "night", "workload": application, "application": application, "scale": float(scale),
                  "object_bytes": MESSAGE, "position": self._position, **given}  # fmt: skip
        self.results.append(self._make(operation, **values))

    def judged(
        self, workload: str, name: str, limit: float, measured: float, passed: bool, scale: int, aborted: bool = False
    ) -> None:
        self.criteria.append(
            criterion(workload, name, limit, measured, passed, scale=float(scale), position=self._position,
                      aborted=aborted)
        )  # fmt: skip

    def table(self, **given: Any) -> Table:
        (table,) = capacity_tables(self.results, self.criteria, **given)
        return table


@pytest.fixture
def exercise(make_result: Make) -> Exercise:
    return Exercise(make_result)


def texts(table: Table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows]


def notes(table: Table, what: str, column: int) -> Sequence[str]:
    return next(row[column].notes for row in table.rows if row[0].text.startswith(what))


def test_night_is_compared_with_plans_of_one_and_of_all_clients(exercise: Exercise) -> None:
    exercise.mail_rates()
    exercise.night(360, 30.0)
    exercise.mail_rates()
    exercise.night(380, 31.0)
    table = exercise.table()
    # The 10,800 messages of 360 users take 108 s at 100/s; in 30 s there are 3,000, the messages of 100 users.
    assert texts(table) == [
        ["users in 30 s", "1 client", "360", "100", "100 to 100", "+260"],
        ["users in 30 s", "8 clients", "360", "400", "400 to 400", "-10"],
        ["a night of 360 users (s)", "1 client", "30.00", "108.00", "108.00 to 108.00", "-72"],
        ["a night of 360 users (s)", "8 clients", "30.00", "27.00", "27.00 to 27.00", "+11"],
        ["one message back (ms)", "1 client", "15.0", "10.0", "10.0 to 10.0", "+50"],
        ["30 messages of a user back (ms)", "1 client", "250.0", "100.0", "100.0 to 100.0", "+150"],
    ]
    assert table.name == "mail-measured-against-planned"


def test_caption_states_assumptions_of_plan(exercise: Exercise) -> None:
    exercise.mail_rates()
    exercise.night(360, 30.0)
    caption = exercise.table().caption
    assert "Measured with 360 users, 1 trial." in caption
    assert "nightly archive had up to 8 sessions at once" in caption
    assert "it archived 32 sizes of 2421B to 195123B, 32.01KiB on average, the plan assumes" in caption
    assert "single retrieval and discovery ran at the same time" in caption


def test_trials_are_pooled_and_spread_of_rates_gives_plan_a_range(exercise: Exercise) -> None:
    for factor, seconds in ((0.8, 24.0), (1.0, 29.0), (1.25, 26.0)):
        exercise.mail_rates(factor)
        exercise.night(360, seconds)
    exercise.mail_rates()
    exercise.night(380, 31.0)
    table = exercise.table()
    night = next(row for row in table.rows if row[0].text.startswith("a night") and row[1].text == "8 clients")
    assert (night[2].text, night[3].text) == ("26.00", "27.00")  # medians; 380 users belong to another scale
    assert night[4].text != "27.00 to 27.00"
    low, high = map(float, night[4].text.split(" to "))
    assert low < 27 < high


def test_plan_from_single_trial_has_no_range(exercise: Exercise) -> None:
    exercise.mail_rates()
    exercise.night(360, 30.0)
    assert {row[4].text for row in exercise.table().rows} == {NOT_MEASURED}


def test_retrieval_times_of_trials_are_weighted_by_their_counts(exercise: Exercise) -> None:
    exercise.mail_rates()
    exercise.night(360, 30.0)
    exercise.one("single retrieval", "retrieve", 360, session_ms=latency(45.0, 20), objects_per_session=1)
    exercise.results[-1] = replace(exercise.results[-1], position=exercise.results[-2].position)
    (row,) = [row for row in exercise.table().rows if row[0].text == "one message back (ms)"]
    assert row[2].number == pytest.approx((15 * 60 + 45 * 20) / 80)


def test_failure_at_fewest_users_leaves_number_of_users_unmeasured(exercise: Exercise) -> None:
    exercise.mail_rates()
    exercise.night(100, 33.0, aborted=True)
    table = exercise.table()
    users, night = table.rows[0], table.rows[2]
    assert users[2].text == NOT_MEASURED
    assert users[5].text == NOT_MEASURED
    assert notes(table, "users", 2) == ("100, the fewest tried, failed; other values are from there",)
    assert night[0].text == "a night of 100 users (s)"
    assert night[2].text == NOT_MEASURED  # the trial was aborted before everything was archived
    assert night[3].text == "30.00"


def test_failure_limited_by_client_leaves_lower_bound_of_users(exercise: Exercise) -> None:
    for users, seconds, limited_by in ((10, 3.0, None), (20, 40.0, "client")):
        exercise.mail_rates()
        exercise.night(users, seconds, limited_by=limited_by)
    assert exercise.table().rows[0][2].text == "10"
    assert notes(exercise.table(), "users in", 2) == ("at least: the client was the limit at 20",)
    exercise.mail_rates()
    exercise.night(15, 40.0)
    assert notes(exercise.table(), "users in", 2) == ()


def test_most_users_tried_is_lower_bound_without_failure(exercise: Exercise) -> None:
    for users in (100, 200):
        exercise.mail_rates()
        exercise.night(users, users / 20)
    table = exercise.table()
    assert table.rows[0][2].text == "200"
    assert notes(table, "users", 2) == ("at least: 200, the most tried, passed",)
    assert table.rows[0][5].text == NOT_MEASURED  # the error of the plan is unknown
    assert table.rows[2][5].text != NOT_MEASURED


def test_number_of_users_is_largest_below_every_failure(exercise: Exercise) -> None:
    for users, seconds in ((100, 9.0), (200, 33.0), (300, 29.0)):
        exercise.mail_rates()
        exercise.night(users, seconds)
    table = exercise.table()
    assert table.rows[0][2].text == "100"
    assert not notes(table, "users", 2)


def test_exercise_without_window_has_no_row_of_users(exercise: Exercise) -> None:
    exercise.mail_rates()
    exercise.night(100, 9.0)
    exercise.criteria = [each for each in exercise.criteria if not each.name.startswith("seconds")]
    assert texts(exercise.table())[0][0] == "a night of 100 users (s)"


def test_cameras_and_films_are_compared_with_plans_per_client_count(exercise: Exercise) -> None:
    exercise.video_rates()
    exercise.shift(120)
    exercise.video_rates()
    exercise.shift(130, missed=3)
    table = exercise.table()
    # A chunk is 2 s of a camera, so 50 chunks/s are 100 cameras. 30 chunks at 200/s take 150 ms, two films 300 ms;
    # with two clients, 60 chunks at 300/s take 200 ms.
    assert texts(table) == [
        ["cameras", "1 client", "120", "100", "100 to 100", "+20"],
        ["cameras", "8 clients", "120", "160", "160 to 160", "-25"],
        ["one chunk back (ms)", "1 client", "25.0", "10.0", "10.0 to 10.0", "+150"],
        ["2 films of 30 chunks at once (ms)", "1 client", "600.0", "300.0", "300.0 to 300.0", "+100"],
        ["2 films of 30 chunks at once (ms)", "2 clients", "600.0", "200.0", "200.0 to 200.0", "+200"],
    ]


def test_exercise_with_published_rates_reproduces_published_example(exercise: Exercise) -> None:
    exercise.night(30_000, 3_200.0, window=3600.0, object_bytes=20 * 1024)
    table = exercise.table(surface=published_surface("reference:dr550"))
    night = next(row for row in table.rows if row[0].text == "a night of 30,000 users (s)")
    assert night[3].number == pytest.approx(51 * 60 + 35, abs=30)
    assert night[1].text == "1 client"


def test_plan_values_show_warnings_of_their_rates(exercise: Exercise) -> None:
    exercise.rate("archive", 30, 100, size=8192)
    exercise.night(100, 29.0)
    table = exercise.table()
    told = notes(table, "users", 3)
    assert any("EXTRAPOLATED" in note and "4.0 times the largest measured size" in note for note in told)
    # The exercise has no lone rate of retrieve.
    assert notes(table, "one message", 3) == notes(table, "30 messages", 3)
    assert "did not measure retrieve" in notes(table, "one message", 3)[0]
    assert table.rows[-1][3].text == NOT_MEASURED


def test_rates_too_far_from_load_give_no_plan_and_reason(exercise: Exercise) -> None:
    exercise.rate("archive", 30, 100, size=1024)
    exercise.night(100, 29.0)
    table = exercise.table()
    assert {row[3].text for row in table.rows} == {NOT_MEASURED}
    assert "more than 4 times beyond" in notes(table, "users", 3)[0]


def test_rates_come_only_from_lone_measurements(exercise: Exercise) -> None:
    exercise.mail_rates()
    exercise.night(100, 29.0)
    assert {key[:4] for key in rate_cells(exercise.results)} == {
        ("archive", MESSAGE, 30, 1), ("archive", MESSAGE, 30, 8), ("retrieve", MESSAGE, 1, 1),
        ("retrieve", MESSAGE, 30, 1),
    }  # fmt: skip
    assert not rate_cells([each for each in exercise.results if each.phase != "rates"])


def test_plan_from_exercise_run_uses_only_its_lone_rates(exercise: Exercise, make_run: MakeRun) -> None:
    exercise.mail_rates()
    exercise.night(100, 29.0)
    phases = [phase_record(at, result, 2 * at, 2 * at + 1) for at, result in enumerate(exercise.results, 1)]
    cells = measured_surface(make_run(phases)).cells
    assert {key: set(table) for key, table in cells.items()} == {
        ("archive", 1): {(MESSAGE, 30)},
        ("archive", 8): {(MESSAGE, 30)},
        ("retrieve", 1): {(MESSAGE, 1), (MESSAGE, 30)},
    }


def test_run_without_lone_rates_uses_workload_rates_with_warning(exercise: Exercise, make_run: MakeRun) -> None:
    exercise.night(100, 29.0)
    surface = measured_surface(make_run([phase_record(1, exercise.results[0], 2, 3, results=exercise.results)]))
    (night,) = surface.cells["archive", 8].values()
    assert night.objects_per_second.value == 500.0
    assert "measured next to discovery, single retrieval" in night.doubts


def test_runs_without_rates_and_trials_have_no_capacity_table(exercise: Exercise, make_result: Make) -> None:
    assert capacity_tables([]) == []
    assert capacity_tables([make_result("archive")]) == []
    exercise.mail_rates()
    assert capacity_tables(exercise.results) == []  # interrupted before the first night
    exercise.results.clear()
    exercise.night(100, 29.0)
    assert capacity_tables(exercise.results, exercise.criteria) == []  # no rates to plan with


def test_night_without_measurements_gives_empty_table(exercise: Exercise) -> None:
    exercise.mail_rates()
    exercise.night(100, 33.0)
    exercise.results = [
        each if each.phase == "rates" else replace(each, objects=0, session_ms=None) for each in exercise.results
    ]
    assert exercise.table().rows == ()


def test_plan_quotes_what_same_run_measured_next_to_other_loads(exercise: Exercise) -> None:
    """With 8 clients the rates allow 400 users in 30 s; 360 passed, and with 380 the night was too long."""
    exercise.mail_rates()
    exercise.night(360, 30.0)
    exercise.mail_rates()
    exercise.night(380, 31.0)
    found = mixed_trials(exercise.results, exercise.criteria)
    assert [(trial.clients, trial.planned, trial.measured) for trial in found] == [(1, 100, 360), (8, 400, 360)]
    rates = exercise_surface(exercise.results, "run 1")
    assert rates is not None
    surface = replace(rates, mixed=found)
    quote = "400 users in 30 s were planned with 8 clients, 360 measured next to single retrieval and discovery (90%)"
    for headroom, advice in ((0.2, ""), (0.05, "; this plan keeps 5% free: give --headroom 10%")):
        course = LoadCourse(1, headroom_share=headroom)
        plan = plan_mail(surface, users=10, messages=30, mean_bytes=MESSAGE, course=course)
        assert f"the same run: {quote}{advice}" in plan.doubts
    alone = plan_mail(replace(surface, mixed=()), users=10, messages=30, mean_bytes=MESSAGE)
    assert any(doubt.startswith("loads at the same time were not measured") for doubt in alone.doubts)


def test_largest_tried_load_is_quoted_as_lower_bound(exercise: Exercise) -> None:
    exercise.mail_rates()
    exercise.night(360, 20.0)
    assert [trial.is_lower_bound for trial in mixed_trials(exercise.results, exercise.criteria)] == [True, True]
    exercise.results.clear()
    assert mixed_trials(exercise.results, exercise.criteria) == ()
