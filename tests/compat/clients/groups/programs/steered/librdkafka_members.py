"""Members of groups on librdkafka, steered by lines on stdin: a verb, the member's name, arguments. They read and commit nothing.

open NAME PROTOCOL SESSION_MS MAX_POLL_INTERVAL_MS BOOTSTRAP TOPIC…     subscribe NAME TOPIC…     unsubscribe NAME
hang NAME                                                                close NAME
"""

import queue
import sys
import threading

from confluent_kafka import Consumer

POLL_S = 0.05


def settings(name: str, protocol: str, session_ms: str, max_poll_interval_ms: str, bootstrap: str) -> dict[str, object]:
    chosen: dict[str, object] = {
        "bootstrap.servers": bootstrap,
        "group.id": name,
        "group.protocol": protocol,
        "enable.auto.commit": False,
        "topic.metadata.refresh.interval.ms": 500,
        "max.poll.interval.ms": int(max_poll_interval_ms),
    }
    if protocol == "classic":
        chosen |= {"session.timeout.ms": int(session_ms), "heartbeat.interval.ms": 300}
    return chosen


def live(consumer: Consumer, commands: "queue.Queue[list[str]]") -> None:
    """A member's life, in a thread of its own. `hang` stops its polls once it has partitions."""
    polls = True
    while True:
        try:
            verb, *topics = commands.get(block=not polls)
        except queue.Empty:
            consumer.poll(POLL_S)
            continue
        match verb:
            case "subscribe":
                consumer.subscribe(topics)
            case "unsubscribe":
                consumer.unsubscribe()
            case "hang":
                while not consumer.assignment():
                    consumer.poll(POLL_S)
                polls = False
            case "close":
                consumer.close()
                return


members: dict[str, "queue.Queue[list[str]]"] = {}
for line in sys.stdin:
    verb, name, *rest = line.split()
    if verb == "open":
        protocol, session_ms, max_poll_interval_ms, bootstrap, *topics = rest
        opened = Consumer(settings(name, protocol, session_ms, max_poll_interval_ms, bootstrap))
        members[name] = queue.Queue()
        members[name].put(["subscribe", *topics])
        threading.Thread(target=live, args=(opened, members[name]), daemon=True).start()
    else:
        members[name].put([verb, *rest])
