"""One member of a group, a process of its own, and what it told: the lines of Kafka's VerifiableConsumer."""

import json
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Partition = tuple[str, int]
TIMEOUT_S = 60.0


class Member:
    """Starts at once. `owned`, `read` and `committed` are as it last said; wait for what they shall become by `until`.

    A member that writes what is no event (a stack trace, say) keeps it for those who ask in `noise`.
    """

    def __init__(self, command: Sequence[str], *, log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.owned: set[Partition] = set()
        self.read: Counter[tuple[Partition, int]] = Counter()
        self.committed: dict[Partition, int] = {}
        self.uncommitted: set[tuple[Partition, int]] = set()  # what it read, and could not commit when it wanted to
        self.rebalances = 0  # times that it was given partitions, or had to give up some
        self.events: list[dict[str, Any]] = []
        self._log = log
        self._event_read = threading.Condition()
        with open(log, "wb") as stderr:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def until(self, question: Callable[[], object], what: str, within_s: float = TIMEOUT_S) -> None:
        """Waits until the condition holds; it is asked again at each event of the member."""
        deadline = time.monotonic() + within_s
        with self._event_read:
            while not question():
                left = deadline - time.monotonic()
                assert left > 0, f"{what}: not within {within_s} s; {self.story()}"
                assert self._process.poll() is None or self._listener.is_alive(), f"{what}: it ended; {self.story()}"
                self._event_read.wait(min(left, 0.5))

    def until_owns(self, partitions: set[Partition], within_s: float = TIMEOUT_S) -> None:
        self.until(lambda: self.owned == partitions, f"owns {sorted(partitions)}", within_s)

    def leave(self) -> None:
        """SIGTERM: it commits, leaves the group and ends."""
        self._process.send_signal(signal.SIGTERM)
        self._end()
        assert self._process.returncode in (0, 128 + signal.SIGTERM), self.story()  # a JVM says 143
        assert self.events[-1]["name"] == "shutdown_complete", self.story()

    def kill(self) -> None:
        """SIGKILL: the group hears nothing."""
        self._process.kill()
        self._end()

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._end()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def story(self) -> str:
        """The member's events and output, for a failure's text."""
        last = "\n".join(json.dumps(event)[:400] for event in self.events[-15:])
        refused = "\n".join(json.dumps(event)[:600] for event in self.events if event.get("success") is False)
        details = (
            f"last said:\n{last}\nrefused commits:\n{refused}\n{self._log.read_text(errors='replace', encoding='utf-8')[-3000:]}"
        )
        return f"owns {sorted(self.owned)}, {details}"

    def _end(self) -> None:
        self._process.wait(timeout=TIMEOUT_S)
        self._listener.join(timeout=TIMEOUT_S)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(b"{"):
                with self._event_read:
                    self._hear(json.loads(line))
                    self._event_read.notify_all()

    def _hear(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        match event["name"]:
            case "partitions_assigned":
                self.owned |= _partitions(event)
                self.rebalances += bool(event["partitions"])
            case "partitions_revoked":
                self.owned -= _partitions(event)
                self.rebalances += bool(event["partitions"])
            case "records_consumed":
                for found in event["partitions"]:
                    where = (found["topic"], found["partition"])
                    self.read.update((where, offset) for offset in range(found["minOffset"], found["maxOffset"] + 1))
            case "offsets_committed":
                offsets = {(at["topic"], at["partition"]): at["offset"] for at in event["offsets"]}
                if event["success"]:
                    self.committed.update(offsets)
                    return
                for where, refused in offsets.items():
                    self.uncommitted |= {(where, offset) for offset in range(self.committed.get(where, 0), refused)}


def _partitions(event: dict[str, Any]) -> set[Partition]:
    return {(where["topic"], where["partition"]) for where in event["partitions"]}
