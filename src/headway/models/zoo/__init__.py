"""The model zoo: standard networks generated on the spot, with seeded random weights.

``names()`` lists them, ``describe(name)`` says what one is and which options it takes, and ``build(name)``
makes the ONNX graph at any batch, image size or sequence length; ``save(model, path)`` writes it.
"""

from headway.models.zoo import (
    bert,
    convnext,
    densenet,
    dlrm,
    efficientnet,
    fbnet,
    fsrcnn,
    googlenet,
    gpt2,
    inception,
    kws,
    mobilebert,
    mobilenet,
    mobilenet_v3,
    recurrent,
    regnet,
    resnet,
    shufflenet,
    squeezenet,
    ssdlite,
    swin,
    unet,
    vgg,
    vit,
    yolo,
)
from headway.models.zoo.macs import count_macs
from headway.models.zoo.registry import ZooEntry, ZooOption, build, count_parameters, describe, names
from headway.models.zoo.storage import check_target, save

# Importing a family registers its models.
FAMILIES = (
    bert,
    convnext,
    densenet,
    dlrm,
    efficientnet,
    fbnet,
    fsrcnn,
    googlenet,
    gpt2,
    inception,
    kws,
    mobilebert,
    mobilenet,
    mobilenet_v3,
    recurrent,
    regnet,
    resnet,
    shufflenet,
    squeezenet,
    ssdlite,
    swin,
    unet,
    vgg,
    vit,
    yolo,
)

__all__ = [
    "ZooEntry",
    "ZooOption",
    "build",
    "check_target",
    "count_macs",
    "count_parameters",
    "describe",
    "names",
    "save",
]
