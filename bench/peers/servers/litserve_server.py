"""LitServe: a worker process per model with a session of two threads. Tensors are base64 in JSON."""

import base64

import litserve
from common import MODELS, PORT, output_of, session, tensors
from fastapi import Response


class OneModel(litserve.LitAPI):
    def __init__(self, name, **options):
        super().__init__(**options)
        self.name = name

    def setup(self, device):
        self.session = session(self.name, 2)

    def decode_request(self, request):
        return base64.b64decode(request["tensors"])

    def predict(self, body):
        return self.session.run([output_of(self.name)], tensors(self.name, body))[0].tobytes()

    def encode_response(self, output):
        return Response(content=output, media_type="application/octet-stream")


if __name__ == "__main__":
    apis = [OneModel(name, api_path=f"/{name}") for name in MODELS]
    server = litserve.LitServer(apis, accelerator="cpu", workers_per_device=1, timeout=60)
    server.run(host="127.0.0.1", port=PORT, generate_client_file=False, num_api_servers=1)
