"""The protocol's messages: generated from the .proto files here by generate.sh."""
