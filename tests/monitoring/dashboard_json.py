"""Dashboards as Grafana's JSON (the classic model, which Grafana 10 to 13 and their provisioning read)."""

from collections.abc import Iterator
from typing import Any, Final

from tests.monitoring.panels import COLUMNS, Dashboard, Panel, Query, Row
from tests.monitoring.selectors import known, metrics_of, narrowed

Json = dict[str, Any]
SCHEMA: Final = 39
"""The version of the model, of Grafana 11.0. Later ones migrate it."""
HEIGHTS: Final = {"stat": 4, "timeseries": 8, "table": 9, "traces": 11}
PROMETHEUS: Final = {"type": "prometheus", "uid": "${datasource}"}
JAEGER: Final = {"type": "jaeger", "uid": "${traces}"}
VARIABLE_METRICS: Final = {
    "topic": "kafka_log_log_logendoffset",
    "consumergroup": "kafka_consumergroup_lag",
    "api": "penstock_gateway_requests_total",
}
"""By variable: the metric whose label it is. An instance is one of the services that the dashboard's metrics come from."""


def dashboard_json(dashboard: Dashboard) -> Json:
    return {
        "uid": f"penstock-{dashboard.name}",
        "title": f"Penstock: {dashboard.title}",
        "description": dashboard.purpose,
        "tags": ["penstock"],
        "timezone": "browser",
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "schemaVersion": SCHEMA,
        "time": {"from": "now-1h", "to": "now"},
        "links": [_links()],
        "templating": {"list": list(_variables(dashboard))},
        "panels": list(_panels(dashboard)),
    }


def queries_of(dashboard: Dashboard) -> Iterator[tuple[str, str]]:
    """Title of the panel and expression, for each query of Prometheus, as the file has it."""
    for row in dashboard.rows:
        for panel in row.panels:
            if panel.kind != "traces":
                yield from ((panel.title, narrowed(query.expression, dashboard.variables)) for query in panel.queries)


def _links() -> Json:
    """The other dashboards, which keep the chosen cluster and time."""
    return {
        "title": "Penstock",
        "type": "dashboards",
        "tags": ["penstock"],
        "asDropdown": True,
        "includeVars": True,
        "keepTime": True,
        "targetBlank": False,
        "icon": "external link",
        "tooltip": "",
        "url": "",
    }


def _variables(dashboard: Dashboard) -> Iterator[Json]:
    yield _datasource("datasource", "Metrics", "prometheus")
    if any(panel.kind == "traces" for row in dashboard.rows for panel in row.panels):
        yield _datasource("traces", "Traces", "jaeger")
    yield _labels("job", "Cluster", "label_values(penstock_build_info, job)", several=False)
    for label in dashboard.variables:
        yield _labels(label, label.capitalize(), f"label_values({_choosable(dashboard, label)}, {label})", several=True)


def _choosable(dashboard: Dashboard, label: str) -> str:
    if label in VARIABLE_METRICS:
        return narrowed(VARIABLE_METRICS[label], ())
    first = next(name for _, expression in queries_of(dashboard) for name in metrics_of(expression) if name in known())
    return narrowed(first, ())


def _datasource(name: str, label: str, kind: str) -> Json:
    return {"type": "datasource", "name": name, "label": label, "query": kind, "refresh": 1, "multi": False, "includeAll": False}


def _labels(name: str, label: str, query: str, *, several: bool) -> Json:
    return {
        "type": "query",
        "name": name,
        "label": label,
        "datasource": PROMETHEUS,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": several,
        "includeAll": several,
        **({"allValue": ".*", "current": {"text": "All", "value": "$__all"}} if several else {}),
    }


