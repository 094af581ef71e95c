"""Where the time of a weight update went, on the sampler's side."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass


@dataclass
class UpdateSeconds:
    """Seconds of one update; phases of several buckets are added up.

    Args:
        send_s: copying the weights to where the workers read them.
        load_s: loading them into the model.
        verify_s: computing checksums.
    """

    send_s: float = 0.0
    load_s: float = 0.0
    verify_s: float = 0.0

    @staticmethod
    def slowest(several: "Iterable[UpdateSeconds]") -> "UpdateSeconds":
        """Return the longest of each phase: workers and samplers update concurrently."""
        dicts = [asdict(UpdateSeconds()), *(asdict(one) for one in several)]
        return UpdateSeconds(**{name: max(one[name] for one in dicts) for name in dicts[0]})
