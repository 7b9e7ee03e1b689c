"""Three hosts without Kubernetes, as docs/operate/three-hosts.md makes them, and clients on a fourth.

Hosts are network namespaces. Each has its own /opt, /var/lib and /run; its processes are what the unit files say.
"""
