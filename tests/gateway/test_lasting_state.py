from services.gateway.core.lasting_state import LastingState


def test_a_state_begins_with_its_first_event_and_lasts_while_others_follow() -> None:
    state = LastingState(10.0)
    assert state.since(5.0) is None
    state.note(5.0)
    state.note(14.0)
    assert state.since(24.0) == 5.0


def test_a_state_that_is_over_begins_anew() -> None:
    state = LastingState(10.0)
    state.note(5.0)
    assert state.since(15.1) is None
    state.note(16.0)
    assert state.since(17.0) == 16.0
