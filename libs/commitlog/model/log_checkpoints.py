"""The numbers that a log directory's checkpoint files hold for one log; an opening begins with them."""

from libs.lean_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class LogCheckpoints:
    """The defaults are those of a log that no checkpoint file names."""

    clean: bool = False
    """The directory was stopped cleanly."""
    recovery_point: int = 0
    """Counts only after a clean stop without a resume point, as in a directory that Kafka wrote."""
    log_start_offset: int = 0
    committed_offset: int = 0
    """Everything before it was durable once."""
    is_start_known: bool = True
    """The log does not start before `log_start_offset`. False: the checkpoint of log starts was lost."""


NO_CHECKPOINTS = LogCheckpoints()
