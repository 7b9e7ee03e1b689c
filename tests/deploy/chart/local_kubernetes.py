"""What Kubernetes would do with the chart's objects on one node, with processes for pods: start them, probe them, lead clients to
the ready ones, restart one after the other, scale. No part of it is a Kubernetes."""

import asyncio
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import MappingProxyType, TracebackType

from tests.deploy.chart.pod_network import PodNetwork
from tests.deploy.chart.pods import Pod
from tests.deploy.chart.rendering import NAMESPACE, Object, of_kind
from tests.deploy.chart.service_proxy import ServiceProxy
from tests.support.polling import eventually

READY_S = 180.0
STOP_S = 120.0
ENDPOINTS_S = 0.5
"""The lag with which clients are led away from a pod that ends."""


class LocalKubernetes:
    """Use as a context manager. At the end no process is left."""

    def __init__(
        self,
        objects: Sequence[Object],
        directory: Path,
        *,
        domain: str = "cluster.local",
        secrets: Mapping[str, Mapping[str, bytes]] = MappingProxyType({}),
    ) -> None:
        """`secrets`: each one's files. What pods get when they start is what it has then."""
        self._objects, self._directory, self._domain, self._secrets = objects, directory, domain, secrets
        self._network = PodNetwork()
        self._hosts = directory / "hosts"
        self._names: dict[str, str] = {"localhost": "127.0.0.1"}
        self.pods: dict[str, Pod] = {}
        self._jobs: list[Pod] = []
        self._made = 0
        self._sets = of_kind(objects, "StatefulSet")
        self._loop = asyncio.new_event_loop()
        self._ended: dict[str, float] = {}
        self._stopping = threading.Event()
        self._background: list[Future[None]] = []
        self._serving: list[asyncio.Task[None]] = []

    def __enter__(self) -> "LocalKubernetes":
        self._directory.chmod(0o755)
        self._network.__enter__()
        self._threads: ThreadPoolExecutor = self._network.node_threads(4)
        for index, service in enumerate(self._client_services()):
            self._offer(service, f"10.99.2.{index + 1}")
        self._background.append(self._threads.submit(self._run_loop))
        self._background.append(self._threads.submit(self._probe_readiness))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stopping.set()
        self._loop.call_soon_threadsafe(self._loop.stop)
        for pod in (*self.pods.values(), *self._jobs):
            pod.kill()
        self._threads.shutdown()
        self._network.__exit__(kind, error, trace)
        if kind is None:
            for background in self._background:
                background.result()

    def install(self) -> None:
        """Starts all pods. Returns when they are ready."""
        for name, stateful_set in self._sets.items():
            first = stateful_set["spec"].get("ordinals", {}).get("start", 0)
            for ordinal in range(first, first + stateful_set["spec"]["replicas"]):
                self._place(name, ordinal)
        for pod in self.pods.values():
            pod.start()
        self.wait_ready(*self.pods)

    def scale_up(self, stateful_set: str, ordinal: int) -> None:
        name = f"{stateful_set}-{ordinal}"
        if name not in self.pods:
            self._place(stateful_set, ordinal)
        self.pods[name].start()
        self.wait_ready(name)

    def scale_down(self, stateful_set: str, ordinal: int) -> None:
        self._end(self.pods[f"{stateful_set}-{ordinal}"])

    def restart(self, stateful_set: str) -> None:
        """A rolling update: from the last pod to the first, each ready before the next is stopped. It does not wait for
        `minReadySeconds`, which is harder for clients."""
        running = [pod for pod in self.pods.values() if pod.labels["penstock/set"] == stateful_set and not pod.terminating]
        for pod in reversed(running):
            self._end(pod)
            pod.start()
            self.wait_ready(pod.name)

    def run(self, name: str, spec: Object, labels: dict[str, str], within_s: float) -> str:
        """A pod that ends, such as a job's. Returns what it wrote."""
        code, said = self.run_to_the_end(name, spec, labels, within_s)
        assert code == 0, f"{name} ended with {code}:\n{said}"
        return said

    def run_to_the_end(self, name: str, spec: Object, labels: dict[str, str], within_s: float) -> tuple[int, str]:
        """The exit code, and what it wrote."""
        pod = self._make(name, spec, labels)
        self._jobs.append(pod)
        pod.start()
        return pod.wait(within_s), pod.log()

    def start(self, name: str, spec: Object, labels: dict[str, str]) -> Pod:
        """A pod beside the chart's."""
        pod = self.pods[name] = self._make(name, spec, labels)
        pod.start()
        return pod

    def wait_ready(self, *names: str) -> None:
        for pod in map(self.pods.__getitem__, names):
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                try:
                    eventually(partial(self._answers, pod, probe), READY_S)
                except AssertionError as error:
                    raise AssertionError(f"{pod.name}: no good answer to its {probe}; its log:\n{pod.log()[-3000:]}") from error
            pod.ready = True

    def _answers(self, pod: Pod, probe: str) -> bool:
        pod.assert_running()
        return self._threads.submit(pod.answers, probe).result()

    def _place(self, set_name: str, ordinal: int) -> None:
        template = self._sets[set_name]["spec"]["template"]
        labels = {**template["metadata"]["labels"], "apps.kubernetes.io/pod-index": str(ordinal)}
        pod = self._make(f"{set_name}-{ordinal}", template["spec"], labels)
        self.pods[pod.name] = pod
        self._name(f"{pod.name}.{self._sets[set_name]['spec']['serviceName']}", pod.address)

    def _make(self, name: str, spec: Object, labels: dict[str, str]) -> Pod:
        self._made += 1
        address = f"10.99.1.{self._made}"
        return Pod(
            name,
            spec,
            labels,
            namespace=self._network.add(address),
            address=address,
            directory=self._directory / f"pod-{self._made}-{name}",
            hosts=self._hosts,
            config_maps=of_kind(self._objects, "ConfigMap"),
            secrets=self._secrets,
        )

    def _end(self, pod: Pod) -> None:
        self._ended[pod.name] = time.monotonic()
        pod.stop(STOP_S)

    def _client_services(self) -> list[Object]:
        return [each for each in of_kind(self._objects, "Service").values() if each["spec"].get("clusterIP") != "None"]

    def _offer(self, service: Object, address: str) -> None:
        self._network.add_to_node(address)
        self._name(service["metadata"]["name"], address)
        selector = service["spec"]["selector"]
        proxy = ServiceProxy(service, address, lambda: [pod for pod in self.pods.values() if self._is_endpoint(pod, selector)])
        self._serving.append(self._loop.create_task(proxy.serve()))

    def _is_endpoint(self, pod: Pod, selector: Mapping[str, str]) -> bool:
        ended_s = time.monotonic() - self._ended.get(pod.name, 0.0)
        is_led_to = ended_s < ENDPOINTS_S if pod.terminating else pod.ready
        return is_led_to and selector.items() <= pod.labels.items()

    def _name(self, name: str, address: str) -> None:
        self._names[f"{name}.{NAMESPACE}.svc.{self._domain}"] = address
        self._hosts.write_text("".join(f"{to} {name}\n" for name, to in self._names.items()), encoding="utf-8")

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    def _probe_readiness(self) -> None:
        while not self._stopping.wait(1.0):
            for pod in list(self.pods.values()):
                if pod.ready and not pod.terminating and "readinessProbe" in pod.container:
                    pod.ready = pod.answers("readinessProbe") and not pod.terminating
