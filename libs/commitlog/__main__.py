"""The tool `python -m libs.commitlog inspect|verify DIR`, which looks into log directories and changes nothing.

DIR is a log directory or one partition's, of a stopped or a running log. Exit code 0: nothing is wrong; 1: something is wrong,
and is reported with its place; 2: the arguments are wrong. See docs/inspect.md.

`accept-loss DIR`: a partition that a node does not open because of a loss opens with its remaining records.
"""

import argparse
import io
import json
import logging
import os
import sys
from collections.abc import Sequence

from libs.commitlog.files.filesystem import OsFileSystem
from libs.commitlog.inspection import json_report, text_report
from libs.commitlog.inspection.directory import is_partition_path, look, verify, what_is
from libs.commitlog.inspection.findings import Findings
from libs.commitlog.inspection.loss_check import has_loss
from libs.commitlog.inspection.partition import PartitionReader
from libs.commitlog.inspection.reading import ReadOnlyFiles
from libs.commitlog.opening.losses import ACCEPTED, accept

CLEAN, PROBLEMS, USAGE = 0, 1, 2


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m libs.commitlog", description="Looks into log directories.")
    commands = parser.add_subparsers(dest="command", required=True)
    inspect = commands.add_parser("inspect", help="segments, indexes, epochs, producers, what is durable")
    inspect.add_argument("--batches", action="store_true", help="of one partition: a line for each batch")
    inspect.add_argument("--from", dest="start_offset", type=int, default=0, metavar="OFFSET", help="batches from there on")
    check = commands.add_parser("verify", help="reads every byte and says what is wrong; exit code 1 if anything is")
    check.add_argument("--records", action="store_true", help="opens every batch too")
    for command in (inspect, check):
        command.add_argument("--json", action="store_true", help="for programs")
        command.add_argument("directory", metavar="DIR", help="a log directory, or one partition's")
    give_up = commands.add_parser("accept-loss", help="of a partition that is offline: let it open with what is left")
    give_up.add_argument("directory", metavar="DIR", help="the partition's directory, also if it is gone")
    options = parser.parse_args(arguments)
    files, path = OsFileSystem(), os.path.abspath(options.directory)
    try:
        if options.command == "accept-loss":
            return _accept_loss(files, path)
        kind = what_is(files, path)
    except OSError as error:
        return _refuse(f"{path}: {error.strerror}")
    if kind is None:
        return _refuse(f"{path} is neither a log directory nor a partition's")
    findings = Findings()
    if options.command == "verify":
        directory = verify(files, path, findings, records=options.records)
        lines = text_report.verdict(directory, findings)
    elif options.batches:
        if kind != "partition":
            return _refuse("--batches shows one partition: name its directory")
        return _show_batches(files, path, findings, options.start_offset, as_lines=options.json)
    else:
        directory = look(files, path, findings)
        lines = text_report.overview(directory, findings)
    if options.json:
        print(json.dumps(json_report.report(directory, findings), indent=1))
    else:
        print("\n".join(lines).lstrip("\n"))
    return PROBLEMS if findings.problems else CLEAN


def _accept_loss(files: OsFileSystem, path: str) -> int:
    if not is_partition_path(files, path):
        return _refuse(f"{path} is no partition's directory in a log directory")
    if not has_loss(files, path):
        print(f"{path} has lost nothing: there is nothing to accept, and nothing was written", file=sys.stderr)
        return PROBLEMS
    accept(files, path)
    print(
        f"{path}/{ACCEPTED} is written. When the partition is opened next, every byte of it is read, what cannot be read is cut, "
        "and it goes on with what is left. A node that has refused it opens it in a few seconds, one that serves it at its next "
        "start. To take it back, remove that file."
    )
    return CLEAN


def _show_batches(files: ReadOnlyFiles, path: str, findings: Findings, start_offset: int, *, as_lines: bool) -> int:
    reader = PartitionReader(files, path, findings, is_running=False)
    shown = None
    for segment, region in reader.batches(start_offset):
        if as_lines:
            print(json.dumps(json_report.batch(segment, region)))
            continue
        if segment is not shown:
            shown = segment
            print(f"{os.path.basename(segment.path)}")
        print(text_report.batch_lines(segment, region))
    for line in text_report.finding_lines(findings, path):
        print(line, file=sys.stderr)
    return PROBLEMS if findings.problems else CLEAN


def _refuse(reason: str) -> int:
    print(reason, file=sys.stderr)
    return USAGE


if __name__ == "__main__":
    if isinstance(sys.stdout, io.TextIOWrapper):  # a locale may lack a dash, or a character of a path
        sys.stdout.reconfigure(errors="backslashreplace")
    logging.disable()  # what the log would say of damage to itself, findings say
    try:
        code = main(sys.argv[1:])
        sys.stdout.flush()
        sys.exit(code)
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(CLEAN)
