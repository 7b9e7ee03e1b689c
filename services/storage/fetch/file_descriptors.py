"""OPEN_FILE: passes a segment file to a caller on this host, as a read-only descriptor beside the answer (SCM_RIGHTS)."""

from libs.commitlog.files.filesystem import FileSystem
from libs.commitlog.segments.segment import FileRegistry
from libs.rpc.call import Call
from libs.rpc.contracts.storage import OpenFile, OpenFileReply
from libs.rpc.errors import ContractError
from libs.rpc.schema import unpack
from libs.wire.errors import ErrorCode


class FileDescriptorRequests:
    def __init__(self, registry: FileRegistry, fs: FileSystem) -> None:
        self._registry = registry
        self._fs = fs

    def accept(self, call: Call) -> None:
        """Answers over Unix sockets only, since nothing else passes descriptors."""
        try:
            request = unpack(OpenFile, call.body)
        except ContractError as error:
            call.fail(int(ErrorCode.INVALID_REQUEST), str(error))
            return
        if call.peer.uid is None:
            call.fail(int(ErrorCode.INVALID_REQUEST), "descriptors are passed over Unix sockets only")
            return
        file = self._registry.get(request.file_id)
        try:
            descriptor = file.open_readonly() if file is not None else -1
        except OSError:
            descriptor = -1
        if descriptor < 0:
            call.reply(OpenFileReply(exists=False))
            return
        try:
            call.reply(OpenFileReply(exists=True), descriptors=(descriptor,))  # the reply duplicates it
        finally:
            self._fs.close(descriptor)
