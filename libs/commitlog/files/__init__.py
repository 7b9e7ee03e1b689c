"""The file system port, file names, durable replacement of small files, sync rounds and the bound on open files. It imports
`model`."""
