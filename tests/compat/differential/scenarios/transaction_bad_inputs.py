"""Bad requests about transactions, and then a good one: what is refused changes nothing."""

from collections.abc import Callable, Iterable

from tests.compat.differential.scenario import Differs, Scenario, Step, World
from tests.compat.differential.scenarios.transaction_steps import (
    ADD,
    ADD_OFFSETS,
    COMMIT,
    END,
    INIT,
    PRODUCE,
    As,
    Build,
    adding,
    adding_offsets,
    adding_to_several,
    committing,
    ending,
    fresh,
    init,
    known,
    producing,
    until_complete,
)

WRONG_SENDERS = {
    "another producer id": As(id_off_by=1_000_000),
    "an epoch of before": As(epoch_off_by=-1),
    "an epoch to come": As(epoch_off_by=1),
    "an unknown transactional id": As(transactional_id="nobody has it"),
    "no transactional id": As(transactional_id=""),
    "the epoch of a fenced producer": As(step=0),
}
FIRST, SECOND = As(step=0), As(step=1)
"""Two producers with the same transactional id, of which the second fenced the first."""
BY_CLIENTS, BY_BROKERS = range(4), range(4, 6)
"""Versions of AddPartitionsToTxn."""

Before = Callable[[World], Iterable[Step]]


def two_producers(world: World) -> list[Step]:
    return [init(), init()]


def ongoing(world: World) -> list[Step]:
    """A transaction of the second producer."""
    return [*two_producers(world), Step(ADD, 3, adding(0, sender=SECOND))]


def after(begun: Before, api: str, *bad: Build) -> Before:
    """The bad requests come before the good one, in its version."""
    return lambda world: [*begun(world), *(Step(api, world.version, each) for each in bad)]


def by(name: str) -> As:
    """The producer of the steps above, or one that differs."""
    wrong = WRONG_SENDERS[name]
    return wrong if name == "the epoch of a fenced producer" else wrong._replace(step=1)


def of_each_wrong_sender(
    what: str, api: str, begun: Before, request: Callable[[As], Build], *, versions: Iterable[int] | None = None
) -> list[Scenario]:
    return [
        Scenario(
            f"{what} with {name}",
            api,
            request(SECOND),
            versions=versions,
            before=after(begun, api, request(by(name))),
            partitions=1,
            a_topic_per_version=True,
        )
        for name in WRONG_SENDERS
    ]


def completed(*, committed: bool) -> Before:
    return lambda world: [
        *ongoing(world),
        Step(END, min(world.version, 4), ending(committed=committed, sender=SECOND)),
        until_complete(world),
    ]


def second_of_new_client(world: World) -> list[Step]:
    """The second transaction of a client of `transaction.version` 2: the third step has its producer id and epoch."""
    return [
        init(),
        Step(PRODUCE, 12, producing(0)),
        Step(END, 5, ending()),
        until_complete(world),
        Step(PRODUCE, 12, producing(0, sender=As(step=2))),
    ]


ENDS = (
    *of_each_wrong_sender("an end", END, ongoing, lambda sender: ending(sender=sender)),
    Scenario("a commit of nothing", END, ending(), before=lambda world: [init()], a_topic_per_version=True),
    Scenario(
        "a commit of nothing leaves the producer as it was",
        ADD,
        adding(0),
        versions=BY_CLIENTS,
        before=lambda world: [init(), Step(END, 4, ending()), Step(END, 5, ending()), Step(END, 4, ending(committed=False))],
        partitions=1,
        a_topic_per_version=True,
    ),
    Scenario("an abort of nothing", END, ending(committed=False), before=lambda world: [init()], a_topic_per_version=True),
    *(
        Scenario(
            f"{'a commit' if committed else 'an abort'} after {'an abort' if committed else 'a commit'}",
            END,
            ending(committed=not committed, sender=SECOND),
            before=after(completed(committed=not committed), END, ending(committed=committed, sender=SECOND)),
            versions=range(5),
            partitions=1,
            a_topic_per_version=True,
        )
        for committed in (True, False)
    ),
    Scenario(
        "a late end amid the next transaction",
        END,
        ending(sender=As(step=2)),
        versions=[5],
        before=lambda world: [*second_of_new_client(world), *(Step(END, 5, ending(committed=each)) for each in (True, False))],
        partitions=1,
        a_topic_per_version=True,
    ),
)

BEGINNINGS = (
    *(
        Scenario(f"a transaction timeout of {timeout_ms}", INIT, fresh(timeout_ms=timeout_ms), a_topic_per_version=True)
        for timeout_ms in (0, -1, 900_001, 2**31 - 1)
    ),
    Scenario("the longest transaction timeout", INIT, fresh(timeout_ms=900_000), a_topic_per_version=True),
    *(
        Scenario(
            f"a producer with {name}",
            ADD,
            adding(0, sender=SECOND),
            versions=[3],
            before=lambda world, name=name: [*two_producers(world), *(Step(INIT, each, known(by(name))) for each in range(3, 6))],
            partitions=1,
            a_topic_per_version=True,
        )
        for name in ("another producer id", "an epoch to come", "an epoch of before", "the epoch of a fenced producer")
    ),
    Scenario(
        "a producer id without an epoch",
        ADD,
        adding(0),
        versions=[3],
        before=lambda world: [
            init(),
            *(Step(INIT, each, lambda world: {**known()(world), "producer_epoch": -1}) for each in range(3, 6)),
            *(Step(INIT, each, lambda world: {**known()(world), "producer_id": -1}) for each in range(3, 6)),
            *(Step(INIT, 5, fresh(timeout_ms=timeout_ms)) for timeout_ms in (0, -1, 900_001)),
        ],
        partitions=1,
        a_topic_per_version=True,
    ),
)

