"""Administration requests: each is decided on the current image, written, and answered with the revision of its effect.

If the store holds something else than the decision was made on, it is made again. Items are independent: a failed one does not
undo those that are written.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from libs.cluster.image import ClusterImage
from libs.cluster.store import DENIED
from libs.lean_dataclass import dataclass
from libs.rpc.contracts.controller import (
    AlterClientQuotas,
    AlterClientQuotasReply,
    AlterConfigs,
    AlterConfigsReply,
    AssignDirs,
    AssignDirsReply,
    ConfigResult,
    CreateInternalTopic,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    EntityQuotasResult,
    QuotaEntityParts,
    TopicRef,
    TopicResult,
    TopicsReply,
)
from libs.wire.errors import ErrorCode
from services.controller.core.administration.client_quotas import alter_client_quotas
from services.controller.core.directories.replica_directories import assign_dirs
from services.controller.core.topics.alter_configs import alter_configs
from services.controller.core.topics.create_partitions import create_partitions
from services.controller.core.topics.durability_changes import marked_lax
from services.controller.core.topics.internal_topics import create_internal_topic
from services.controller.core.topics.mutation_quotas import MutationQuotas
from services.controller.core.topics.replica_assignment import Limits
from services.controller.core.topics.topics import Creation, Randomness, create_topics, delete_topics
from services.controller.term import writes
from services.controller.term.fenced_writer import Conflict, Deposed, OutcomeUnknown, WriteDenied
from services.controller.term.term import ATTEMPTS, Term

NOT_CONTROLLER: Final = "This is not the correct controller for this cluster."
OUTCOME_UNKNOWN: Final = "The metadata store did not confirm the change in time; it may have been made."


@dataclass(slots=True)
class Progress:
    """How far a request has come: why it stopped, if it did, and the newest revision that it wrote."""

    revision: int
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


class Administration:
    """Carries out admin requests within a term. The caller makes sure that only one runs at a time."""

    def __init__(self, random: Randomness, limits: Limits) -> None:
        self._random = random
        self._limits = limits
        self.mutation_quotas = MutationQuotas()

    async def create_topics(self, term: Term, request: CreateTopics) -> TopicsReply:
        done: dict[str, TopicResult] = {}
        quota = self.mutation_quotas.of(term.image, request.client)

        async def attempt(progress: Progress) -> None:
            left = tuple(topic for topic in request.topics if topic.name not in done)
            image = term.image
            decision = create_topics(image, CreateTopics(left), self._random, self._limits, quota.at(_now()))
            if request.validate_only:
                done.update((topic.topic.name, topic.result) for topic in decision.planned)
                decision = replace(decision, planned=())
            await _create(term, image, decision, progress, done)

        progress = await attempts(term, attempt)
        names = dict.fromkeys(topic.name for topic in request.topics)
        return TopicsReply(tuple(_topic_results(names, done, progress)), progress.revision, quota.throttle_ms(_now()))

    async def create_internal_topic(self, term: Term, request: CreateInternalTopic) -> TopicsReply:
        """Creates an internal topic. The result is a success if the topic exists already."""
        done: dict[str, TopicResult] = {}

        async def attempt(progress: Progress) -> None:
            image = term.image
            decision = create_internal_topic(image, request, self._random, self._limits)
            await _create(term, image, decision, progress, done)

        progress = await attempts(term, attempt)
        return TopicsReply(tuple(_topic_results([request.name], done, progress)), progress.revision)

    async def delete_topics(self, term: Term, request: DeleteTopics) -> TopicsReply:
        done: dict[TopicRef, TopicResult] = {}
        quota = self.mutation_quotas.of(term.image, request.client)

        async def attempt(progress: Progress) -> None:
            left = tuple(ref for ref in request.topics if ref not in done)
            decision = delete_topics(term.image, DeleteTopics(left), quota.at(_now()))
            by_ref = dict(zip(dict.fromkeys(left), decision.results, strict=True))
            ref_of = {result.topic_id: ref for ref, result in by_ref.items() if not result.error}
            done.update((ref, result) for ref, result in by_ref.items() if result.error)
            for write, topics in writes.deletion(term.image, decision.topics):
                progress.revision = await term.commit(write)
                for topic in topics:
                    ref = ref_of[bytes.fromhex(topic.topic_id)]
                    done[ref] = by_ref[ref]

        progress = await attempts(term, attempt)
        results = []
        for ref in dict.fromkeys(request.topics):
            unfinished = TopicResult(ref.name or "", progress.error, progress.message, ref.topic_id)
            results.append(done.get(ref, unfinished))
        return TopicsReply(tuple(results), progress.revision, quota.throttle_ms(_now()))

    async def create_partitions(self, term: Term, request: CreatePartitions) -> TopicsReply:
        done: dict[str, TopicResult] = {}
        quota = self.mutation_quotas.of(term.image, request.client)

        async def attempt(progress: Progress) -> None:
            left = tuple(topic for topic in request.topics if topic.name not in done)
            charge = quota.at(_now())
            decision = create_partitions(term.image, CreatePartitions(left), self._random, self._limits, charge)
            done.update((result.name, result) for result in decision.refused)
            for planned in decision.planned:
                if not request.validate_only:
                    for write in writes.growth(term.image, planned):
                        progress.revision = await term.commit(write)
                done[planned.after.name] = planned.result

        progress = await attempts(term, attempt)
        names = dict.fromkeys(topic.name for topic in request.topics)
        return TopicsReply(tuple(_topic_results(names, done, progress)), progress.revision, quota.throttle_ms(_now()))

    async def alter_configs(self, term: Term, request: AlterConfigs) -> AlterConfigsReply:
        done: dict[tuple[int, str], ConfigResult] = {}

        async def attempt(progress: Progress) -> None:
            left = tuple(r for r in request.resources if (r.resource_type, r.name) not in done)
            image = term.image
            decided = alter_configs(image, replace(request, resources=left))
            changing = []
            for alteration in decided:
                if request.validate_only or not alteration.changes(image):
                    done[alteration.resource.resource_type, alteration.resource.name] = alteration.result
                else:
                    changing.append(alteration)
            for write in writes.partition_changes(image, marked_lax(image, changing)):
                progress.revision = await term.commit(write)
            for write, made in writes.alterations(image, lambda: term.image, changing):
                progress.revision = await term.commit(write)
                done.update(((a.resource.resource_type, a.resource.name), a.result) for a in made)

        progress = await attempts(term, attempt)
        results = []
        for resource in dict.fromkeys((r.resource_type, r.name) for r in request.resources):
            results.append(done.get(resource, ConfigResult(*resource, progress.error, progress.message)))
        return AlterConfigsReply(tuple(results), progress.revision)

    async def alter_client_quotas(self, term: Term, request: AlterClientQuotas) -> AlterClientQuotasReply:
        done: dict[QuotaEntityParts, EntityQuotasResult] = {}

        async def attempt(progress: Progress) -> None:
            image = term.image
            left = tuple([each for each in request.entities if each.entity not in done])
            changing = []
            for alteration in alter_client_quotas(image, left):
                if request.validate_only or not alteration.changes(image):
                    done[alteration.result.entity] = alteration.result
                else:
                    changing.append(alteration)
            for write, made in writes.quota_alterations(image, lambda: term.image, changing):
                progress.revision = await term.commit(write)
                done.update((each.result.entity, each.result) for each in made)

        progress = await attempts(term, attempt)
        results = []
        for entity in dict.fromkeys(each.entity for each in request.entities):
            results.append(done.get(entity, EntityQuotasResult(entity, progress.error, progress.message)))
        return AlterClientQuotasReply(tuple(results), progress.revision)

    async def assign_dirs(self, term: Term, request: AssignDirs) -> AssignDirsReply:
        """Raises Refused for a stale incarnation, and OutcomeUnknown. The storage node then sends the request again, which is
        harmless."""

        async def attempt(progress: Progress) -> None:
            for write in writes.partition_changes(term.image, assign_dirs(term.image, request)):
                progress.revision = await term.commit(write)

        progress = await attempts(term, attempt)
        if progress.error:
            raise OutcomeUnknown(progress.message)
        return AssignDirsReply(progress.revision)


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _create(term: Term, image: ClusterImage, decision: Creation, progress: Progress, done: dict[str, TopicResult]) -> None:
    """Writes what `decision` plans. It was made on `image`."""
    done.update((result.name, result) for result in decision.refused)
    for write, topics in writes.creation(image, decision.planned):
        progress.revision = await term.commit(write)
        done.update((topic.topic.name, topic.result) for topic in topics)


def unconfirmed(error: Exception) -> str:
    """What a client hears of a write that the store did not confirm."""
    return f"The metadata store refuses the change: {DENIED}." if isinstance(error, WriteDenied) else OUTCOME_UNKNOWN


async def attempts(term: Term, attempt: Callable[[Progress], Awaitable[None]]) -> Progress:
    """Runs `attempt` until it meets no conflict.

    Raises Deposed only if nothing was written, so that the caller may send the whole request to the next controller. Otherwise
    the answer says what was written.
    """
    progress = Progress(0)
    try:
        for _ in range(ATTEMPTS):
            try:
                await attempt(progress)
                break
            except Conflict as conflict:
                await term.catch_up(conflict.revision)
        else:
            progress.error, progress.message = ErrorCode.REQUEST_TIMED_OUT, OUTCOME_UNKNOWN
    except OutcomeUnknown as error:
        progress.error, progress.message = ErrorCode.REQUEST_TIMED_OUT, unconfirmed(error)
    except Deposed:
        if not progress.revision:
            raise
        progress.error, progress.message = ErrorCode.NOT_CONTROLLER, NOT_CONTROLLER
    progress.revision = progress.revision or term.image.revision
    return progress


def _topic_results(names: Iterable[str], done: Mapping[str, TopicResult], progress: Progress) -> Iterator[TopicResult]:
    for name in names:
        yield done.get(name) or TopicResult(name, progress.error, progress.message)
