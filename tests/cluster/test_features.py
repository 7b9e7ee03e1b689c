"""The levels of a cluster beside those that the software supports."""

import re
from dataclasses import replace

import pytest

from libs.cluster.features import FEATURE_LEVEL, FEATURES, unsupported_levels
from libs.cluster.image import ClusterImage
from libs.runtime.lifecycle import CannotRun
from libs.runtime.process import refuse_newer_cluster

NEWER = FEATURE_LEVEL + 1


def test_a_cluster_that_does_not_exist_yet_and_one_at_our_own_levels_are_supported() -> None:
    ours = {feature.name: feature.max_level for feature in FEATURES}
    for image in (ClusterImage(), replace(ClusterImage(), feature_level=FEATURE_LEVEL, finalized_features=ours)):
        assert list(unsupported_levels(image)) == []
        refuse_newer_cluster(image, "0.1.0")


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (replace(ClusterImage(), feature_level=NEWER), f"feature level {NEWER} (supported: up to {FEATURE_LEVEL})"),
        (
            replace(ClusterImage(), finalized_features={"transaction.version": 3}),
            "transaction.version level 3 (supported: 0 to 2)",
        ),
        (replace(ClusterImage(), finalized_features={"share.version": 1}), "share.version level 1 (supported: none)"),
    ],
)
def test_a_higher_level_is_refused_in_words_that_name_it_and_what_is_supported(image: ClusterImage, words: str) -> None:
    assert list(unsupported_levels(image)) == [words]
    with pytest.raises(CannotRun, match=re.escape(words)) as refusal:
        refuse_newer_cluster(image, "0.1.0")
    assert str(refusal.value).startswith("this version of Penstock, 0.1.0, does not support")


def test_an_unknown_feature_that_is_not_finalized_is_in_nobodys_way() -> None:
    assert list(unsupported_levels(replace(ClusterImage(), finalized_features={"share.version": 0}))) == []