def _panels(dashboard: Dashboard) -> Iterator[Json]:
    number, top = 1, 0
    for row in dashboard.rows:
        yield _row(row, number, top)
        number, top = number + 1, top + 1
        for line in _lines(row):
            height, left = max(HEIGHTS[panel.kind] for panel in line), 0
            for panel in line:
                place = {"x": left, "y": top, "w": panel.width, "h": height}
                yield _panel(panel, dashboard.variables) | {"id": number, "gridPos": place}
                number, left = number + 1, left + panel.width
            top += height


def _lines(row: Row) -> Iterator[list[Panel]]:
    """The panels of a row, as many side by side as there is room for."""
    line: list[Panel] = []
    for panel in row.panels:
        if sum(each.width for each in line) + panel.width > COLUMNS:
            yield line
            line = []
        line.append(panel)
    yield line


def _row(row: Row, number: int, top: int) -> Json:
    place = {"x": 0, "y": top, "w": COLUMNS, "h": 1}
    return {"type": "row", "id": number, "title": row.title, "collapsed": False, "gridPos": place, "panels": []}


def _panel(panel: Panel, variables: tuple[str, ...]) -> Json:
    if panel.kind == "traces":
        return _traces(panel)
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": described(panel),
        "datasource": PROMETHEUS,
        "targets": [_target(query, panel, variables, chr(ord("A") + at)) for at, query in enumerate(panel.queries)],
        "fieldConfig": {"defaults": _field(panel), "overrides": []},
        "options": _OPTIONS[panel.kind],
        **({"transformations": _TABLE} if panel.kind == "table" else {}),
    }


def described(panel: Panel) -> str:
    """Of each metric: what it means, its healthy range, and what to do out of it, as its definition has it."""
    names = dict.fromkeys(name for query in panel.queries for name in metrics_of(query.expression) if name in known())
    parts = []
    for definition in dict.fromkeys(known()[name] for name in names):
        parts.append(f"**{definition.name}**: {definition.help} Healthy: {definition.healthy}. {definition.otherwise}".strip())
    return "\n\n".join(parts)


def _target(query: Query, panel: Panel, variables: tuple[str, ...], letter: str) -> Json:
    of_table = {"format": "table", "instant": True, "range": False} if panel.kind == "table" else {"range": True}
    return {
        "refId": letter,
        "datasource": PROMETHEUS,
        "editorMode": "code",
        "expr": narrowed(query.expression, variables),
        "legendFormat": query.legend or "__auto",
        **of_table,
        **({"exemplar": True} if query.exemplars else {}),
    }


def _field(panel: Panel) -> Json:
    steps: list[Json] = [{"color": "green", "value": None}]
    if panel.low is not None:
        steps = [{"color": "red", "value": None}, {"color": "green", "value": panel.low}]
    if panel.high is not None:
        steps.append({"color": "red", "value": panel.high})
    field: Json = {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}}
    if panel.kind == "timeseries":
        shown = "line" if panel.high is not None else "off"
        return field | {"min": 0, "custom": {"lineWidth": 1, "fillOpacity": 8, "thresholdsStyle": {"mode": shown}}}
    return field | {"color": {"mode": "thresholds"}}


def _traces(panel: Panel) -> Json:
    """The newest traces that Jaeger has of a service; the panel's only query is that service's name."""
    (query,) = panel.queries
    return {
        "type": "table",
        "title": panel.title,
        "description": "Each trace id leads to its spans.",
        "datasource": JAEGER,
        "targets": [{"refId": "A", "datasource": JAEGER, "queryType": "search", "service": query.expression, "limit": 20}],
        "fieldConfig": {"defaults": {}, "overrides": []},
        "options": _OPTIONS["table"],
    }


_OPTIONS: Final[dict[str, Json]] = {
    "timeseries": {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "stat": {
        "colorMode": "background",
        "graphMode": "area",
        "textMode": "auto",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    },
    "table": {"showHeader": True, "cellHeight": "sm"},
}
_TABLE: Final = [{"id": "merge", "options": {}}, {"id": "organize", "options": {"excludeByName": {"Time": True}}}]
