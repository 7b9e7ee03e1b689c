"""The end of a process whose metadata store went back in time (`libs/cluster/image_follower.py`): it starts anew.

What it has in memory is of the lost branch: epochs, incarnations and revisions that must never fall while it runs. The next life
reads the restored store, and brings the mark of the lost branch, so that the controller surveys the logs.
"""

from collections.abc import Callable

from libs.cluster.image import ClusterImage
from libs.runtime.lifecycle import StartAnew
from libs.runtime.metadata_marks import MetadataMarks


def start_anew(die: Callable[[BaseException], None], marks: MetadataMarks | None = None) -> Callable[[ClusterImage], None]:
    """The follower's `on_went_back`. `die` ends the process."""

    def on_went_back(last: ClusterImage) -> None:
        if marks is not None:
            marks.store_went_back(last)
        die(StartAnew("the metadata store went back in time"))

    return on_went_back
