"""The answering side: connections of callers, a call as a handler gets it, and answers that wait for a disk. It imports
`messages`, `transport` and `files`."""
