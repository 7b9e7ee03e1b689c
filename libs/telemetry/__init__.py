"""Logs, metrics and stage times, as every service uses them. It imports no other library of ours."""
