"""The settings of the trace and logging extensions: checked, kept, and given back."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from headway.serve.tensors import invalid, shown

TraceValue = str | list[str]
LogValue = bool | int | str

_TRACE_DEFAULTS: dict[str, TraceValue] = {
    "trace_level": ["OFF"],
    "trace_rate": "1000",
    "trace_count": "-1",
    "log_frequency": "0",
    "trace_file": "",
    "trace_mode": "opentelemetry",
}
_TRACE_LEVELS = ("OFF", "TIMESTAMPS", "TENSORS")
_FIXED_TRACE = ("trace_file", "trace_mode")
_LOG_FORMATS = ("default", "ISO8601")
_LOG_SWITCHES = ("log_info", "log_warning", "log_error")
_MOST = 2**32 - 1


class Settings:
    """Trace settings, for all models or for one, and log settings. Its methods may be called from any thread.

    Log settings set the level of the loggers under `headway.serve`. Trace settings are read by whoever traces
    with `trace`; storing them has no other effect.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._trace: dict[str, dict[str, TraceValue]] = {}
        self._log: dict[str, LogValue] = {
            "log_file": "",
            "log_info": True,
            "log_warning": True,
            "log_error": True,
            "log_verbose_level": 0,
            "log_format": "default",
        }

    def trace(self, model: str = "") -> dict[str, TraceValue]:
        """The settings for a model: its own, else those of all models, else the defaults."""
        with self._lock:
            return {**_TRACE_DEFAULTS, **self._trace.get("", {}), **self._trace.get(model, {})}

    def change_trace(self, changes: Mapping[str, object], model: str = "") -> dict[str, TraceValue]:
        """Set some, for one model or, without its name, for all; None takes a setting back.

        Raises Refusal, and changes nothing, for a name or a value that is not accepted.
        """
        checked = {name: _trace_value(name, value) for name, value in changes.items()}
        with self._lock:
            own = self._trace.setdefault(model, {})
            for name, value in checked.items():
                if value is None:
                    own.pop(name, None)
                else:
                    own[name] = value
        return self.trace(model)

    def log(self) -> dict[str, LogValue]:
        with self._lock:
            return dict(self._log)

    def change_log(self, changes: Mapping[str, object]) -> dict[str, LogValue]:
        """Set some; raises Refusal, and changes nothing, for a name or a value that is not accepted."""
        checked = {name: self._log_value(name, value) for name, value in changes.items()}
        with self._lock:
            self._log.update(checked)
            logging.getLogger("headway.serve").setLevel(_level(self._log))
            return dict(self._log)

    def _log_value(self, name: str, value: object) -> LogValue:
        if name not in self._log:
            raise invalid(f"logging: {shown(name)} is not one of {', '.join(self._log)}")
        if name == "log_file":
            if value != "":
                raise invalid("logging: log_file can only be chosen where the server is started")
        elif name in _LOG_SWITCHES:
            if type(value) is not bool:
                raise invalid(f"logging: {name} is {shown(value)}, true or false is accepted")
        elif name == "log_verbose_level":
            if type(value) is not int or not 0 <= value <= _MOST:
                raise invalid(f"logging: {name} is {shown(value)}, an integer from 0 is accepted")
        elif value not in _LOG_FORMATS:
            raise invalid(f"logging: {name} is {shown(value)}, one of {', '.join(_LOG_FORMATS)} is accepted")
        return value


def _level(log: Mapping[str, LogValue]) -> int:
    if log["log_verbose_level"]:
        return logging.DEBUG
    if log["log_info"]:
        return logging.INFO
    if log["log_warning"]:
        return logging.WARNING
    return logging.ERROR if log["log_error"] else logging.CRITICAL


def _trace_value(name: str, value: object) -> TraceValue | None:
    if name not in _TRACE_DEFAULTS:
        raise invalid(f"trace: {shown(name)} is not one of {', '.join(_TRACE_DEFAULTS)}")
    if name in _FIXED_TRACE and value != _TRACE_DEFAULTS[name] and value is not None:
        raise invalid(f"trace: {name} can only be chosen where the server is started")
    if value is None or name in _FIXED_TRACE:
        return None
    if name == "trace_level":
        levels = [value] if type(value) is str else value
        if type(levels) is not list or not levels or not all(level in _TRACE_LEVELS for level in levels):
            raise invalid(
                f"trace: trace_level is {shown(value)}, a list of {', '.join(_TRACE_LEVELS)} is accepted"
            )
        return list(levels)
    lowest = -1 if name == "trace_count" else 0
    try:
        number = int(value) if type(value) in (str, int) and len(str(value)) <= 12 else None  # type: ignore[call-overload]
    except ValueError:
        number = None
    if number is None or not lowest <= number <= _MOST:
        raise invalid(f"trace: {name} is {shown(value)}, an integer from {lowest} is accepted")
    return str(number)
