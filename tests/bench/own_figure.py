"""The line of a figure that stands beside a mark only: nothing of Kafka's is like it."""


def own_figure(name: str, value: float, unit: str, mark: str, settings: str, **more: object) -> dict[str, object]:
    return {"name": name, "penstock": round(value, 3), "unit": unit, "mark": mark, "settings": settings, **more}
