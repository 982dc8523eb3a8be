"""The kernels of a transformer, from its configuration."""

from __future__ import annotations

from collections import Counter

import pytest

from headway.core.errors import HeadwayError
from headway.predict.gpu.features import KernelClass
from headway.predict.gpu.transformer import transformer_blocks

SIZES = {"vocab_size": 1000}
BERT = SIZES | {
    "model_type": "bert",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 3,
    "intermediate_size": 256,
}
OPT = BERT | {"model_type": "opt", "ffn_dim": 256}
GPT2 = SIZES | {"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 3}


@pytest.mark.parametrize("config", [BERT, OPT, GPT2])
def test_every_layer_does_the_work_of_its_formula(config):
    batch, sequence, hidden = 2, 16, 64
    blocks = transformer_blocks(config, batch, sequence)
    assert len(blocks) == 4
    tokens = batch * sequence
    expected = 2 * tokens * 12 * hidden**2 + 2 * 2 * batch * sequence**2 * hidden
    for block in blocks[:-1]:
        products = [k for k in block if k.kernel_class in (KernelClass.LINEAR, KernelClass.BMM)]
        assert sum(kernel.flops for kernel in products) == expected
        found = Counter(kernel.kernel_class for kernel in block)
        assert (found[KernelClass.BMM], found[KernelClass.SOFTMAX], found[KernelClass.LAYER_NORM]) == (
            2,
            1,
            2,
        )
    assert max(kernel.flops for kernel in blocks[-1]) == 2 * tokens * hidden * 1000


def test_a_head_that_classifies_makes_no_logits_of_all_tokens():
    (*_, logits), (*_, classes) = (
        transformer_blocks(BERT, 2, 16, classifies=classifies) for classifies in (False, True)
    )
    assert sum(kernel.flops for kernel in classes) < 0.1 * sum(kernel.flops for kernel in logits)


def test_layers_can_be_given_and_other_families_are_refused():
    assert len(transformer_blocks(GPT2, 1, 8, 5)) == 6
    with pytest.raises(HeadwayError, match="'t5'; accepted: bert, gpt2, opt"):
        transformer_blocks(BERT | {"model_type": "t5"}, 1, 8)
