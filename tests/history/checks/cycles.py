"""Calls that each must have come before the other.

Edges: from a value's writer to its readers (wr), from the writer of a record to that of the next in its partition (ww), and from
what ended to what began later, which holds within a process too. A chain of moments, one for each op, carries those last ones,
so that there are no more edges than ops.
"""

from collections.abc import Iterator
from itertools import pairwise

from tests.history.calls import NEVER, Call
from tests.history.finding import Finding
from tests.history.log import Evidence

Graph = list[list[int]]


def read_cycles(evidence: Evidence) -> Iterator[Finding]:
    """G1c: no transaction may see, even by detours, what was written by one that saw it."""
    for calls in _cycles(evidence, ww=False, wr=True):
        says = f"{len(calls)} calls read in a circle from one another, or from what began after they had ended"
        yield Finding("read-cycle", says, calls=calls)


def write_cycles(evidence: Evidence) -> Iterator[Finding]:
    """G0, which Kafka allows: the log interleaves transactions."""
    for calls in _cycles(evidence, ww=True, wr=False):
        yield Finding("write-cycle", f"{len(calls)} transactions interleave in the log", calls=calls, allowed=True)


def _cycles(evidence: Evidence, *, ww: bool, wr: bool) -> Iterator[tuple[Call, ...]]:
    calls = [call for call in evidence.calls if call.type == "ok" or evidence.is_committed(call)]
    node_of = {call.begun: node for node, call in enumerate(calls)}
    graph: Graph = [[] for _ in calls]
    if wr:
        _add_reads(evidence, graph, node_of)
    if ww:
        _add_writes(evidence, graph, node_of)
    if not any(graph):
        return
    _add_time(calls, graph)
    for component in _components(graph):
        found = sorted(node for node in component if node < len(calls))
        if len(found) > 1:
            yield tuple(calls[node] for node in found)


def _add_reads(evidence: Evidence, graph: Graph, node_of: dict[int, int]) -> None:
    for value, readers in evidence.readers.items():
        writer = evidence.writer.get(value)
        source = None if writer is None else node_of.get(writer.begun)
        if source is not None:
            graph[source] += [node for reader in readers if (node := node_of[reader.begun]) != source]


def _add_writes(evidence: Evidence, graph: Graph, node_of: dict[int, int]) -> None:
    for log in evidence.logs.values():
        writers = [evidence.writer.get(next(iter(log.at[offset]))) for offset in log.offsets]
        for one, next_one in pairwise(writer for writer in writers if writer is not None):
            source, target = node_of.get(one.begun), node_of.get(next_one.begun)
            if source is not None and target is not None and source != target:
                graph[source].append(target)


def _add_time(calls: list[Call], graph: Graph) -> None:
    moments = sorted({call.begun for call in calls} | {call.ended for call in calls if call.ended != NEVER})
    first = len(graph)
    at = {moment: first + place for place, moment in enumerate(moments)}
    graph += [[first + place + 1] for place in range(len(moments))]
    if moments:
        graph[-1].clear()
    for node, call in enumerate(calls):
        graph[at[call.begun]].append(node)
        if call.ended != NEVER:
            graph[node].append(at[call.ended])


def _components(graph: Graph) -> Iterator[list[int]]:
    """Strongly connected ones with more than one node, by Tarjan, without recursion."""
    found_at = [-1] * len(graph)
    lowest = [0] * len(graph)
    waiting: list[int] = []
    is_waiting = [False] * len(graph)
    clock = 0
    for root in range(len(graph)):
        if found_at[root] >= 0:
            continue
        path = [(root, iter(graph[root]))]
        found_at[root] = lowest[root] = clock
        clock += 1
        waiting.append(root)
        is_waiting[root] = True
        while path:
            node, targets = path[-1]
            for target in targets:
                if found_at[target] < 0:
                    found_at[target] = lowest[target] = clock
                    clock += 1
                    waiting.append(target)
                    is_waiting[target] = True
                    path.append((target, iter(graph[target])))
                    break
                if is_waiting[target]:
                    lowest[node] = min(lowest[node], found_at[target])
            else:
                path.pop()
                if path:
                    lowest[path[-1][0]] = min(lowest[path[-1][0]], lowest[node])
                if lowest[node] == found_at[node]:
                    component = []
                    while True:
                        member = waiting.pop()
                        is_waiting[member] = False
                        component.append(member)
                        if member == node:
                            break
                    if len(component) > 1:
                        yield component
