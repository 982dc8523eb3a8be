"""A runtime for MLServer: a session of one thread in each of its two worker processes."""

from common import output_of, session
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse


class OnnxModel(MLModel):
    async def load(self):
        self.session = session(self.name, 1)
        return True

    async def predict(self, payload):
        given = {entry.name: NumpyCodec.decode_input(entry) for entry in payload.inputs}
        output = output_of(self.name)
        (y,) = self.session.run([output], given)
        return InferenceResponse(
            model_name=self.name, model_version="1", outputs=[NumpyCodec.encode_output(output, y)]
        )
