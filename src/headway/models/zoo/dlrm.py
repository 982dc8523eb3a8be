"""DLRM: recommendation from dense features and embeddings of categories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headway.models.zoo import layers as nn
from headway.models.zoo.registry import ZooOption, zoo_model
from headway.models.zoo.tensor import INT64, Tensor

if TYPE_CHECKING:
    from headway.models.zoo.builder import GraphBuilder

DENSE_FEATURES = 13
TABLES = 26
EMBEDDING_WIDTH = 128
BOTTOM = (512, 256, EMBEDDING_WIDTH)
TOP = (1024, 1024, 512, 256, 1)
# Products of two embeddings then have about the size of the dense features.
EMBEDDING_STD = EMBEDDING_WIDTH**-0.25


@zoo_model(
    "dlrm",
    family="dlrm",
    summary="DLRM click predictor with the layers of MLPerf's benchmark and small embedding tables",
    inputs="dense: N x 13 float32; sparse: N x 26 int64 (a row of each table)",
    source="Naumov et al., Deep Learning Recommendation Model, arXiv:1906.00091; layer sizes of MLPerf "
    "Inference (Criteo Terabyte), whose tables have up to 40 million rows",
    options=(ZooOption("table_rows", 1000, "rows of each of the 26 embedding tables"),),
)
def dlrm(b: GraphBuilder, batch: int, *, table_rows: int) -> None:
    """Products of all pairs of the 26 embeddings and the bottom layers' output go to the top layers."""
    dense = b.input("dense", (batch, DENSE_FEATURES))
    sparse = b.input("sparse", (batch, TABLES), INT64)
    bottom = dense
    for index, width in enumerate(BOTTOM):
        bottom = nn.relu(b, nn.gemm(b, bottom, width, name=f"bottom.{index}"))
    vectors = [nn.reshape(b, bottom, (batch, 1, EMBEDDING_WIDTH))]
    for index, rows in enumerate(nn.split(b, sparse, TABLES)):
        table = b.parameter(f"table.{index}", (table_rows, EMBEDDING_WIDTH), std=EMBEDDING_STD)
        vectors.append(nn.gather_rows(b, table, rows))
    x = nn.concat(b, [bottom, _pairs(b, nn.concat(b, vectors))])
    for index, width in enumerate(TOP[:-1]):
        x = nn.relu(b, nn.gemm(b, x, width, name=f"top.{index}"))
    b.output(nn.unary(b, "Sigmoid", nn.gemm(b, x, TOP[-1], name=f"top.{len(TOP) - 1}")), "click")


def _pairs(b: GraphBuilder, vectors: Tensor) -> Tensor:
    """Products of each vector with those before it."""
    batch, count, _ = vectors.shape
    products = nn.matmul(b, vectors, nn.transpose(b, vectors, (0, 2, 1)), name="interaction")
    rows, columns = np.tril_indices(count, k=-1)
    chosen = b.constant(rows * count + columns, np.int64)
    flat = nn.reshape(b, products, (batch, count * count))
    return b.node("Gather", [flat, chosen], (batch, len(rows)), axis=1)
