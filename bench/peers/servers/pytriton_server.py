"""PyTriton: Triton's own front ends, and a Python function per model with a session of two threads."""

import numpy as np
from common import MODELS, PORT, output_of, session
from pytriton.model_config import ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig, TritonSecurityConfig


def function_of(name):
    own, output = session(name, 2), output_of(name)

    def infer(requests):
        return [{output: own.run([output], dict(request.data))[0]} for request in requests]

    return infer


if __name__ == "__main__":
    config = TritonConfig(
        http_address="127.0.0.1",
        http_port=PORT,
        grpc_address="127.0.0.1",
        grpc_port=PORT + 1,
        metrics_address="127.0.0.1",
        metrics_port=PORT + 2,
    )
    with Triton(config=config, security_config=TritonSecurityConfig(restricted_endpoints=[])) as triton:
        for name, told in MODELS.items():
            triton.bind(
                model_name=name,
                infer_func=function_of(name),
                inputs=[
                    Tensor(name=key, dtype=np.dtype(d).type, shape=shape) for key, d, shape in told["inputs"]
                ],
                outputs=[Tensor(name=told["output"], dtype=np.float32, shape=told["output_shape"])],
                config=ModelConfig(batching=False),
            )
        triton.serve()
