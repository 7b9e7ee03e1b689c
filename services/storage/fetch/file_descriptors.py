"""OPEN_FILE: hands a segment file to a caller on this host, as a read-only descriptor that rides with the answer (SCM_RIGHTS)."""

import os

from libs.commitlog.segment import FileRegistry
from libs.rpc.call import Call
from libs.rpc.contracts.storage import OpenFile, OpenFileReply
from libs.rpc.errors import ContractError
from libs.rpc.schema import unpack
from libs.wire.errors import ErrorCode


class FileOpening:
    def __init__(self, registry: FileRegistry) -> None:
        self._registry = registry

    def accept(self, call: Call) -> None:
        """Unix sockets only: there is no other way to pass a descriptor."""
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
            call.reply(OpenFileReply(found=False))
            return
        try:
            call.reply(OpenFileReply(found=True), descriptors=(descriptor,))  # duplicated there
        finally:
            os.close(descriptor)
