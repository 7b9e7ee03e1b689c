"""Known vulnerabilities of the packages that constraints.txt pins: `make audit`. Imports nothing of the services."""
