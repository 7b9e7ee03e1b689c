"""What gateways and the quota manager say to each other: which tokens a gateway needs, and which it is granted.

One ask carries all entities in need. Asks are not repeated: a lost answer loses its tokens, which is less than the limit, and the
next ask tells the whole debt again.
"""

from typing import Final

from libs.lean_dataclass import dataclass

ASK: Final = "quotas.ask"

GRANT_S: Final = 1.0
"""How long granted tokens may be spent, and how long after the last answer a gateway goes on as before. Then it spends limit / N
by itself, and the manager keeps that part back."""

Entity = tuple[int, str, str]
"""Who shares a limit: the kind of quota, the user and the client id. "" for a part that does not tell entities apart."""


@dataclass(frozen=True, slots=True)
class Need:
    """What a gateway tells of an entity, in tokens and seconds. Each is 0 or more. The last three are for views only."""

    entity: Entity
    wanted: float = 0.0  # to have in hand
    debt: float = 0.0  # spent without having them
    returned: float = 0.0  # granted before, and not used
    # Since the last need of that entity:
    used: float = 0.0
    throttled: int = 0  # answers that told a throttle time
    throttle_s: float = 0.0  # the sum of those times


@dataclass(frozen=True, slots=True)
class Ask:
    """`number` rises with each ask of a gateway's incarnation. `confirmed` is the highest whose answer arrived there; 0: none."""

    number: int
    confirmed: int
    needs: tuple[Need, ...] = ()


@dataclass(frozen=True, slots=True)
class Grant:
    """The answer to a need. `limited` False: the manager knows no limit of that entity, and has given nothing."""

    tokens: float
    owed_elsewhere: float = 0.0  # what the entity owes at other gateways
    limited: bool = True


@dataclass(frozen=True, slots=True)
class Granted:
    """A grant for each need, in order. `error` 41 NOT_CONTROLLER: another process is elected, or this gateway is not registered
    there. Then there are none."""

    error: int
    grants: tuple[Grant, ...] = ()
