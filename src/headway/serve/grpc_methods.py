"""The methods of GRPCInferenceService besides inference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf import json_format

from headway.serve import descriptions
from headway.serve.http_routes import CONTROL_ELSEWHERE, NO_SHARED_MEMORY
from headway.serve.protocol import inference_pb2 as pb
from headway.serve.refusal import Cause, Refusal
from headway.serve.service import InferenceService
from headway.serve.settings import Settings
from headway.serve.tensors import invalid, shown
from headway.serve.uploads import FILE_PREFIX, files_of


def _message(value: Mapping[str, object], message: Any) -> Any:
    return json_format.ParseDict(value, message, ignore_unknown_fields=True)


class GrpcMethods:
    """The service's methods, named in snake case, of a message and the caller's key; all raise Refusal.

    With `control`, those that change the server are taken.
    """

    def __init__(self, service: InferenceService, settings: Settings, *, control: bool) -> None:
        self._service = service
        self._settings = settings
        self._control = control

    async def server_live(self, request: Any, key: str | None) -> Any:
        return pb.ServerLiveResponse(live=self._service.live())

    async def server_ready(self, request: Any, key: str | None) -> Any:
        return pb.ServerReadyResponse(ready=self._service.ready())

    async def model_ready(self, request: Any, key: str | None) -> Any:
        try:
            ready = self._service.model_ready(request.name, request.version)
        except Refusal as refusal:
            if refusal.cause is not Cause.NOT_FOUND:
                raise
            ready = False  # clients ask this way whether there is such a model
        return pb.ModelReadyResponse(ready=ready)

    async def server_metadata(self, request: Any, key: str | None) -> Any:
        return _message(descriptions.server_metadata(), pb.ServerMetadataResponse())

    async def model_metadata(self, request: Any, key: str | None) -> Any:
        model = self._service.describe(request.name, request.version)
        return _message(descriptions.model_metadata(model), pb.ModelMetadataResponse())

    async def model_config(self, request: Any, key: str | None) -> Any:
        model = self._service.describe(request.name, request.version)
        return _message({"config": descriptions.model_config(model)}, pb.ModelConfigResponse())

    async def model_statistics(self, request: Any, key: str | None) -> Any:
        models = self._service.statistics(request.name, request.version)
        return _message(descriptions.model_statistics(models), pb.ModelStatisticsResponse())

    async def repository_index(self, request: Any, key: str | None) -> Any:
        entries = self._service.index(only_ready=request.ready)
        return _message({"models": descriptions.repository_index(entries)}, pb.RepositoryIndexResponse())

    async def repository_model_load(self, request: Any, key: str | None) -> Any:
        self._need_control("loading a model")
        config = None
        contents: dict[str, object] = {}
        for name, value in request.parameters.items():
            choice = value.WhichOneof("parameter_choice")
            if name == "config" and choice == "string_param":
                config = value.string_param
            elif name.startswith(FILE_PREFIX) and choice == "bytes_param":
                contents[name] = value.bytes_param
            else:
                raise invalid(
                    f"parameters: {shown(name)}: config, a string, and file:VERSION/FILE, bytes, are accepted"
                )
        await self._service.load(request.model_name, key, config, files_of(contents))
        return pb.RepositoryModelLoadResponse()

    async def repository_model_unload(self, request: Any, key: str | None) -> Any:
        self._need_control("unloading a model")
        for name, value in request.parameters.items():
            if name != "unload_dependents" or value.WhichOneof("parameter_choice") != "bool_param":
                raise invalid(f"parameters: {shown(name)}: unload_dependents, true or false, is accepted")
        await self._service.unload(request.model_name, key)
        return pb.RepositoryModelUnloadResponse()

    async def system_shared_memory_status(self, request: Any, key: str | None) -> Any:
        _refuse_region(request.name)
        return pb.SystemSharedMemoryStatusResponse()

    async def cuda_shared_memory_status(self, request: Any, key: str | None) -> Any:
        _refuse_region(request.name)
        return pb.CudaSharedMemoryStatusResponse()

    async def system_shared_memory_register(self, request: Any, key: str | None) -> Any:
        raise invalid(NO_SHARED_MEMORY)

    async def cuda_shared_memory_register(self, request: Any, key: str | None) -> Any:
        raise invalid(NO_SHARED_MEMORY)

    async def system_shared_memory_unregister(self, request: Any, key: str | None) -> Any:
        return pb.SystemSharedMemoryUnregisterResponse()  # nothing is registered, as was asked for

    async def cuda_shared_memory_unregister(self, request: Any, key: str | None) -> Any:
        return pb.CudaSharedMemoryUnregisterResponse()

    async def trace_setting(self, request: Any, key: str | None) -> Any:
        if request.model_name:
            self._service.model_ready(request.model_name)  # raises for one that is unknown
        changes: dict[str, object] = {}
        for name, setting in request.settings.items():
            values = list(setting.value)
            if name == "trace_level":
                changes[name] = values or None
            elif len(values) > 1:
                raise invalid(f"trace: {shown(name)} has {len(values)} values, one is accepted")
            else:
                changes[name] = values[0] if values else None
        if changes:
            self._need_control("a change of trace settings")
            self._settings.change_trace(changes, request.model_name)
        response = pb.TraceSettingResponse()
        for name, value in self._settings.trace(request.model_name).items():
            response.settings[name].value.extend(value if isinstance(value, list) else [value])
        return response

    async def log_settings(self, request: Any, key: str | None) -> Any:
        changes: dict[str, object] = {}
        for name, setting in request.settings.items():
            choice = setting.WhichOneof("parameter_choice")
            changes[name] = getattr(setting, choice) if choice else None
        if changes:
            self._need_control("a change of log settings")
            self._settings.change_log(changes)
        response = pb.LogSettingsResponse()
        for name, value in self._settings.log().items():
            if isinstance(value, bool):
                response.settings[name].bool_param = value
            elif isinstance(value, int):
                response.settings[name].uint32_param = value
            else:
                response.settings[name].string_param = value
        return response

    def _need_control(self, what: str) -> None:
        if not self._control:
            raise Refusal(Cause.FORBIDDEN, f"{what} {CONTROL_ELSEWHERE}")


def _refuse_region(name: str) -> None:
    if name:
        raise Refusal(Cause.NOT_FOUND, f"no region {shown(name)} is registered: {NO_SHARED_MEMORY}")
