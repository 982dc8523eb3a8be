#!/usr/bin/env bash
# Writes *_pb2.py and *_pb2.pyi beside the .proto files, in an environment of their own: generated code runs
# with its own and later versions of protobuf, so the oldest version that is supported generates it.
# The descriptors go into a pool of their own: a client library that brings the same package, in the same
# process, would otherwise be refused as a duplicate.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
environment=$(mktemp -d)
trap 'rm -r "$environment"' EXIT
python3 -m venv "$environment"
"$environment/bin/pip" install --quiet "grpcio-tools==1.71.2" "protobuf>=5.29,<5.30"
"$environment/bin/python" -m grpc_tools.protoc --proto_path=. --python_out=. --pyi_out=. inference.proto health.proto
sed --in-place \
    -e 's/_descriptor_pool\.Default()/_descriptor_pool.DescriptorPool()/' \
    -e '/^# -\*- coding/d' \
    inference_pb2.py health_pb2.py
