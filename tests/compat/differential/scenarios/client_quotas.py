"""DescribeClientQuotas and AlterClientQuotas. Rates are so high that they slow down no other scenario."""

from collections.abc import Mapping
from itertools import count, product
from math import inf, nan

from tests.compat.differential.scenario import Differs, Fields, Scenario, Step, World

DESCRIBE, ALTER = "describe_client_quotas", "alter_client_quotas"
PRODUCER, CONSUMER, PERCENTAGE, MUTATIONS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
)
CONNECTIONS = "connection_creation_rate"
EXACT, DEFAULT, ANY = 0, 1, 2
HIGH = 1e12
Entity = Mapping[str, str | None]
Quotas = Mapping[str, float | None]

USERS_AND_CLIENTS: list[Entity] = [
    *[{"user": user, "client-id": client_id} for user, client_id in product(("stock", None), ("stock", None))],
    {"user": "stock"},
    {"user": None},
    {"client-id": "stock"},
    {"client-id": None},
    *[{"user": name} for name in ("<default>", "a/b é\0\n", "%3Cdefault%3E", "x" * 20_000)],
]
ADDRESSES: list[Entity] = [{"ip": "10.0.0.1"}, {"ip": "2001:db8::1"}, {"ip": None}]


def entry(entity: Entity, quotas: Quotas) -> Fields:
    """`quotas` that are None are removed."""
    return entry_of([*entity.items()], [*quotas.items()])


def entry_of(entity: list[tuple[str, str | None]], ops: list[tuple[str, float | None]]) -> Fields:
    return {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
        "ops": [{"key": key, "value": 0.0 if value is None else value, "remove": value is None} for key, value in ops],
    }


def alteration(*entries: Fields, validate_only: bool = False) -> Fields:
    return {"entries": [*entries], "validate_only": validate_only}


def description(*components: tuple[str, int, str | None], strict: bool = False) -> Fields:
    return {
        "components": [{"entity_type": kind, "match_type": match_type, "match": match} for kind, match_type, match in components],
        "strict": strict,
    }


STOCK = [entry(entity, {PRODUCER: HIGH + number, PERCENTAGE: 1e6}) for number, entity in enumerate(USERS_AND_CLIENTS)]
STOCK += [entry(entity, {CONNECTIONS: 1e6 + number}) for number, entity in enumerate(ADDRESSES)]


def stocked(world: World):
    return [
        Step(ALTER, world.version, alteration(*STOCK)),
        Step(DESCRIBE, world.version, description(), until=lambda answer: len(answer["entries"]) >= len(STOCK)),
    ]


MATCHES = {kind: [(kind, EXACT, "stock"), (kind, DEFAULT, None), (kind, ANY, None)] for kind in ("user", "client-id")}
IPS = [("ip", EXACT, "10.0.0.1"), ("ip", DEFAULT, None), ("ip", ANY, None)]
FILTERS = [
    [],
    *[[each] for each in MATCHES["user"] + MATCHES["client-id"] + IPS],
    *[[*pair] for pair in product(MATCHES["user"], MATCHES["client-id"])],
    *[[("user", EXACT, name)] for name in ("", "<default>", "a/b é\0\n", "%3Cdefault%3E", "x" * 20_000, "nobody")],
    [("ip", EXACT, "10.0.0.2")],
]
BAD_FILTERS = [
    [("", ANY, None)],
    [("group", ANY, None)],
    [("user", 3, None)],
    [("user", -1, None)],
    [("user", EXACT, None)],
    [("user", DEFAULT, "stock")],
    [("user", ANY, "stock")],
    [("user", EXACT, "stock"), ("user", EXACT, "stock")],
    [("user", EXACT, "stock"), ("user", ANY, None)],
    [("user", ANY, None), ("ip", ANY, None)],
    [("ip", EXACT, "10.0.0.1"), ("client-id", DEFAULT, None)],
    [("group", ANY, None), ("user", 3, None)],
    [("user", 3, None), ("group", ANY, None)],
    [("user", ANY, None), ("user", ANY, None), ("group", ANY, None)],
]


