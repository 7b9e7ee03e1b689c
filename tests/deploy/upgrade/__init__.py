"""Upgrades and rollbacks of a real cluster under load, from the version that `tests/upgrade/previous` names to this one."""
