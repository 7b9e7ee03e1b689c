"""A rebalance storm: members of groups that join, leave and crash all the time, over a topic that is written meanwhile.

Members are a few lines over raw connections, so that hundreds fit into one process (`classic`, `consumer`: each protocol's rules
for members; `reading`: what a member fetches and commits). All of them tell one `ledger` when they begin and cease to own a
partition, what they read and what was committed, and it complains as soon as that cannot be true of sound groups.
`run` stirs them, python -m tests.system.storm runs the full size.
"""
