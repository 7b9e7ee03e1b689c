"""Grafana dashboards and Prometheus rules, made from one description each (`descriptions/`, `alerts.py`).

`monitoring_files.py` writes them to charts/penstock/, from where the chart and Compose take them. It imports the definitions of
metrics, and the tests hold what is written to them.
"""
