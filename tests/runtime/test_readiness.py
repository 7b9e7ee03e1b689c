"""The readiness of a process, and what it needs to be reached."""

import pytest

from libs.runtime.process import ready_where_reached


@pytest.mark.parametrize("said", [(True, "ready"), (False, "stopping")])
def test_a_process_that_is_reached_says_how_it_is(tmp_path, said):
    socket = tmp_path / "socket"
    socket.touch()
    assert ready_where_reached(lambda: said, str(socket))() == said
    assert ready_where_reached(lambda: said, "")() == said


def test_a_process_without_its_socket_is_not_ready(tmp_path):
    ready, reason = ready_where_reached(lambda: (True, "ready"), f"{tmp_path}/socket")()
    assert not ready
    assert reason.startswith(f"its socket in {tmp_path} is gone: ")
    assert ready_where_reached(lambda: (False, "stopping"), f"{tmp_path}/socket")() == (False, "stopping")
