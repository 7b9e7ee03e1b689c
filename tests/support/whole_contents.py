"""Whole contents of files that a log writes piece by piece."""

from collections.abc import Mapping

from libs.commitlog.files.checked_content import CheckedContent
from libs.commitlog.opening.resume_points import ResumePoint, resume_content
from libs.commitlog.producers.producer_entries import ProducerEntry
from libs.commitlog.producers.producer_snapshot import snapshot_content
from libs.commitlog.producers.producer_table import packed_of


def whole(content: CheckedContent) -> bytes:
    return b"".join([piece for _, piece in sorted(content.placed())])


def format_resume(point: ResumePoint) -> bytes:
    return whole(resume_content(point))


def format_snapshot(entries: Mapping[int, ProducerEntry]) -> bytes:
    return whole(snapshot_content(packed_of(entries)))
