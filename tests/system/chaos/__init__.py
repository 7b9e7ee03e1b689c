"""Real faults under real clients: `make chaos`.

Power cuts of one storage node (`run`): `streams` produce and remember what was acknowledged, `cuts` take the power away, `judge`
holds what a client reads back against what was acknowledged. The page cache is lost as in a power cut; the disk's own cache is
not, since the loop device keeps it: that a flush reaches the platter is the kernel's promise, not ours.

Faults of a replicated cluster (`failing`): `producers` and `consumers` record every call, and `tests.history` judges what all of
them saw together. `places` says where it runs, and so what can happen to it: `faults` of processes, clocks and a disk that fills
up, `power_cuts` of one node or of all, `cut_off` for a network between `hosts`. One seed draws which, when and for how long.

Transactions amid faults are in a folder of their own, `transactions/`.
"""
