"""Creation, growth and deletion of topics beyond a `controller_mutation_rate` (KIP-599). The rate is 1 partition a second."""

from collections.abc import Iterator

from tests.compat.differential.scenario import Differs, Fields, Scenario, Step, World
from tests.compat.differential.scenarios.client_quotas import ALTER, MUTATIONS, alteration, entry
from tests.compat.differential.scenarios.topic_administration import CREATE, DELETE, MORE, NEW, gone, more, new

BURST = 11
EXCEEDED = 89


def outcome(answer: Fields) -> int:
    (result,) = answer["results"]
    return int(result["error_code"])


def in_debt(world: World, **of: str) -> Iterator[Step]:
    """The client is limited, uses all that it may, waits until that is paid, and uses one partition too many."""
    limited = entry({"client-id": world.client_id, **of}, {MUTATIONS: 1.0})
    yield Step(ALTER, 1, alteration(limited))
    # Kafka answers a change of quotas before its controller obeys it.
    yield Step(MORE, 3, more(1 + BURST + 1, validate_only=True), until=lambda answer: outcome(answer) == EXCEEDED)
    yield Step(MORE, 3, more(2, validate_only=True), until=lambda answer: outcome(answer) == 0)


def beyond(what: str, api: str, ask, versions: list[int], *, differs: tuple[Differs, ...] = (), **of: str) -> Scenario:
    return Scenario(
        f"beyond the quota {what}".strip(),
        api,
        ask,
        versions,
        lambda world: in_debt(world, **of),
        partitions=1,
        a_topic_per_version=True,
        own_client=True,
        differs=differs,
    )


SCENARIOS = (
    beyond("", CREATE, lambda w: new(f"beyond-the-quota-v{w.version}"), [2, 5, 6, 7], differs=NEW),
    beyond("", MORE, more(2), [0, 2, 3]),
    beyond("", DELETE, lambda w: gone(w.topic), [1, 4, 5, 6]),
    beyond("of the user and client", CREATE, lambda w: new("beyond-of-user"), [7], user="ANONYMOUS"),
    beyond("only validated", CREATE, lambda w: new("beyond-validated", validate_only=True), [4, 7]),
    beyond("two topics", CREATE, lambda w: new("beyond-one", "beyond-other"), [7]),
    beyond("a topic that is there", CREATE, lambda w: new(w.topic), [7]),
    beyond("a topic that is not there", DELETE, lambda w: gone("not-there"), [6]),
    beyond("by id", DELETE, lambda w: gone(None, topic_id=w.topic_id), [6]),
    beyond("as many as there are", MORE, more(1), [3]),
    beyond("assigned to a broker that is not there", MORE, more(2, [9]), [3]),
)