PARTITIONS = (
    *of_each_wrong_sender("a partition", ADD, two_producers, lambda sender: adding(0, sender=sender), versions=BY_CLIENTS),
    *(
        Scenario(
            f"{name} beside one that is there",
            ADD,
            adding(0, sender=SECOND),
            versions=BY_CLIENTS,
            before=after(two_producers, ADD, bad),
            partitions=1,
            a_topic_per_version=True,
        )
        for name, bad in {
            "partitions that are not there": adding(0, 7, -1, sender=SECOND),
            "partitions of a topic that is not there": adding(0, sender=SECOND, topic="not-there"),
            "partitions of an internal topic": adding(0, sender=SECOND, topic="__transaction_state"),
        }.items()
    ),
    *of_each_wrong_sender(
        "a partition, by a broker,", ADD, two_producers, lambda sender: adding_to_several(sender), versions=BY_BROKERS
    ),
    *of_each_wrong_sender(
        "a verification", ADD, ongoing, lambda sender: adding_to_several(sender, verify=True), versions=BY_BROKERS
    ),
    Scenario(
        "a verification of what was not added",
        ADD,
        adding_to_several(SECOND, verify=True),
        versions=BY_BROKERS,
        before=after(ongoing, ADD, adding_to_several(SECOND, indexes=(0, 1), verify=True)),
        partitions=2,
        a_topic_per_version=True,
    ),
    Scenario(
        "a verification of what is not there",
        ADD,
        adding_to_several(SECOND, verify=True),
        versions=BY_BROKERS,
        before=after(ongoing, ADD, adding_to_several(SECOND, indexes=(0, 7), verify=True)),
        partitions=1,
        a_topic_per_version=True,
    ),
    Scenario(
        "several transactions, of which one is there",
        ADD,
        adding_to_several(FIRST, As(transactional_id="nobody has it"), As(transactional_id="")),
        versions=BY_BROKERS,
        before=lambda world: [init()],
        partitions=1,
        a_topic_per_version=True,
    ),
    Scenario(
        "partitions that are not there, by a broker",
        ADD,
        adding_to_several(FIRST, As(transactional_id="nobody has it"), indexes=(0, 7)),
        versions=BY_BROKERS,
        before=lambda world: [init()],
        partitions=1,
        a_topic_per_version=True,
    ),
    Scenario(
        "offsets of groups, by a broker",
        ADD,
        adding_to_several(FIRST, indexes=(3,), topic="__consumer_offsets"),
        versions=BY_BROKERS,
        before=lambda world: [init()],
        a_topic_per_version=True,
    ),
    Scenario(
        "partitions of transactions, by a broker",
        ADD,
        adding_to_several(FIRST, topic="__transaction_state", verify=True),
        versions=BY_BROKERS,
        before=lambda world: [init()],
        a_topic_per_version=True,
        differs=(
            Differs("add-partitions-of-transactions", "results_by_transaction.0.topic_results.**.partition_error_code", 120, 29),
        ),
    ),
)

BATCHES = (
    *of_each_wrong_sender("a batch", PRODUCE, ongoing, lambda sender: producing(0, sender=sender), versions=[9, 10, 11]),
    *of_each_wrong_sender(
        "a new client's batch", PRODUCE, two_producers, lambda sender: producing(0, sender=sender), versions=[12]
    ),
    Scenario(
        "a batch for a partition that was not added",
        PRODUCE,
        producing(0),
        versions=[9, 11],
        before=lambda world: [init(), Step(PRODUCE, world.version, producing(0)), Step(ADD, 3, adding(0))],
        partitions=1,
        a_topic_per_version=True,
    ),
    Scenario(
        "a batch out of sequence amid a transaction",
        END,
        ending(sender=SECOND),
        before=lambda world: [
            *ongoing(world),
            Step(PRODUCE, 9, producing(0, sender=SECOND)),
            Step(PRODUCE, 9, producing(2, sender=SECOND)),
            Step(PRODUCE, 9, producing(1, sender=SECOND, attributes=0)),
            Step(PRODUCE, 9, producing(1, sender=SECOND)),
        ],
        partitions=1,
        a_topic_per_version=True,
    ),
)

OFFSETS = (
    *of_each_wrong_sender("offsets of a group", ADD_OFFSETS, two_producers, lambda sender: adding_offsets(sender=sender)),
    Scenario(
        "offsets that were not added",
        COMMIT,
        committing(),
        versions=range(5),
        before=lambda world: [init(), Step(COMMIT, world.version, committing()), Step(ADD_OFFSETS, 4, adding_offsets())],
        partitions=1,
        a_topic_per_version=True,
    ),
    *of_each_wrong_sender(
        "offsets",
        COMMIT,
        lambda world: [*two_producers(world), Step(ADD_OFFSETS, 4, adding_offsets(sender=SECOND))],
        lambda sender: committing(sender=sender),
    ),
)

SCENARIOS = (*ENDS, *BEGINNINGS, *PARTITIONS, *BATCHES, *OFFSETS)
