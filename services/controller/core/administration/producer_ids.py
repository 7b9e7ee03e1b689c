"""Producer ids go out in blocks, so that a gateway asks once per thousand producers."""

from typing import Final

from libs.rpc.contracts.controller import ProducerIdBlock

BLOCK_SIZE: Final = 1000
LAST_ID: Final = (1 << 63) - 1


class ProducerIdsExhausted(Exception):
    """All 2^63 are given away."""


def next_block(next_id: int) -> tuple[ProducerIdBlock, int]:
    """The block that begins at the stored `next_id`, and what to store in its place before anyone is told of the block."""
    if next_id < 0 or next_id > LAST_ID - BLOCK_SIZE:
        raise ProducerIdsExhausted(f"no block left from {next_id}")
    return ProducerIdBlock(next_id, BLOCK_SIZE), next_id + BLOCK_SIZE
