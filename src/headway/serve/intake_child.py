"""The child's side of an IntakeProcess: takes models in until the other end closes."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection

from headway.core.errors import HeadwayError
from headway.live.cache import Found, ProfileCache
from headway.live.processors import machine, runtime
from headway.live.profiler import Intake
from headway.models.profile import ModelProfile
from headway.serve.priority import Rank, take_rank
from headway.serve.repository import ModelSource


class KeptProfiles(ProfileCache):
    """Uses what was measured on a busy machine, too: a server's own work is what keeps it busy."""

    def find(self, model: str, identity: Sequence[object]) -> Found:
        """The profile of a model, if it was measured here, with this runtime."""
        found = super().find(model, identity)
        if found.profile is not None or not found.reason:
            return found
        path = self.path(model, identity)
        try:
            profile = ModelProfile.from_json(path.read_bytes(), str(path))
            measured_s = path.stat().st_mtime
        except (OSError, HeadwayError):
            return found
        here = (profile.machine, profile.runtime) == (machine(), runtime())
        return Found(profile, "", measured_s) if here else found


def take_in_here(
    source: ModelSource,
    key: str,
    widths: Mapping[int, Sequence[int]],
    beside: Sequence[int],
    again: bool,
    rank: Rank,
) -> Intake | str:
    """Take a model in, or say why that cannot be.

    `again` tells that this server had it before: what was measured then is good enough. `beside` are the
    processors of another lane, for probes. `rank` is taken before.
    """
    take_rank(rank)
    from headway.live.profiler import take_in
    from headway.models.reading import zoo_source

    cache = KeptProfiles() if again else ProfileCache()
    most = 1 if source.batching is None else source.batching.max_size

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # profiles that are measured again: the server's log is no place
            if source.path is None:
                built = zoo_source(source.zoo, source.options, most)
                return take_in(built, widths, name=key, cache=cache, probed_beside=beside, most_batch=most)
            dims = dict(source.dims)
            return take_in(
                source.path,
                widths,
                name=key,
                dims=dims,
                cache=cache,
                probed_beside=beside,
                most_batch=most,
            )
    except HeadwayError as error:
        return str(error)
    except Exception as error:
        # Models are written by others: whatever reading one raises must not end the server's loading.
        return f"{type(error).__name__}: {error}"


def main() -> None:
    """Serve the socket whose descriptor is the program's argument."""
    connection = Connection(int(sys.argv[1]))
    with suppress(EOFError, OSError):
        while True:
            answer = take_in_here(*connection.recv())
            if isinstance(answer, Intake):
                answer.split.workspace.give_away()
            connection.send(answer)
            del answer
