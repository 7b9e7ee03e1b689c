"""The failure detector: which members count as dead, and which do not."""

from collections.abc import Iterable

import pytest

from libs.cluster.records import CONTROLLER, GATEWAY, GROUP_COORDINATOR, STORAGE
from services.controller.core.failure_detection.liveness import (
    HEARTBEAT_MS,
    PROBE_AGAIN_MS,
    TRANSITIONS,
    UNHEARD_MS,
    Event,
    Liveness,
    Process,
    State,
)

TICK_MS = 200
SILENCE_MS = 2_000


def storage(node_id: int, incarnation: int = 1) -> Process:
    return Process(STORAGE, node_id, incarnation)


ONE, TWO, THREE, FOUR = (storage(n) for n in (1, 2, 3, 4))
GATE = Process(GATEWAY, 1, 1)


class Watch:
    """A controller's view, moved on through time."""

    def __init__(self, *registered: Process, silence_ms: int = SILENCE_MS) -> None:
        self.detection = Liveness(silence_ms)
        self.now_ms = 1_000_000
        self.detection.watch(registered, self.now_ms)
        self.hear(registered)

    def hear(self, processes: Iterable[Process]) -> None:
        for process in processes:
            self.detection.heartbeat(process, self.now_ms)

    def pass_ms(self, duration_ms: int, *heard: Process) -> list[Process]:
        """Lets time pass in ticks, while `heard` members send heartbeats. Returns the dead members."""
        for _ in range(duration_ms // TICK_MS):
            self.now_ms += TICK_MS
            self.hear(heard)
            self.detection.tick(self.now_ms, TICK_MS)
        return self.detection.dead()

    def probe(self, process: Process, *, refused: bool) -> None:
        assert self.detection.due_probes(self.now_ms) == [process]
        self.detection.probed(process, self.now_ms, refused=refused)


def test_a_process_that_refuses_a_probe_after_its_connection_was_lost_is_dead_at_once() -> None:
    watch = Watch(ONE, TWO, THREE)
    watch.detection.connection_lost(ONE, watch.now_ms)
    watch.probe(ONE, refused=True)
    assert watch.detection.dead() == [ONE]


def test_a_process_that_accepts_a_probe_is_probed_again_until_it_is_heard() -> None:
    watch = Watch(ONE, TWO, THREE)
    watch.detection.connection_lost(ONE, watch.now_ms)
    for pause_ms in PROBE_AGAIN_MS:
        watch.probe(ONE, refused=False)
        assert watch.detection.next_probe_ms() == watch.now_ms + pause_ms
        watch.now_ms += pause_ms
    watch.hear([ONE])
    assert watch.detection.state(ONE) is State.ALIVE
    assert watch.detection.due_probes(watch.now_ms) == []


def test_a_process_that_was_ending_while_it_was_probed_refuses_the_next_probe() -> None:
    watch = Watch(ONE, TWO, THREE)
    watch.detection.connection_lost(ONE, watch.now_ms)
    watch.probe(ONE, refused=False)
    watch.now_ms += PROBE_AGAIN_MS[0]
    watch.probe(ONE, refused=True)
    assert watch.detection.dead() == [ONE]


def test_silence_counts_after_two_seconds_and_no_sooner() -> None:
    watch = Watch(ONE, TWO, THREE, GATE)
    assert watch.pass_ms(SILENCE_MS - TICK_MS, TWO, THREE) == []
    assert watch.pass_ms(TICK_MS, TWO, THREE) == [ONE, GATE]


def test_half_of_the_storage_nodes_falling_silent_together_means_that_we_are_cut_off() -> None:
    watch = Watch(ONE, TWO, THREE, FOUR)
    assert watch.pass_ms(2 * SILENCE_MS, ONE, TWO) == []
    assert watch.detection.cut_off
    watch.hear([THREE])
    assert watch.pass_ms(TICK_MS, ONE, TWO, THREE) == [FOUR]
    assert not watch.detection.cut_off


def test_silences_that_begin_within_two_heartbeats_of_each_other_began_together() -> None:
    watch = Watch(ONE, TWO, THREE)
    watch.pass_ms(2 * HEARTBEAT_MS, TWO, THREE)
    assert watch.pass_ms(2 * SILENCE_MS, THREE) == []
    assert watch.detection.cut_off


def test_one_node_of_two_that_falls_silent_is_dead() -> None:
    watch = Watch(ONE, TWO)
    assert watch.pass_ms(SILENCE_MS, TWO) == [ONE]
    assert not watch.detection.cut_off


def test_refusals_are_no_silence_however_many_they_are() -> None:
    watch = Watch(ONE, TWO, THREE)
    for process in (ONE, TWO, THREE):
        watch.detection.connection_lost(process, watch.now_ms)
        watch.probe(process, refused=True)
    assert watch.pass_ms(2 * SILENCE_MS) == [ONE, TWO, THREE]
    assert not watch.detection.cut_off


def test_gateways_that_fall_silent_say_nothing_of_our_own_place() -> None:
    others = [Process(GATEWAY, n, 1) for n in (1, 2, 3)]
    watch = Watch(ONE, TWO, *others)
    assert watch.pass_ms(SILENCE_MS, ONE, TWO) == others


def test_coordinators_that_fall_silent_are_dead_and_say_nothing_of_our_own_place() -> None:
    coordinators = [Process(GROUP_COORDINATOR, n, 1) for n in (1, 2, 3)]
    watch = Watch(ONE, TWO, THREE, FOUR, *coordinators)
    assert watch.pass_ms(SILENCE_MS - TICK_MS, ONE, TWO, THREE, FOUR) == []
    assert watch.pass_ms(TICK_MS, ONE, TWO, THREE, FOUR) == coordinators
    assert not watch.detection.cut_off


def test_a_controller_that_is_cut_off_does_not_take_coordinators_heard_just_before_the_nodes_for_dead() -> None:
    coordinator = Process(GROUP_COORDINATOR, 1, 1)
    watch = Watch(ONE, TWO, THREE, coordinator)
    watch.pass_ms(2 * HEARTBEAT_MS, ONE, TWO, THREE)
    assert watch.pass_ms(2 * SILENCE_MS) == []
    assert watch.detection.cut_off


def test_a_controller_that_stood_still_does_not_take_its_own_pause_for_silence() -> None:
    watch = Watch(ONE, TWO, THREE)
    watch.pass_ms(TICK_MS, ONE, TWO, THREE)
    watch.now_ms += 60_000
    watch.detection.tick(watch.now_ms, TICK_MS)
    assert watch.detection.dead() == []
    assert not watch.detection.cut_off
    assert watch.pass_ms(SILENCE_MS, TWO, THREE) == [ONE], "but who says nothing afterwards is silent"


def test_a_process_that_was_never_heard_is_probed_and_left_to_its_lease_unless_it_refuses() -> None:
    watch = Watch(ONE, TWO, THREE)
    watch.detection.watch([ONE, TWO, THREE, FOUR], watch.now_ms)
    watch.pass_ms(UNHEARD_MS, ONE, TWO, THREE)
    watch.probe(FOUR, refused=False)
    assert watch.pass_ms(10 * SILENCE_MS, ONE, TWO, THREE) == []
    watch.probe(FOUR, refused=True)
    assert watch.detection.dead() == [FOUR]


def test_a_controller_is_not_missed_for_its_silence() -> None:
    other = Process(CONTROLLER, 2, 1)
    watch = Watch(ONE, TWO, other)
    assert watch.pass_ms(2 * SILENCE_MS, ONE, TWO) == []
    watch.detection.connection_lost(other, watch.now_ms)
    watch.probe(other, refused=True)
    assert watch.detection.dead() == [other]


def test_a_process_that_is_heard_again_lives() -> None:
    watch = Watch(ONE, TWO, THREE)
    assert watch.pass_ms(SILENCE_MS, TWO, THREE) == [ONE]
    watch.hear([ONE])
    assert watch.detection.dead() == []


def test_a_heartbeat_says_whether_it_changed_anything() -> None:
    watch = Watch(ONE, TWO, THREE)
    assert not watch.detection.heartbeat(ONE, watch.now_ms)
    assert watch.pass_ms(SILENCE_MS, TWO, THREE) == [ONE]
    assert watch.detection.heartbeat(ONE, watch.now_ms)
    assert not watch.detection.heartbeat(ONE, watch.now_ms)
    assert not watch.detection.heartbeat(Process(STORAGE, 9, 1), watch.now_ms), "nobody watches it"


def test_a_fact_about_a_former_incarnation_concerns_nobody() -> None:
    """A restarted node is registered: its former connection ends late, and a probe of its former life is answered late."""
    watch = Watch(ONE, TWO, THREE)
    watch.detection.connection_lost(ONE, watch.now_ms)
    assert watch.detection.due_probes(watch.now_ms) == [ONE]
    restarted = storage(1, incarnation=2)
    watch.detection.watch([restarted, TWO, THREE], watch.now_ms)
    watch.hear([restarted])
    watch.detection.probed(ONE, watch.now_ms, refused=True)
    watch.detection.connection_lost(ONE, watch.now_ms)
    watch.detection.heartbeat(ONE, watch.now_ms)
    assert watch.detection.dead() == []
    assert watch.detection.state(ONE) is None
    assert watch.detection.state(restarted) is State.ALIVE


def test_a_member_may_be_silent_for_as_long_as_the_setting_says() -> None:
    watch = Watch(ONE, TWO, THREE, silence_ms=30_000)
    assert watch.pass_ms(30_000 - TICK_MS, TWO, THREE) == []
    assert watch.pass_ms(TICK_MS, TWO, THREE) == [ONE]


def test_members_that_fall_silent_together_are_recognised_under_a_longer_silence() -> None:
    watch = Watch(ONE, TWO, THREE, silence_ms=30_000)
    assert watch.pass_ms(60_000, ONE) == []
    assert watch.detection.cut_off


def test_a_refusal_that_comes_after_a_heartbeat_came_late() -> None:
    watch = Watch(ONE, TWO, THREE)
    watch.detection.connection_lost(ONE, watch.now_ms)
    assert watch.detection.due_probes(watch.now_ms) == [ONE]
    watch.hear([ONE])
    watch.detection.probed(ONE, watch.now_ms, refused=True)
    assert watch.detection.dead() == []


@pytest.mark.parametrize("state", State)
def test_a_heartbeat_proves_life_in_every_state(state: State) -> None:
    assert TRANSITIONS[state][Event.HEARTBEAT] is State.ALIVE


@pytest.mark.parametrize("state", [State.ALIVE, State.SUSPECTED])
def test_nobody_is_dead_by_a_refusal_that_was_not_asked_for(state: State) -> None:
    assert Event.REFUSED not in TRANSITIONS[state]
