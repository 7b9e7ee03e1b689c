"""Systemd units and settings for a cluster on several hosts, where nobody runs `make up`.

Standard library only, and nothing of the launcher but its errors: `python -m services.local.systemd` runs on each host.
"""
