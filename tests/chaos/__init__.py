"""Real faults under real clients: `make chaos`.

Power cuts of a real file system (`run`): `streams` produce and remember what was acknowledged, `cuts` take the power away,
`judge` holds what a client reads back against what was acknowledged. The page cache is lost as in a power cut; the disk's own
cache is not, since the loop device keeps it: that a flush reaches the platter is the kernel's promise, not ours.

Processes that die and hang (`failing`): `producers` and `consumers` record every call, `faults` does the harm, and
`tests.history` judges what all of them saw together.
"""
