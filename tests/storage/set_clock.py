from libs.clock import Monotonic, SystemClock, WallMs


class SetClock:
    """Stands still: time passes, or the wall clock jumps, when the test says so."""

    def __init__(self) -> None:
        self.now_ms = SystemClock().wall_ms() + 0
        self.jumped_ms = 0

    def wall_ms(self) -> WallMs:
        return WallMs(self.now_ms + self.jumped_ms)

    def wall_ns(self) -> int:
        return self.wall_ms() * 1_000_000

    def monotonic(self) -> Monotonic:
        return Monotonic(self.now_ms / 1000)
