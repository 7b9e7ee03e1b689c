"""Bugs planted into gateways and the quota manager, to see whether a limit that is exceeded or wasted is noticed."""

import asyncio
from functools import partial
from typing import Any

from libs.cluster.client_quotas import PRODUCE, Limit
from libs.wire.api_keys import ApiKey
from services.controller.core.topics.mutation_quotas import MutationQuota, MutationQuotas
from services.gateway.core.quota_slice import QuotaSlice
from services.gateway.core.quota_slices import QuotaSlices
from services.gateway.exchange.exchange import Answer, Exchange
from services.gateway.exchange.quota_use import KeptLimits, Throttle
from services.gateway.net.connection import Connection
from services.gateway.net.connections import Connections
from services.gateway.net.mute import Mute
from services.gateway.peers.quota_manager import QuotaManager
from services.gateway.requests.client_quotas import ClientQuotas
from services.gateway.requests.gate import Gate
from services.gateway.requests.handler_steps import _Steps
from services.gateway.service import Gateway
from services.quota_manager.core.ledger import Ledger
from services.quota_manager.core.registered_gateways import RegisteredGateways
from tests.simulation.planted import Bug, Mutant, PlantedBugs, Replace, lines, replacing
from tests.simulation.quotas.run import MUTATIONS_EVERY, run_one

SEEDS = range(200)
GRANTS = Ledger._grant

MUTANTS = {
    "a manager that takes over begins with full buckets": Mutant(
        GRANTS,
        "bucket.fill(filled_s)",
        "bucket.fill(filled_s); bucket.give_back(0.0 if account.granted else rate * BURST_S)",
    ),
    "the manager grants the part of a silent gateway": Mutant(RegisteredGateways.filled_s, "heard_s / count", "(now - start)"),
    "an account keeps its former rate": Mutant(GRANTS, "bucket.rate != rate", "bucket.rate < 0.0"),
    "a slice pays by itself and keeps what it has": Mutant(QuotaSlice.takes, "self.tokens = left", "pass"),
    "a gateway alone spends the whole limit": Mutant(QuotaSlice.fill_alone, "self.rate / gateways", "self.rate"),
    "the number of gateways is not followed": Mutant(QuotaManager.follow, "max(1, len(image.members(GATEWAY)))", "1"),
    "a gateway that was alone stays so": Mutant(QuotaSlices.answered, "self._heard_until = self._asked_at + GRANT_S", "pass"),
    "a shortcut goes around the gate": Mutant(Gate.begin, "if quotas.configured:", "if quotas.configured and match is None:"),
    "the bytes of a Fetch do not count": Mutant(ClientQuotas.throttle, "exchange.api_key == _FETCH_KEY", "exchange.api_key < 0"),
    "the work of handlers does not count": Mutant(_Steps.__await__, "quotas.counts_time(exchange)", "False"),
    "the step that answers does not count": Mutant(ClientQuotas.throttle, "self._count_time(use, now)", "pass"),
    "an answer tells its throttle time and does not mute": Mutant(Connection.finish, "self.mute(throttle)", "pass"),
    "a mute ends before the debt is paid": Mutant(Mute._look, "if not longer_s:", "if True:"),
    "a mute has no end": Mutant(Mute.begin, "self._look_early)", "int)"),
    "a quota that is removed still mutes": Mutant(Gateway._follow, "self.connections.look_at_mutes()", "pass"),
    "the connection of a mute that ended is not read": Mutant(
        Connection.unmute, "self._carry_out(self._phase.free(MUTED))", "self._phase.held &= ~MUTED"
    ),
    "a changed quota does not reach those who are connected": Mutant(ClientQuotas.follow, "self.generation += 1", "pass"),
}

GUARDED = {
    "a slice that nobody uses is not returned": Mutant(QuotaSlice.take_need, "now - self.used_at > RETURN_S", "not self.rate"),
    "an ask counts as heard before its answer is confirmed": Mutant(
        RegisteredGateways.asked, "if each <= confirmed", "if each <= number"
    ),
    "what is owed elsewhere is not spared": Mutant(GRANTS, "spared=owed", "spared=0.0"),
    "requests that come together mute after their answers only": Mutant(
        ClientQuotas.begin, "if owed_s >= MUTED_S_MIN:", "if owed_s < 0.0:"
    ),
    "a Fetch over its quota is answered in full": Mutant(
        ClientQuotas.begin, "self.slices.wait_s(fetch.entity, self._now()) >= MUTED_S_MIN", "False"
    ),
}
"""What each drops is small, or another line makes up for it: a grant that a silent gateway cannot hear is lost, and a gateway
whose clients leave is in debt."""

OF_TOPICS = {
    "changes of topics are not charged": Mutant(MutationQuota.at, "limit is None", "True"),
    "each topic finds a full bucket": Mutant(MutationQuotas.bucket, "self._buckets[entity] = bucket", "pass"),
    "a refused topic is not told to wait": Mutant(MutationQuota.throttle_ms, "self._in_debt_until - now", "0.0"),
}

CAUGHT: dict[str, Bug] = lines(MUTANTS, SEEDS) | lines(OF_TOPICS, SEEDS[MUTATIONS_EVERY - 1 :: MUTATIONS_EVERY])
mutant = partial(replacing, CAUGHT)
REPLACED: dict[str, Bug] = {}
"""More that another line makes up for: whoever is muted is not read, so a hang-up is noticed once the debt is paid."""


def _forgiving(replace: Replace, *, everything: bool) -> None:
    """Gives back what a connection's requests have spent when it ends: `everything` that its entity owes, or a Produce that is
    not answered."""
    begin: Any = ClientQuotas.begin
    throttle: Any = ClientQuotas.throttle
    lost: Any = Connections.lost
    unanswered: dict[int, dict[int, tuple[Limit, float]]] = {}

    def beginning(self: ClientQuotas, exchange: Exchange, kept: KeptLimits, frame: memoryview, since: float) -> bool:
        begins: bool = begin(self, exchange, kept, frame, since)
        limit = kept.limits[PRODUCE]
        if limit is not None and exchange.api_key == ApiKey.PRODUCE:
            unanswered.setdefault(id(exchange.connection), {})[exchange.correlation_id] = limit, float(len(frame))
        return begins

    def throttling(self: ClientQuotas, exchange: Exchange, answer: Answer) -> Throttle | None:
        if not everything:
            unanswered.get(id(exchange.connection), {}).pop(exchange.correlation_id, None)
        found: Throttle | None = throttle(self, exchange, answer)
        return found

    def losing(self: Connections, connection: Connection) -> None:
        for limit, size in unanswered.pop(id(connection), {}).values():
            owed = self.quotas.slices.owed_s(limit.entity) * limit.rate
            back = min(owed, limit.rate if everything else size)
            self.quotas.slices.spend(limit.entity, limit.rate, -back, asyncio.get_running_loop().time())
        lost(self, connection)

    replace(ClientQuotas, "begin", beginning)
    replace(ClientQuotas, "throttle", throttling)
    replace(Connections, "lost", losing)


@mutant("a debt is lost with its connection", seeds=len(SEEDS))
def _(replace: Replace) -> None:
    _forgiving(replace, everything=True)


@partial(replacing, REPLACED)("who hangs up before the answer owes nothing", seeds=len(SEEDS))
def _(replace: Replace) -> None:
    _forgiving(replace, everything=False)


def violations_of(seed: int) -> list[str]:
    return run_one(seed, until_caught=True).violations


BUGS = PlantedBugs("quotas", violations_of, CAUGHT, lines(GUARDED, SEEDS) | REPLACED)
