"""File ranges that leave by a stream: which parts the page cache holds, threads that read the rest, and files that another
process passed. It imports no other room."""
