"""Runs a cluster on this machine: etcd and the services as plain processes on loopback.

Standard library only: set-up runs before anything is installed.
"""
