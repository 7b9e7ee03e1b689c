"""OPEN_FILE: passes a segment file to a caller on this host, as a read-only descriptor beside the answer (SCM_RIGHTS)."""

from collections.abc import Coroutine
from functools import partial
from typing import Any

from libs.commitlog.files.filesystem import FileSystem
from libs.commitlog.files.page_cache import FIRST_ATTEMPT, ColdRead, NotInPageCache
from libs.commitlog.segments.segment import FileRegistry
from libs.rpc.contracts.storage import OpenFile, OpenFileReply
from libs.rpc.messages.errors import ContractError
from libs.rpc.messages.schema import unpack
from libs.rpc.server.call import Call
from libs.wire.errors import ErrorCode
from services.storage.disks.disk_reads import DiskReads, TooManyReads


class FileDescriptorRequests:
    def __init__(self, registry: FileRegistry, fs: FileSystem, disk_reads: DiskReads) -> None:
        self._registry = registry
        self._fs = fs
        self._disk_reads = disk_reads

    def accept(self, call: Call) -> Coroutine[Any, Any, None] | None:
        """Answers over Unix sockets only, since nothing else passes descriptors."""
        try:
            request = unpack(OpenFile, call.body)
        except ContractError as error:
            call.fail(int(ErrorCode.INVALID_REQUEST), str(error))
            return None
        if call.peer.uid is None:
            call.fail(int(ErrorCode.INVALID_REQUEST), "descriptors are passed over Unix sockets only")
            return None
        try:
            with FIRST_ATTEMPT:
                descriptor = self._open(request.file_id)
        except NotInPageCache as miss:
            return self._finish(call, request.file_id, miss.read)
        self._pass(call, descriptor)
        return None

    async def _finish(self, call: Call, file_id: int, needed: ColdRead) -> None:
        try:
            descriptor = await self._disk_reads.finish(needed, partial(self._open, file_id))
        except TooManyReads:
            descriptor = -1
        self._pass(call, descriptor)

    def _open(self, file_id: int) -> int:
        """A descriptor of the file, -1 if it is gone. Raises NotInPageCache."""
        file = self._registry.get(file_id)
        try:
            return file.open_readonly() if file is not None else -1
        except OSError:
            return -1

    def _pass(self, call: Call, descriptor: int) -> None:
        if descriptor < 0:
            call.reply(OpenFileReply(exists=False))
            return
        try:
            call.reply(OpenFileReply(exists=True), descriptors=(descriptor,))  # the reply duplicates it
        finally:
            self._fs.close(descriptor)
