"""What `make status` shows of one process: fields for programs, and the cells of a row."""

from services.local.cluster import ProcessStatus
from services.local.cluster_plan import ProcessPlan


def fields_of(of_one: ProcessStatus) -> dict[str, object]:
    return {
        "name": of_one.plan.name,
        "role": of_one.plan.role,
        "pid": of_one.pid,
        "ready": of_one.ready,
        "said": of_one.said,
        "memory_bytes": None if of_one.memory is None else of_one.memory.own_bytes,
        "mapped_bytes": None if of_one.memory is None else of_one.memory.mapped_bytes,
        "addresses": of_one.plan.addresses,
    }


def row_of(of_one: ProcessStatus) -> tuple[str, str, str, str, str, str, str]:
    ready = "down" if of_one.pid is None else f"no: {of_one.said[:60]}"
    if of_one.pid is not None and of_one.ready:
        words = of_one.said.removeprefix("ready").strip(" ,") if of_one.plan.is_service else ""
        ready = f"yes ({words})" if words else "yes"
    own, mapped = ("-", "-") if of_one.memory is None else map(mebibytes, of_one.memory)
    return of_one.plan.name, of_one.plan.role, str(of_one.pid or "-"), ready, own, mapped, _addresses(of_one.plan)


def _addresses(plan: ProcessPlan) -> str:
    """Of several brokers only the ports are shown, as a range."""
    words = []
    for name, addresses in plan.addresses.items():
        first, last = addresses[0], addresses[-1]
        words.append(f"{name} {first}" + (f"-{last.rpartition(':')[2]}" if last != first else ""))
    return ", ".join(words)


def mebibytes(count: int) -> str:
    return f"{count / 2**20:.1f} MiB"
