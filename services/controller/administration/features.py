"""UpdateFeatures: the finalized levels of features change."""

from libs.rpc.contracts.controller import UpdateFeatures, UpdateFeaturesReply
from services.controller.administration.administration import Administration
from services.controller.core.administration.features import update_features
from services.controller.term import writes
from services.controller.term.fenced_writer import Conflict, OutcomeUnknown
from services.controller.term.term import ATTEMPTS, Term


async def change_features(administration: Administration, term: Term, request: UpdateFeatures) -> UpdateFeaturesReply:
    """Changes all of the features in one transaction. Raises Refused and OutcomeUnknown."""
    for _ in range(ATTEMPTS):
        image = term.image
        levels = update_features(image, request.updates)
        if request.validate_only or not levels:
            return UpdateFeaturesReply(image.revision)
        try:
            return UpdateFeaturesReply(await term.commit(writes.feature_levels(image, levels)), tuple(levels.items()))
        except Conflict as conflict:
            await term.catch_up(conflict.revision)
    raise OutcomeUnknown("the features changed each time")
