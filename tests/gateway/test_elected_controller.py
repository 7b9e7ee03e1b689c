"""Requests to the elected controller, whichever process that is by then."""

import asyncio

import pytest

from libs.cluster import keys
from libs.cluster.records import ElectedController, Member
from libs.rpc.contracts.controller import CREATE_TOPICS, CreateTopics, TopicsReply
from libs.rpc.contracts.peers import IMAGE_AT, ImageAt
from libs.rpc.messages.errors import RpcError
from libs.rpc.server.rpc_server import Call, Hello, RpcServer
from libs.rpc.transport.socket_transport import SocketTransport
from libs.wire.errors import ErrorCode
from services.gateway.exchange.request_context import ControllerUnavailable
from tests.gateway.conftest import HOST_ID, Rig
from tests.support.polling import until

ASK = CreateTopics(())


class Controller:
    """It answers with its own id as the revision, or refuses."""

    def __init__(self, rig: Rig, node_id: int) -> None:
        self.rig, self.node_id = rig, node_id
        self.refuse_with = 0
        self.requests = 0
        self.address = f"unix:{rig.directory}/c{node_id}"
        hello = Hello("controller", node_id, 1, "test", 1)
        self.revision = 0
        answers = {CREATE_TOPICS: self._create, IMAGE_AT: self._image_at}
        self.server = RpcServer(hello, answers, transport=SocketTransport())

    async def start(self) -> None:
        await self.server.listen(self.address)
        member = Member("controller", self.node_id, 1, HOST_ID, unix_address=self.address)
        await self.rig.put(keys.member("controller", self.node_id), member)

    async def elect(self) -> None:
        await self.rig.put(keys.CONTROLLER, ElectedController(self.node_id, 1))

    def _create(self, call: Call) -> None:
        self.requests += 1
        if self.refuse_with:
            call.fail(self.refuse_with, "no")
        else:
            call.reply(TopicsReply((), self.node_id))

    def _image_at(self, call: Call) -> None:
        if self.revision >= 0:
            call.reply(ImageAt(self.revision, "c"))


async def test_a_call_waits_for_an_election_and_goes_to_whoever_won(rig: Rig) -> None:
    gateway = await rig.start()
    first, second = Controller(rig, 1), Controller(rig, 2)
    await first.start()
    await second.start()
    call = asyncio.create_task(gateway.controller(CREATE_TOPICS, ASK, TopicsReply, timeout_s=60))
    await first.elect()
    assert (await call).revision == 1
    first.refuse_with = ErrorCode.NOT_CONTROLLER
    call = asyncio.create_task(gateway.controller(CREATE_TOPICS, ASK, TopicsReply, timeout_s=60))
    await until(lambda: first.requests > 1)
    await second.elect()
    assert (await call).revision == 2
    await first.server.close(0)
    await second.server.close(0)


async def test_a_refusal_is_passed_on_and_silence_is_said(rig: Rig) -> None:
    gateway = await rig.start()
    with pytest.raises(ControllerUnavailable):
        await gateway.controller(CREATE_TOPICS, ASK, TopicsReply, timeout_s=0.1)
    controller = Controller(rig, 1)
    await controller.start()
    await controller.elect()
    controller.refuse_with = ErrorCode.POLICY_VIOLATION
    with pytest.raises(RpcError) as refused:
        await gateway.controller(CREATE_TOPICS, ASK, TopicsReply, timeout_s=60)
    assert refused.value.code == ErrorCode.POLICY_VIOLATION
    await controller.server.close(0)


async def test_each_controller_is_asked_for_its_revision_and_a_silent_one_is_left_out(rig: Rig) -> None:
    gateway = await rig.start()
    controllers = [Controller(rig, node_id) for node_id in (1, 2, 3, 4)]
    for controller, revision in zip(controllers, (11, 12, 0, -1), strict=True):  # the third has no image, the fourth is silent
        controller.revision = revision
        await controller.start()
    await until(lambda: len(gateway.image.members("controller")) == 4)
    assert await gateway.controller_revisions() == {1: 11, 2: 12}
    for controller in controllers:
        await controller.server.close(0)
