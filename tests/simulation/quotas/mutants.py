"""Bugs planted into gateways and the quota manager, to see whether a limit that is exceeded or wasted is noticed."""

from functools import partial
from typing import Any

from libs.cluster.client_quotas import PRODUCE, Entity
from libs.wire.api_keys import ApiKey
from services.gateway.core.quota_slice import QuotaSlice
from services.gateway.core.quota_slices import QuotaSlices
from services.gateway.exchange.exchange import Exchange
from services.gateway.net.connection import Connection
from services.gateway.peers.quota_manager import QuotaManager
from services.gateway.requests.client_quotas import ClientQuotas
from services.gateway.requests.gate import Gate
from services.gateway.service import Gateway
from services.quota_manager.core.ledger import Ledger
from services.quota_manager.core.registered_gateways import RegisteredGateways
from tests.simulation.planted import Bug, Mutant, PlantedBugs, Replace, lines, replacing
from tests.simulation.quotas.run import run_one

SEEDS = range(200)

MUTANTS = {
    "a manager that takes over begins with full buckets": Mutant(
        Ledger._grant,
        "bucket.fill(filled_s)",
        "bucket.fill(filled_s); bucket.give_back(0.0 if account.granted else rate * BURST_S)",
    ),
    "the manager grants the part of a silent gateway": Mutant(RegisteredGateways.filled_s, "heard_s / count", "(now - start)"),
    "an account keeps its former rate": Mutant(Ledger._grant, "bucket.rate != rate", "bucket.rate < 0.0"),
    "a gateway alone spends the whole limit": Mutant(QuotaSlice.fill_alone, "self.rate / gateways", "self.rate"),
    "the number of gateways is not followed": Mutant(QuotaManager.follow, "max(1, len(image.members(GATEWAY)))", "1"),
    "a slice that nobody uses is not returned": Mutant(QuotaSlice.take_need, "now - self.used_at > RETURN_S", "not self.rate"),
    "a gateway that was alone stays so": Mutant(QuotaSlices.answered, "self._heard_until = self._asked_at + GRANT_S", "pass"),
    "a shortcut goes around the gate": Mutant(
        Gate.begin, "if began_at and not quotas.begin(", "if began_at and match is None and not quotas.begin("
    ),
    "the bytes of a Fetch do not count": Mutant(
        ClientQuotas.throttle, "exchange.api_key == ApiKey.FETCH", "exchange.api_key < 0"
    ),
    "an answer tells its throttle time and does not mute": Mutant(Connection.finish, "self.mute(throttle)", "pass"),
    "a mute ends before the debt is paid": Mutant(
        Connection._mute_ends, "self._connections.quotas.longer(entity) if entity is not None else None", "None"
    ),
    "a mute has no end": Mutant(Connection.mute, "self._loop.call_at(self._muted_until, self._mute_ends)", "None"),
    "a quota that is removed still mutes": Mutant(Gateway._follow, "self.connections.unmute_all()", "pass"),
    "the connection of a mute that ended is not read": Mutant(
        Connection.unmute, "self._carry_out(self._phase.free(MUTED))", "self._phase.held &= ~MUTED"
    ),
    "a changed quota does not reach those who are connected": Mutant(ClientQuotas.follow, "self.generation += 1", "pass"),
}

GUARDED = {
    "an ask counts as heard before its answer is confirmed": Mutant(
        RegisteredGateways.asked, "if each <= confirmed", "if each <= number"
    ),
    "what is owed elsewhere is not spared": Mutant(Ledger._grant, "spared=owed", "spared=0.0"),
    "old tokens may be spent": Mutant(QuotaSlice._drop_old, "now > self._granted_until", "not self.rate"),
    "requests that come together mute after their answers only": Mutant(
        ClientQuotas.begin, "if owed_s >= MUTED_S_MIN:", "if owed_s < 0.0:"
    ),
    "a Fetch over its quota is answered in full": Mutant(
        ClientQuotas.begin, "self.slices.wait_s(fetch.entity, self._now()) < MUTED_S_MIN", "True"
    ),
}
"""What each drops is small, or another line makes up for it: a grant that a silent gateway cannot hear is lost."""

CAUGHT: dict[str, Bug] = lines(MUTANTS, SEEDS)
mutant = partial(replacing, CAUGHT)


def _forgive(connection: Connection, entity: Entity, tokens: float) -> None:
    """Gives tokens back to an entity in debt."""
    found = connection._connections.quotas.slices._slices.get(entity)
    if found is not None and found.tokens < 0.0:
        found.tokens = min(0.0, found.tokens + tokens)


@mutant("a debt is lost with its connection", seeds=len(SEEDS))
def _(replace: Replace) -> None:
    release: Any = Connection._release

    def wrong(self: Connection, reason: str) -> None:
        release(self, reason)
        limit = self.kept_limits.limits[PRODUCE]
        if limit is not None:
            _forgive(self, limit.entity, limit.rate)

    replace(Connection, "_release", wrong)


@mutant("who hangs up before the answer owes nothing", seeds=len(SEEDS))
def _(replace: Replace) -> None:
    begin: Any = ClientQuotas.begin
    release: Any = Connection._release
    sizes: dict[int, int] = {}

    def beginning(self: ClientQuotas, exchange: Exchange, size: int, since: float) -> bool:
        sizes[id(exchange)] = size
        begins: bool = begin(self, exchange, size, since)
        return begins

    def releasing(self: Connection, reason: str) -> None:
        limit = self.kept_limits.limits[PRODUCE]
        for exchange in self._session.outstanding():
            if limit is not None and exchange.api_key == ApiKey.PRODUCE and not exchange.answered:
                _forgive(self, limit.entity, sizes.get(id(exchange), 0))
        release(self, reason)

    replace(ClientQuotas, "begin", beginning)
    replace(Connection, "_release", releasing)


def violations_of(seed: int) -> list[str]:
    return run_one(seed, until_caught=True).violations


BUGS = PlantedBugs("quotas", violations_of, CAUGHT, lines(GUARDED, SEEDS))
