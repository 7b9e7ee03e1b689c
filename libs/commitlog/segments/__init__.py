"""One segment: its batches, its indexes, how reads find a place in it, and how cleaned segments replace others. It imports
`producers`, `files` and `model`."""
