"""The leader's side: pulls, progress of followers, ISR changes, epoch ends, throttle. It imports `fetch`, `partition` and
`core`."""
