"""AlterUserScramCredentials and DescribeUserScramCredentials: what is refused, and who is described."""

from collections.abc import Iterable

from tests.compat.differential.scenario import Differs, Fields, Scenario, Step, World

ALTER, DESCRIBE = "alter_user_scram_credentials", "describe_user_scram_credentials"
SHA_256, SHA_512 = 1, 2
ERROR = "error_code|error_message"
SALT = b"sixteen bytes of"
SALTED = b"thirty-two bytes of a password.."


def set_to(name: str, mechanism: int = SHA_256, iterations: int = 4096, salt: bytes = SALT) -> Fields:
    return {"name": name, "mechanism": mechanism, "iterations": iterations, "salt": salt, "salted_password": SALTED}


def alteration(upsertions: Iterable[Fields] = (), deletions: Iterable[tuple[str, int]] = ()) -> Fields:
    gone = [{"name": name, "mechanism": mechanism} for name, mechanism in deletions]
    return {"deletions": gone, "upsertions": [*upsertions]}


def description(*users: str) -> Fields:
    return {"users": [{"name": user} for user in users]}


def altering(
    name: str, *upsertions: Fields, deletions: Iterable[tuple[str, int]] = (), differs: tuple[Differs, ...] = ()
) -> Scenario:
    return Scenario(name, ALTER, lambda world: alteration(upsertions, deletions), differs=differs)


def stocked(world: World) -> list[Step]:
    """`both` has two credentials, and `one` has one."""
    return [
        Step(ALTER, 0, alteration([set_to("both")])),
        Step(ALTER, 0, alteration([set_to("one", SHA_512, 8192)])),
        Step(ALTER, 0, alteration([set_to("both", SHA_512, 16_384)])),
        Step(DESCRIBE, 0, description("both"), until=lambda answer: credentials_in(answer) == 2),
        Step(DESCRIBE, 0, description("one"), until=lambda answer: credentials_in(answer) == 1),
    ]


def credentials_in(answer: Fields) -> int:
    return sum(len(each["credential_infos"]) for each in answer["results"])


def describing(name: str, *users: str) -> Scenario:
    return Scenario(name, DESCRIBE, lambda world: description(*users), before=stocked)


def gone(world: World) -> list[Step]:
    def is_gone(answer: Fields) -> bool:
        return all(each["error_code"] for each in answer["results"])

    return [
        Step(ALTER, 0, alteration([set_to("gone")])),
        Step(DESCRIBE, 0, description("gone"), until=lambda answer: not is_gone(answer)),
        Step(ALTER, 0, alteration(deletions=[("gone", SHA_256)])),
        Step(DESCRIBE, 0, description("gone"), until=is_gone),
    ]


SCENARIOS = (
    altering("nothing"),
    altering("an empty name", set_to("")),
    altering("an empty name of no mechanism", set_to("", 0)),
    *[altering(f"mechanism {number}", set_to("u", number)) for number in (-1, 0, 3)],
    *[altering(f"{n} iterations of {m}", set_to("u", m, n)) for n in (-1, 0, 4095, 16_385) for m in (SHA_256, SHA_512)],
    altering("a mechanism that is unknown and too few iterations", set_to("u", 9, 1)),
    altering("two mechanisms of a user", set_to("u"), set_to("u", SHA_512)),
    altering("a user twice, refused at first", set_to("u", SHA_256, 1), set_to("u")),
    altering("a user twice, refused then", set_to("u"), set_to("u", SHA_256, 1)),
    altering("a user three times", set_to("u"), set_to("u"), set_to("u")),
    altering("a deletion of nobody", deletions=[("nobody", SHA_256)]),
    altering("a deletion of nobody twice", deletions=[("nobody", SHA_256), ("nobody", SHA_256)]),
    altering("a deletion of an empty name", deletions=[("", SHA_256)]),
    altering("a deletion of mechanism 7", deletions=[("nobody", 7)]),
    altering("a user deleted and set", set_to("nobody"), deletions=[("nobody", SHA_256)]),
    altering(
        "a short salt",
        set_to("short salt", salt=b"salt"),
        differs=(Differs("scram-salts", f"results.*.{ERROR}"),),
    ),
    altering(
        "a name that SASLprep changes",
        set_to("I\u00adX"),
        differs=(Differs("scram-names", f"results.*.{ERROR}"),),
    ),
    altering(
        "more users than the store takes at once",
        *[set_to(f"one of many {number}") for number in range(61)],
        differs=(Differs("scram-users", "results.**"),),
    ),
    describing("one user", "one"),
    describing("a user of two mechanisms", "both"),
    describing("nobody", "nobody"),
    describing("an empty name", ""),
    describing("a user twice", "one", "one"),
    Scenario("who was deleted", DESCRIBE, lambda world: description("gone"), before=gone),
)
