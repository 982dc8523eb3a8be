"""Our generated messages beside tritonclient's, in one process. Argument: the path of inference_pb2.py."""

import importlib.util
import sys

from tritonclient.grpc import model_config_pb2, service_pb2

spec = importlib.util.spec_from_file_location("ours", sys.argv[1])
ours = importlib.util.module_from_spec(spec)
spec.loader.exec_module(ours)


def fields_of(message):
    """Number, type and how often, by name, of a message and those within."""
    found = {
        f"{message.full_name}.{field.name}": (field.number, field.type, field.is_repeated)
        for field in message.fields
    }
    for inner in message.nested_types:
        found |= fields_of(inner)
    return found


theirs = {}
for module in (service_pb2, model_config_pb2):
    for message in module.DESCRIPTOR.message_types_by_name.values():
        theirs |= fields_of(message)
mine = {}
for message in ours.DESCRIPTOR.message_types_by_name.values():
    mine |= fields_of(message)
assert len(mine) > 100
assert {name: theirs.get(name) for name in mine} == mine


def methods_of(module):
    return {
        name: (method.input_type.full_name, method.output_type.full_name, method.client_streaming)
        for name, method in module.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods_by_name.items()
    }


assert methods_of(ours) == methods_of(service_pb2)
values = {value.name: value.number for value in ours.DESCRIPTOR.enum_types_by_name["DataType"].values}
assert values == {value.name: value.number for value in model_config_pb2.DataType.DESCRIPTOR.values}
print("done")
