"""The templates of one connection's requests."""

from services.gateway.core.fetch_template import FetchTemplate
from services.gateway.core.produce_template import ProduceTemplate
from services.gateway.core.relay_template import RelayTemplate

MISSES_MAX = 8
"""After so many requests that do not match, a template is learnt anew. A producer to many topics would otherwise pay for learning
one with each request."""


class ConnectionTemplates:
    """The last template of each API. `misses` counts the Produces and Fetches that matched none."""

    __slots__ = ("fetch", "misses", "produce", "relay")

    def __init__(self) -> None:
        self.produce: ProduceTemplate | None = None
        self.fetch: FetchTemplate | None = None
        self.relay: dict[int, RelayTemplate] = {}
        self.misses = 0

    def keep_produce(self, template: ProduceTemplate | None) -> None:
        if self.produce is None or (template is not None and self.misses >= MISSES_MAX):
            self.produce, self.misses = template, 0

    @property
    def wants_fetch(self) -> bool:
        return self.fetch is None or self.misses >= MISSES_MAX

    def keep_fetch(self, template: FetchTemplate | None) -> None:
        self.fetch, self.misses = template, 0
