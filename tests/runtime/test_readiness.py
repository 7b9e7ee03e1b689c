"""The readiness of a process, and what it needs to be reached."""

import pytest

from libs.runtime.process import ready_where_reached


@pytest.mark.parametrize("said", [(True, "ready"), (False, "stopping")])
def test_a_process_that_is_reached_says_how_it_is(tmp_path, said):
    socket = tmp_path / "socket"
    socket.touch()
    assert ready_where_reached(lambda: said, str(socket))() == said
    assert ready_where_reached(lambda: said, "")() == said


def test_a_process_whose_socket_is_gone_is_not_ready(tmp_path):
    socket = tmp_path / "socket"
    socket.touch()
    said = [(True, "ready")]
    reached = ready_where_reached(lambda: said[-1], str(socket))
    assert reached() == (True, "ready")
    socket.unlink()
    ready, reason = reached()
    assert not ready
    assert reason.startswith(f"its socket in {tmp_path} is gone: start it anew")
    said.append((False, "stopping"))
    assert reached() == (False, "stopping")


def test_a_process_that_has_yet_to_open_its_socket_need_not_start_anew(tmp_path):
    """The admin port answers earlier; `make up` gave up on a slow machine."""
    socket = tmp_path / "socket"
    reached = ready_where_reached(lambda: (True, "ready"), str(socket))
    assert reached() == (False, f"its socket in {tmp_path} is not open yet")
    socket.touch()
    assert reached() == (True, "ready")
