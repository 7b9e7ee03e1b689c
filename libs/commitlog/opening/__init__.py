"""How a log opens: resume points, recovery after a crash, losses, and the state that was saved beside the batches. It imports
`cleaner`, `segments` and what lies below them."""
