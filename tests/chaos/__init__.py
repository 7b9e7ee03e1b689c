"""Real power cuts on a real file system, under real clients: `make chaos`.

`streams` produce and remember what was acknowledged, `cuts` take the power away, `judge` holds what a client reads back against
what was acknowledged, `run` plays one after the other. The page cache is lost as in a power cut; the disk's own cache is not,
since the loop device keeps it: that a flush reaches the platter is the kernel's promise, not ours.
"""
