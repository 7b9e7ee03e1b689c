"""The spans of an append, from its stage times and the progress of replicas."""

from libs.telemetry.tracing.span import Span, SpanContext
from libs.telemetry.tracing.span_tree import SpanTree
from services.storage.core.produce.append_spans import AnsweredAppend, add_spans
from services.storage.core.produce.progress_trail import ProgressTrail, Reached

KEY, OTHER = (b"t" * 16, 0), (b"t" * 16, 1)


def append(
    *,
    acks: int = -1,
    synced: bool = True,
    followers: tuple[int, ...] = (2, 3),
    reached: dict[int, Reached] | None = None,
    write: tuple[float, float, float] = (1.0, 1.1, 1.2),
) -> AnsweredAppend:
    """Received at 1.0, answered at 2.0."""
    return AnsweredAppend("orders", 0, 1, 5, acks, 40, 1.0, write, 2.0, synced, followers, (1, 2), reached)


def story(answered: AnsweredAppend) -> list[str]:
    """Each span with its times, in tenths of a second, below its parent."""
    ids = iter(range(10, 99))
    tree = SpanTree(SpanContext(1, 9), 8, 0, lambda: next(ids))
    add_spans(answered, tree)
    depths: dict[int | None, int] = {8: -1}
    lines = []
    for span in tree.spans:
        depths[span.context.span_id] = depths[span.parent_id] + 1
        indent, times = "  " * depths[span.context.span_id], f"{tenths(span.start_ns)}-{tenths(span.end_ns)}"
        lines.append(f"{indent}{span.name} {times}{told(span)}")
    return lines


def tenths(at_ns: int) -> int:
    return round(at_ns / 1e8)


def told(span: Span) -> str:
    """What a follower's step says beside its times."""
    attributes = span.attributes if span.name.startswith("follower") else {}
    return "".join([f" {name.removeprefix('penstock.')}={value}" for name, value in attributes.items()])


def test_each_follower_is_a_step_of_the_wait_for_replication() -> None:
    reached = {1: Reached(1.3, exact=True), 2: Reached(1.4, exact=True), 3: Reached(2.0, exact=True)}
    assert story(append(reached=reached)) == [
        "append orders 10-20",
        "  check 10-11",
        "  write 11-12",
        "  sync 12-13",
        "  replication wait 12-20",
        "    follower 2 12-14 follower.id=2 follower.in_sync=True",
        "    follower 3 12-20 follower.id=3 follower.in_sync=False",
    ]


def test_a_follower_that_never_had_it_says_so() -> None:
    lines = story(append(reached={2: Reached(1.4, exact=True)}, synced=False))
    assert lines[-1] == "    follower 3 12-20 follower.id=3 follower.in_sync=False reached=False"
    assert "  sync 12-13" not in lines


def test_a_time_that_the_trail_has_forgotten_is_a_bound() -> None:
    lines = story(append(reached={2: Reached(1.4, exact=False), 3: Reached(2.0, exact=False)}))
    assert lines[-2] == "    follower 2 12-14 follower.id=2 follower.in_sync=True end.bound=True"


def test_an_append_that_waited_to_be_checked_says_so() -> None:
    assert story(append(acks=1, write=(1.5, 1.6, 1.7)))[1:] == ["  wait 10-15", "  check 15-16", "  write 16-17"]


def test_an_append_without_followers_waits_for_none() -> None:
    assert story(append(followers=(), synced=False))[1:] == ["  check 10-11", "  write 11-12"]


def test_the_trail_tells_when_each_replica_first_had_an_offset() -> None:
    trail = ProgressTrail()
    trail.note(KEY, 2, 5, now=1.0)  # before the append
    trail.note(KEY, 2, 7, now=2.1)
    trail.note(OTHER, 3, 99, now=2.2)
    trail.note(KEY, 3, 8, now=2.3)
    trail.note(KEY, 2, 9, now=2.4)
    trail.note(KEY, 3, 9, now=2.5)
    assert trail.reached(KEY, 7, since=2.0) == {2: Reached(2.1, exact=True), 3: Reached(2.3, exact=True)}
    assert trail.reached(KEY, 10, since=2.0) == {}


def test_a_full_trail_forgets_the_oldest_and_says_what_that_means() -> None:
    trail = ProgressTrail(entries_max=2)
    for at in (2.1, 2.2, 2.3):
        trail.note(KEY, 2, 7, now=at)
    assert trail.reached(KEY, 7, since=2.0) == {2: Reached(2.2, exact=False)}
    assert trail.reached(KEY, 7, since=2.2) == {2: Reached(2.2, exact=True)}
