"""What front ends ask and change about models: descriptions, statistics, the index, loading and unloading."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from headway.serve.lifecycle import Models
from headway.serve.loaded import PLATFORM
from headway.serve.refusal import Cause, Refusal
from headway.serve.service import IndexEntry, ModelDescription, ModelStatistics
from headway.serve.tenants import Tenants


class ModelDesk:
    """The part of `headway.serve.service.InferenceService` that needs no engine.

    `overrides_accepted` tells whether a load may bring a configuration, `upload_bytes` how many bytes of
    files, 0 for none.

    Args:
        models: what is loaded.
        tenants: whose keys may change that.
        require_changes: raises Refusal where nothing is changed any more.
    """

    def __init__(self, models: Models, tenants: Tenants, require_changes: Callable[[], None]) -> None:
        self.models = models
        self.tenants = tenants
        self._require_changes = require_changes
        self.overrides_accepted = False
        self.upload_bytes = 0

    def describe(self, model: str, version: str = "") -> ModelDescription:
        """Its metadata. Raises Refusal (NOT_FOUND) for one that is unknown or not loaded."""
        loaded = self.models.find(model, version)
        return ModelDescription(
            loaded.name,
            loaded.version,
            self.models.versions(model),
            PLATFORM,
            loaded.inputs,
            loaded.outputs,
            0 if loaded.batching is None else loaded.batching.max_size,
            loaded.labels,
        )

    def statistics(self, model: str = "", version: str = "") -> Sequence[ModelStatistics]:
        """Statistics of one model, or of all."""
        return [tally.statistics() for tally in self.models.tallies(model, version)]

    def index(self, *, only_ready: bool = False) -> Sequence[IndexEntry]:
        """What the repository holds."""
        return self.models.index(only_ready=only_ready)

    async def load(
        self,
        model: str,
        key: str | None,
        config: str | None = None,
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        """Load a model, or load it again; returns when it is warm. Raises Refusal, also for a bad model."""
        self.tenants.require_control(key)
        self._require_changes()
        if files:
            self._check_uploads(files)
        elif config is not None and not self.overrides_accepted:
            raise Refusal(
                Cause.FORBIDDEN,
                "this server takes no configuration with a load; accepted: the one in its repository, unless"
                " repository.overrides is switched on",
            )
        await asyncio.wrap_future(self.models.load(model, config, files))

    def _check_uploads(self, files: Mapping[str, bytes]) -> None:
        if not self.upload_bytes:
            raise Refusal(
                Cause.FORBIDDEN,
                "files are not taken with a load; accepted: the models in this server's repository, unless"
                " repository.uploads is switched on",
            )
        size = sum(map(len, files.values()))
        if size > self.upload_bytes:
            raise Refusal(
                Cause.TOO_LARGE, f"the files have {size} bytes; accepted: at most {self.upload_bytes}"
            )

    async def unload(self, model: str, key: str | None) -> None:
        """Drain a model and give back what it held; returns when that is done."""
        self.tenants.require_control(key)
        self._require_changes()
        await asyncio.wrap_future(self.models.unload(model))
