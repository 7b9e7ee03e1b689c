"""Example job files, and a program that makes their topics from what is installed on this machine."""
