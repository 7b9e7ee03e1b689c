"""Wrong arguments of the operations' programs are refused by name, and a cluster that is not there in a sentence."""

import contextlib
import socket
import threading

import pytest

from services.operations.__main__ import main
from tests.support.ports import reserve_ports


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["smoke"], "--bootstrap"),
        (["smoke", "--bootstrap", "kafka"], "'kafka' is not HOST:PORT"),
        (["smoke", "--bootstrap-server", "kafka"], "'kafka' is not HOST:PORT"),
        (["smoke", "--bootstrap", "kafka:70000"], "'kafka:70000' is not HOST:PORT"),
        (["smoke", "--bootstrap", "kafka:9092", "--timeout", "0"], "'0' is not a number of seconds above 0"),
        (["smoke", "--bootstrap", "kafka:9092", "--timeout", "nan"], "'nan' is not a number of seconds above 0"),
        (["decommission", "--bootstrap", "kafka:9092"], "--keep"),
        (["decommission", "--bootstrap", "kafka:9092", "--keep", "0"], "'0' is not a whole number from 1"),
        (["repair", "--bootstrap", "kafka:9092"], "repair"),
    ],
)
def test_wrong_arguments_are_refused_by_name(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("program", ["smoke", "decommission", "forget"])
def test_a_cluster_that_is_not_there_is_told_in_a_sentence(program: str) -> None:
    ports = reserve_ports(1)
    keep = [] if program == "smoke" else ["--keep", "3"]
    with pytest.raises(SystemExit) as ended:
        main([program, "--bootstrap", f"127.0.0.1:{ports.first}", "--timeout", "0.1", *keep])
    ports.release()
    assert f"127.0.0.1:{ports.first} cannot be reached" in str(ended.value.code)


def test_a_listener_that_hangs_up_on_plaintext_is_told_to_need_settings_perhaps() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up() -> None:
            with contextlib.suppress(OSError):
                while True:
                    listener.accept()[0].close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(SystemExit, match="as at a listener with TLS or SASL, whose settings this client was not given"):
            main(["forget", "--bootstrap", f"127.0.0.1:{listener.getsockname()[1]}", "--timeout", "0.1", "--keep", "3"])
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_a_node_that_does_not_answer_is_not_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    ports = reserve_ports(1)
    main(["await-in-sync", "--admin", f"127.0.0.1:{ports.first}"])
    ports.release()
    assert "await-in-sync: done" in capsys.readouterr().out
