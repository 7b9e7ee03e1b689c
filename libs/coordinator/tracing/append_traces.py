"""The contexts that leave with a shard's appends: those of the sampled requests whose decisions share the append."""

from typing import Any

from libs.coordinator.core.pending import Group, Pending
from libs.telemetry.tracing.rpc_context import CONTEXTS_MAX
from libs.telemetry.tracing.span import SpanContext


class AppendTraces:
    """The contexts of one shard's appends that were not sent yet."""

    def __init__(self) -> None:
        self._contexts: list[tuple[Group[Any, Any], SpanContext]] = []

    def note(self, pending: Pending[Any, Any], context: SpanContext) -> None:
        """Notes the request that was decided last. One that waits for no append, or for one on its way, is left out."""
        groups = pending.groups
        if len(groups) > pending.sent and len(self._contexts) < CONTEXTS_MAX:
            self._contexts.append((groups[-1], context))

    def take(self, pending: Pending[Any, Any]) -> list[SpanContext]:
        """Takes the contexts of the first group, which is sent now. Those of groups that were dropped are forgotten."""
        if not self._contexts:
            return []
        first = pending.groups[0]
        taken = [context for group, context in self._contexts if group is first]
        self._contexts = [each for each in self._contexts if each[0] is not first and each[0] in pending.groups]
        return taken
