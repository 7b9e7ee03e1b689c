"""A Kubernetes of its own on this machine: a control plane and nodes, each in a network namespace, with containerd. Takes root.

Its programs are built by Go at pinned versions (`binaries`). Nothing of it is meant for more than tests.
"""
