"""Produce with acks=all to three replicas, two of which must have it: three nodes beside three brokers, on the same cores."""

from tests.bench.cases import KIB, Case, produce_case


def replicated_cases() -> list[Case]:
    """With one connection, node 1 leads; with more, leaders take turns."""
    cases = []
    for label, size, mark in (("1KB", KIB, "≥ 1.0"), ("16KB", 16 * KIB, "≥ 1.5"), ("128KB", 128 * KIB, "≥ 1.5")):
        for connections in (1, 4):
            cases.append(produce_case(f"replicated-{label}-{connections}conn", size, connections, acks=-1, mark=mark))
    return cases