def described(components: list[tuple[str, int, str | None]], strict: bool) -> Scenario:
    shown = ", ".join(f"{kind} {match_type} {match!r:.12}" for kind, match_type, match in components)
    name = f"{(FILTERS + BAD_FILTERS).index(components)} {shown or 'all'}{' strict' * strict}"
    return Scenario(name, DESCRIBE, lambda world: description(*components, strict=strict), before=stocked)


DESCRIBING = [described(components, strict) for components in FILTERS + BAD_FILTERS for strict in (False, True)]


NUMBERS = count()
"""What tells scenarios apart whose values differ in a sign only."""


def validated(name: str, *entries: Fields, differs: tuple[Differs, ...] = ()) -> Scenario:
    return Scenario(f"{next(NUMBERS)} {name}", ALTER, lambda world: alteration(*entries, validate_only=True), differs=differs)


def user(world: World) -> str:
    """A user of the scenario's own, in this version."""
    return f"{world.topic}-v{world.version}"


def stored(
    name: str, *alterations: list[list[tuple[str, float | None]]], expected: Quotas, differs: tuple[Differs, ...] = ()
) -> Scenario:
    """Each alteration is a request about one user, with the ops of each entry. `expected`: what the user has in the end. Empty:
    nothing, or the systems differ."""

    def before(world: World):
        for entries in alterations:
            yield Step(ALTER, world.version, alteration(*[entry_of([("user", user(world))], ops) for ops in entries]))
        awaited, quotas = user(world), expected
        if not expected:
            # Kafka's broker describes what it has replayed. It has replayed the above when it shows what was altered later.
            awaited, quotas = f"{user(world)}-later", {PRODUCER: HIGH}
            yield Step(ALTER, world.version, alteration(entry_of([("user", awaited)], [(PRODUCER, HIGH)])))
        described_so_far = description(("user", EXACT, awaited))
        yield Step(DESCRIBE, world.version, described_so_far, until=lambda answer: quotas_in(answer) == quotas)

    def described_user(world: World) -> Fields:
        return description(("user", EXACT, user(world)))

    return Scenario(f"after {name}", DESCRIBE, described_user, before=before, differs=differs)


def quotas_in(answer: Fields) -> Quotas:
    return {each["key"]: each["value"] for found in answer["entries"] for each in found["values"]}


NOT_FINITE = (Differs("quotas-finite", "entries.*.error_code", 0, 42),)
NEVER_AGAIN = (Differs("quotas-connections", "entries.*.error_code", 0, 42),)
NOT_AN_ADDRESS = (Differs("quotas-addresses", "entries.*.error_code", 0, 42),)
VALUES = [0.0, -1.0, 0.5, 1.0, 1.5, 0.9999999, 1.0000001, 1e-9, 2.0**53, 2.0**63, 1e19, 1e300, -inf, 2.0**31 - 1, 2.0**31]
KEYS = [(key, "user") for key in (PRODUCER, CONSUMER, PERCENTAGE, MUTATIONS)] + [(CONNECTIONS, "ip")]
NAMES = {"user": "u", "ip": "10.0.0.1", "client-id": "c", "group": "g", "": "e"}

