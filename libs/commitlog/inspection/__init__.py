"""Looking at log files without touching them: of a stopped log, of a running one, of a damaged one. See `docs/inspect.md`."""
