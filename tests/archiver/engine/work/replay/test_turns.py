"""Test turns: a change has an object alone, in order; reads run concurrently."""

from __future__ import annotations

import asyncio
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from archiver.engine.work.replay.turns import Turn, Turns


def are_ready(*turns: Turn) -> list[bool]:
    return [turn.is_mine for turn in turns]


def test_reads_run_concurrently_and_a_change_waits_for_all_of_them() -> None:
    turns = Turns()
    first, second = turns.take((1, False)), turns.take((1, False))
    change = turns.take((1, True))
    later = turns.take((1, False))
    assert are_ready(first, second, change, later) == [True, True, False, False]
    turns.done(second)
    assert are_ready(change) == [False]
    turns.done(first)
    assert are_ready(change, later) == [True, False]
    assert change.ready_ns > 0
    assert first.ready_ns == 0
    turns.done(change)
    assert are_ready(later) == [True]


def test_other_objects_do_not_wait_but_copies_wait_for_both() -> None:
    turns = Turns()
    write, other = turns.take((1, True)), turns.take((2, True))
    copy = turns.take((3, True), (1, False))
    read = turns.take((3, False))
    assert are_ready(other, copy, read) == [True, False, False]
    turns.done(write)
    assert are_ready(copy, read) == [True, False]
    turns.done(copy)
    assert are_ready(read) == [True]


def test_copy_onto_itself_waits_only_for_other_operations() -> None:
    turns = Turns()
    read = turns.take((1, False))
    copy = turns.take((1, True), (1, False))
    assert are_ready(copy) == [False]
    turns.done(read)
    assert are_ready(copy) == [True]
    turns.done(copy)
    assert turns.take((1, True)).is_mine


async def test_waiting_turn_wakes_when_the_last_one_ahead_is_done() -> None:
    turns = Turns()
    ahead = [turns.take((1, False)) for _ in range(2)]
    change = turns.take((1, True))
    waiting = asyncio.create_task(change.wait())
    for each in ahead:
        assert not waiting.done()
        turns.done(each)
        await asyncio.sleep(0)
    await asyncio.wait_for(waiting, 5)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=30), st.randoms(use_true_random=False)
)
def test_every_turn_becomes_ready_and_changes_stay_in_order(wanted: list[tuple[int, bool]], chance: Random) -> None:
    turns = Turns()
    waiting = {place: turns.take(each) for place, each in enumerate(wanted)}
    done: list[int] = []
    while waiting:
        ready = [place for place, turn in waiting.items() if turn.is_mine]
        assert ready, "somebody waits for himself"
        for place in ready:
            number, changes = wanted[place]
            beside = [wanted[other] for other in ready if other != place and wanted[other][0] == number]
            assert not beside if changes else all(not changing for _, changing in beside)
        chosen = chance.choice(ready)
        turns.done(waiting.pop(chosen))
        done.append(chosen)
    for later in range(len(wanted)):
        for earlier in range(later):
            if wanted[earlier][0] == wanted[later][0] and (wanted[earlier][1] or wanted[later][1]):
                assert done.index(earlier) < done.index(later)