ALTERING = [
    *[
        validated(
            f"{key} of {value}",
            entry({kind: NAMES[kind]}, {key: value}),
            differs=NEVER_AGAIN if (key, value) == (CONNECTIONS, 1e-9) else (),
        )
        for key, kind in KEYS
        for value in VALUES
    ],
    *[validated(f"{key} of NaN", entry({kind: NAMES[kind]}, {key: nan}), differs=NOT_FINITE) for key, kind in KEYS],
    *[
        validated(f"{key} of infinity", entry({kind: NAMES[kind]}, {key: inf}))
        for key, kind in KEYS
        if key not in (PERCENTAGE, MUTATIONS)
    ],
    *[validated(f"{key} of infinity", entry({"user": "u"}, {key: inf}), differs=NOT_FINITE) for key in (PERCENTAGE, MUTATIONS)],
    *[
        validated(f"{key or 'no key'} of {kind} {name!r}", entry({kind: name}, {key: 5.0}))
        for kind in ("user", "client-id", "ip", "group", "")
        for name in (NAMES[kind], None, "")
        for key in (PRODUCER, CONSUMER, PERCENTAGE, MUTATIONS, CONNECTIONS, "nope", "")
    ],
    *[
        validated(f"entity of {' and '.join(kinds)}", entry({kind: NAMES[kind] for kind in kinds}, {PRODUCER: 5.0}))
        for kinds in (
            (),
            ("user", "client-id"),
            ("client-id", "user"),
            ("user", "ip"),
            ("client-id", "ip"),
            ("user", "client-id", "ip"),
            ("user", "group"),
        )
    ],
    validated("two users in one entity", entry_of([("user", "u"), ("user", "v")], [(PRODUCER, 5.0)])),
    validated("a user and no user in one entity", entry_of([("user", "u"), ("user", "")], [(PRODUCER, 5.0)])),
    validated("a quota twice", entry_of([("user", "u")], [(PRODUCER, 5.0), (PRODUCER, 5.0)])),
    validated("a quota, set and removed", entry_of([("user", "u")], [(PRODUCER, 5.0), (PRODUCER, None)])),
    validated("an entity twice", entry({"user": "u"}, {PRODUCER: 5.0}), entry({"user": "u"}, {CONSUMER: 5.0})),
    validated(
        "an entity twice in another order",
        entry({"user": "u", "client-id": "c"}, {PRODUCER: 5.0}),
        entry({"client-id": "c", "user": "u"}, {PRODUCER: 5.0}),
    ),
    validated("an entity twice, refused at first", entry({"user": "u"}, {"nope": 5.0}), entry({"user": "u"}, {CONSUMER: 5.0})),
    validated("a bad entity beside a good one", entry({"user": ""}, {PRODUCER: 5.0}), entry({"user": "u"}, {PRODUCER: 5.0})),
    validated("no ops", entry({"user": "u"}, {})),
    validated("an unknown quota removed", entry({"user": "u"}, {"nope": None})),
    validated("an unset quota removed", entry({"client-id": "nobody"}, {PRODUCER: None})),
    validated("a quota of an address removed from a user", entry({"user": "u"}, {CONNECTIONS: None})),
    validated("nothing"),
    *[
        validated(f"address {ip}", entry({"ip": ip}, {CONNECTIONS: 5.0}))
        for ip in ("2001:db8::1", "999.1.1.1", "no such host", "1.2.3.4.5")
    ],
    *[
        validated(f"address {ip}", entry({"ip": ip}, {CONNECTIONS: 5.0}), differs=NOT_AN_ADDRESS)
        for ip in ("localhost", "1.2.3", "1234", "[::1]", "2001:DB8::1", "::ffff:10.0.0.1")
    ],
    stored("two quotas are set", [[(PRODUCER, HIGH), (PERCENTAGE, 0.5)]], expected={PRODUCER: HIGH, PERCENTAGE: 0.5}),
    stored(
        "one is changed and one removed",
        [[(PRODUCER, HIGH), (PERCENTAGE, 1e6)]],
        [[(PRODUCER, 2 * HIGH), (PERCENTAGE, None)]],
        expected={PRODUCER: 2 * HIGH},
    ),
    stored("all are removed", [[(PRODUCER, HIGH)]], [[(PRODUCER, None)]], expected={}),
    stored("a change with a bad quota", [[(PRODUCER, HIGH)]], [[(PRODUCER, 2 * HIGH), ("nope", 5.0)]], expected={PRODUCER: HIGH}),
    stored("a quota that is named twice", [[(PRODUCER, HIGH), (PRODUCER, 2 * HIGH)]], expected={}),
    stored(
        "an entity that is named twice",
        [[(PRODUCER, HIGH)], [(PRODUCER, 2 * HIGH)]],
        expected={},
        differs=(Differs("quotas-repeated-entity", "entries"),),
    ),
]

SCENARIOS = (*DESCRIBING, *ALTERING)
