"""What a server's configuration wants told of each request: an access log, spans."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headway.config.serving import Serving
from headway.core.errors import HeadwayError
from headway.core.protocols import Sink
from headway.serve.access_log import AccessLog
from headway.serve.settings import Settings

if TYPE_CHECKING:
    from headway.serve.tracing import Tracer


def access_log_of(serving: Serving) -> AccessLog | None:
    """The access log, if the configuration wants one. Raises OSError if its file cannot be opened."""
    wanted = serving.access_log
    if wanted is None:
        return None
    return AccessLog(serving.folder / wanted.file, round(wanted.part), wanted.keep)


def tracer_of(serving: Serving, settings: Settings, now: Callable[[], float], then: Sink) -> Tracer | None:
    """What traces requests, if the configuration wants that.

    Raises HeadwayError if spans shall be sent, and what sends them is not installed.
    """
    wanted = serving.tracing
    if wanted is None:
        return None
    try:
        from headway.serve.tracing import Tracer, exporting_to
    except ImportError as error:
        raise HeadwayError(
            f"{serving.where('tracing')}: {error.name} is not installed; accepted: without tracing, or after"
            " pip install 'headway[tracing]'"
        ) from None
    settings.change_trace({"trace_level": ["TIMESTAMPS"], "trace_rate": str(wanted.rate)})
    return Tracer(serving.name, exporting_to(wanted.endpoint), settings, now, then)
