"""Log directories: their opening, the place of each replica, and the reports of it to the controller. It imports `partition` and
`core`."""
