"""Blocks of producer ids: a gateway fetches one for a thousand producers."""

from typing import Final

from libs.rpc.contracts.controller import ProducerIdBlock

BLOCK_SIZE: Final = 1000
LAST_ID: Final = (1 << 63) - 1


class ProducerIdsExhausted(Exception):
    """All 2^63 producer ids are allocated."""


def next_block(next_id: int) -> tuple[ProducerIdBlock, int]:
    """The block from `next_id` on, and the value to store before the block is given away."""
    if next_id < 0 or next_id > LAST_ID - BLOCK_SIZE:
        raise ProducerIdsExhausted(f"no block left from {next_id}")
    return ProducerIdBlock(next_id, BLOCK_SIZE), next_id + BLOCK_SIZE
