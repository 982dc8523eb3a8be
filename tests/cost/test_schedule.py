"""Fused chains tile by tile, against Stream and AccelForge, and against their closed form."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.cost import OUTSIDE, ChainLayer, closed_form_cycles, fused_chain, serial_chain, split_dram_bits

# Stream (commit ae6a7788, 2025-06-24) on its quad core TPU-like system, four 3x3 convolutions of 64 channels
# at 56 x 56, 8 bits, output rows cut into 14 tiles of 8,101 cycles. DRAM 64 bits per cycle, links 32, a ring.
CHAIN = [ChainLayer(channels_in=64, channels_out=64, height=56, width=56, kernel=3, pad=1)] * 4
SYSTEM = {
    "dram_bits_per_cycle": 64,
    "link_bits_per_cycle": 32,
    "connections": [(0, 1), (1, 2), (2, 3), (3, 0)],
}
BANDWIDTHS = {"dram_bits_per_cycle": 64, "link_bits_per_cycle": 32}


def test_stream_single_core_fused():
    run = fused_chain(CHAIN, 8101, tiles=14, cores=[0] * 4, **SYSTEM, convention="stream")
    assert (run.latency_cycles, run.dram_bits, run.link_bits) == (461_048, 3_674_112, 0)
    assert closed_form_cycles(CHAIN, 8101, 14, [0] * 4, **BANDWIDTHS, convention="stream") == 461_048


def test_stream_pipeline_over_four_cores():
    run = fused_chain(CHAIN, 8101, tiles=14, cores=[0, 1, 2, 3], **SYSTEM, convention="stream")
    assert (run.latency_cycles, run.dram_bits, run.link_bits) == (180_164, 3_674_112, 4_816_896)
    assert closed_form_cycles(CHAIN, 8101, 14, [0, 1, 2, 3], **BANDWIDTHS, convention="stream") == 180_164


def test_stream_layer_by_layer():
    run = serial_chain(CHAIN, layer_cycles=113_401)
    assert (run.latency_cycles, run.dram_bits) == (453_604, 14_024_704)


def test_stream_traffic_of_layers_split_over_four_cores():
    layer = CHAIN[0]
    bits = (layer.input_bits, layer.weight_bits, layer.output_bits)
    assert 4 * split_dram_bits(*bits, cores=4, convention="stream") == 33_292_288
    assert 4 * split_dram_bits(*bits, cores=4) == 14_024_704  # the input read once and multicast
    with pytest.raises(ValueError, match="multicast"):
        split_dram_bits(*bits, cores=4, convention="broadcast")


def test_stream_fetches_padded_tiles_of_strided_and_pointwise_inputs():
    # n padded input tiles and the weights (cost-model.md section 2b): a 7x7 stride 2 stem in tiles of 4 rows
    # takes 13 x 229 inputs per tile; a 1x1 stride 2 layer touches every other row and column.
    stem = ChainLayer(3, 64, 224, 224, kernel=7, stride=2, pad=3)
    run = fused_chain([stem], 100, 28, [0], 64, 32, convention="stream")
    assert run.read_bits == {"T0": 28 * 13 * 229 * 3 * 8, "W0": 7 * 7 * 3 * 64 * 8}
    shortcut = ChainLayer(64, 128, 56, 56, kernel=1, stride=2)
    run = fused_chain([shortcut], 100, 7, [0], 64, 32, convention="stream")
    assert run.read_bits["T0"] == 28 * 28 * 64 * 8


def test_own_convention_counts_every_row_once_and_the_final_write():
    run = fused_chain(CHAIN, 8101, tiles=14, cores=[0] * 4, **SYSTEM)
    map_bits = 56 * 56 * 64 * 8
    assert run.read_bits == {"T0": map_bits, **{f"W{i}": CHAIN[i].weight_bits for i in range(4)}}
    assert run.write_bits == {"T4": map_bits}
    assert run.latency_cycles == 461_048 - (2_784 - 5 * 56 * 64 * 8 // 64) + 4 * 56 * 64 * 8 // 64


def test_accelforge_fused_matmuls():
    # AccelForge 1.0.467, two matmuls M = K = N = 64, 8 bits: DRAM actions per tensor in bits.
    matmuls = [ChainLayer(channels_in=64, channels_out=64, height=64)] * 2
    unfused = serial_chain(matmuls, 262_144)
    fused = fused_chain(matmuls, 1, tiles=64, cores=[0, 0], dram_bits_per_cycle=64, link_bits_per_cycle=32)
    size = 32_768
    assert unfused.read_bits == {"T0": size, "W0": size, "T1": size, "W1": size}
    assert unfused.write_bits == {"T1": size, "T2": size}
    assert unfused.latency_cycles == 524_288
    assert fused.read_bits == {"T0": size, "W0": size, "W1": size}
    assert fused.write_bits == {"T2": size}
    assert unfused.dram_bits - fused.dram_bits == 2 * size


def test_tiles_of_two_layers_by_hand():
    # Two 3x3 layers of one channel on 4 x 4 maps, 8 bits, 2 tiles of 10 cycles, two cores. Layer 0's first
    # tile needs 72 bits of weights and 3 rows (96 bits) at 8 bits per cycle: it starts at 9 + 12 = 21. Layer
    # 1's first tile needs both tiles of layer 0, ends 31 and 41, each 64 bits over a link of 16 bits per
    # cycle: it starts at 45. Its second starts at 55, and its last tile's 64 bits are written by 65 + 8.
    layers = [ChainLayer(1, 1, 4, 4, kernel=3, pad=1)] * 2
    run = fused_chain(layers, 10, 2, [0, 1], dram_bits_per_cycle=8, link_bits_per_cycle=16)
    starts = {(tile.layer, tile.tile): tile.start for tile in run.tiles}
    assert starts == {(0, 0): 21, (0, 1): 31, (1, 0): 45, (1, 1): 55}
    assert run.latency_cycles == 73
    assert run.link_bits == 128


def test_a_transfer_occupies_its_whole_way():
    # Core 0 sends to core 2 through core 1: with a direct link nothing is slower.
    layers = [ChainLayer(8, 8, 16, 16, kernel=1)] * 3
    cores = [0, 2, 1]
    way = fused_chain(layers, 5, 8, cores, 64, 8, connections=[(0, 1), (1, 2)])
    direct = fused_chain(layers, 5, 8, cores, 64, 8)
    assert way.link_bits == direct.link_bits == 2 * 8 * 16 * 16 * 8
    assert way.latency_cycles >= direct.latency_cycles
    with pytest.raises(ValueError, match="no connection"):
        fused_chain(layers, 5, 8, cores, 64, 8, connections=[(0, 1)])


def test_a_residual_is_forwarded_not_fetched():
    layers = [
        ChainLayer(8, 8, 16, 16, kernel=3, pad=1),
        ChainLayer(8, 8, 16, 16, kernel=3, pad=1),
        ChainLayer(8, 8, 16, 16, inputs=(1, 0), weights=False),
    ]
    run = fused_chain(layers, 100, 4, [0, 1, 2], 64, 32)
    map_bits = 8 * 16 * 16 * 8
    assert run.link_bits == 3 * map_bits  # 0 to 1, 1 to 2, and 0 to 2
    assert run.read_bits == {"T0": map_bits, "W0": 4_608, "W1": 4_608}
    from_input = [*layers[:2], ChainLayer(8, 8, 16, 16, inputs=(1, OUTSIDE), weights=False)]
    assert fused_chain(from_input, 100, 4, [0, 1, 2], 64, 32).read_bits["T0"] == 2 * map_bits


def attention_head(tokens: int, size: int, order: str = "qkv") -> list[ChainLayer]:
    """Queries, keys, values in that order of their projections, scores, softmax, context; 8 bits."""
    place = {name: index for index, name in enumerate(order)}
    project = [ChainLayer(size, size, tokens, inputs=(OUTSIDE,)) for _ in order]
    return [
        *project,
        ChainLayer(size, tokens, tokens, inputs=(place["q"], place["k"]), weights=False, whole=(1,)),
        ChainLayer(tokens, tokens, tokens, weights=False),
        ChainLayer(tokens, size, tokens, inputs=(4, place["v"]), weights=False, whole=(1,)),
    ]


def feature_elements(layers, stacks, tokens):
    run = fused_chain(layers, 10, tokens, [0] * len(layers), 64, 32, stacks=stacks)
    assert run.peak_feature_bits % 8 == 0
    return run.peak_feature_bits // 8


@pytest.mark.parametrize(("tokens", "size"), [(96, 24), (128, 32), (60, 59)])
def test_fused_attention_needs_less_feature_memory_where_tokens_outnumber_the_head(tokens, size):
    # Colleman et al., ISQED 2024 (arXiv 2406.09804): 3N / (2N + M) where M > N. Layer by layer keys and
    # values wait while the scores grow (2MN + MM); fused each row of queries makes way for one of the result.
    M, N = tokens, size
    head = attention_head(M, N)
    one_by_one = feature_elements(head, [0, 1, 2, 3, 4, 5], M)
    fused = feature_elements(head, [0, 0, 0, 1, 1, 1], M)
    assert one_by_one == 2 * M * N + M * M + N  # and the last row of queries
    assert fused == 3 * M * N - N + 2 * M  # a row of scores and one of probabilities for one of queries
    assert fused / one_by_one == pytest.approx(3 * N / (2 * N + M), rel=0.04)


@pytest.mark.parametrize(("tokens", "size"), [(24, 96), (32, 128), (59, 60)])
def test_fused_queries_and_scores_need_less_feature_memory_for_few_tokens(tokens, size):
    # The same, (2N + M) / 3N where M < N: queries are made row by row for their scores and never lie there.
    M, N = tokens, size
    one_by_one = feature_elements(attention_head(M, N), [0, 1, 2, 3, 4, 5], M)
    fused = feature_elements(attention_head(M, N, "kvq"), [0, 1, 2, 2, 3, 4], M)
    assert one_by_one == 3 * M * N + M  # and the first row of scores
    assert fused == 2 * M * N + M * M + N
    assert fused / one_by_one == pytest.approx((2 * N + M) / (3 * N), rel=0.04)


def test_layer_by_layer_in_tiles_takes_as_long_and_moves_as_much_within_the_core():
    layers = [*CHAIN[:3], ChainLayer(64, 1, 56, 56, kernel=3, pad=1)]  # a small result, which stays
    one = fused_chain(layers, 8101, 14, [0] * 4, **SYSTEM)
    each = fused_chain(layers, 8101, 14, [0] * 4, **SYSTEM, stacks=[0, 1, 2, 3])
    assert each.dram_bits == one.dram_bits
    assert sum(tile.end - tile.start for tile in each.tiles) == sum(t.end - t.start for t in one.tiles)
    assert each.peak_feature_bits > 1.9 * one.peak_feature_bits
    assert [tile.layer for tile in each.tiles] == sorted(tile.layer for tile in each.tiles)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stacks": [0, 1, 0, 2]}, "ascending"),
        ({"stacks": [0]}, "one number per layer"),
        (
            {"layers": [*CHAIN[:3], ChainLayer(64, 64, 56, inputs=(2, OUTSIDE), whole=(1,))]},
            "reads input 1 whole",
        ),
        ({"cores": [0]}, "as many cores"),
        ({"tiles": [1, 2]}, "tiles is one number"),
        ({"tile_cycles": 0}, "at least 1"),
        ({"dram_bits_per_cycle": 0}, "above 0"),
        ({"convention": "zigzag"}, "stream"),
        ({"layers": []}, "at least one layer"),
        ({"layers": [ChainLayer(1, 1, 4, inputs=(3,))] * 4}, "can be read"),
    ],
)
def test_mistakes_are_named(change, message):
    arguments = {
        "layers": CHAIN,
        "tile_cycles": 10,
        "tiles": 2,
        "cores": [0] * 4,
        "dram_bits_per_cycle": 64,
        "link_bits_per_cycle": 32,
    }
    with pytest.raises(ValueError, match=message):
        fused_chain(**(arguments | change))


@st.composite
def chains(draw):
    """Chains whose maps divide evenly into tiles; odd kernels padded to keep the size, strides 1 and 2."""
    tiles = draw(st.sampled_from([8, 14, 16]))
    count = draw(st.integers(1, 4))
    strides = [draw(st.sampled_from([1, 1, 2])) for _ in range(count)]
    height = tiles * draw(st.integers(1, 4))
    for stride in strides:
        height *= stride
    layers = []
    channels = draw(st.integers(1, 16))
    for stride in strides:
        kernel = draw(st.sampled_from([1, 3, 5]))
        after = draw(st.integers(1, 16))
        layers.append(ChainLayer(channels, after, height, height, kernel, stride, kernel // 2))
        channels, height = after, height // stride
    cycles = [draw(st.integers(200, 2000)) for _ in range(count)]
    return layers, cycles, tiles


@settings(deadline=None, max_examples=60)
@given(chains(), st.sampled_from(["own", "stream"]), st.integers(1, 4096))
def test_closed_form_is_exact_while_memory_is_not_the_limit(chain, convention, link):
    layers, cycles, tiles = chain
    plenty = 10**6
    for cores in ([0] * len(layers), list(range(len(layers)))):
        exact = fused_chain(layers, cycles, tiles, cores, plenty, plenty * link, convention=convention)
        closed = closed_form_cycles(
            layers, cycles, tiles, cores, plenty, plenty * link, convention=convention
        )
        assert closed == exact.latency_cycles


@settings(deadline=None, max_examples=60)
@given(chains(), st.sampled_from(["own", "stream"]), st.integers(8, 512), st.integers(8, 512))
def test_closed_form_is_close_with_any_bandwidth(chain, convention, dram, link):
    layers, cycles, tiles = chain
    cores = list(range(len(layers)))
    run = fused_chain(layers, cycles, tiles, cores, dram, link, convention=convention)
    closed = closed_form_cycles(layers, cycles, tiles, cores, dram, link, convention=convention)
    assert closed <= 1.05 * run.latency_cycles
    maps = run.read_bits["T0"] + sum(run.write_bits.values())
    # A bus that is nearly full leaves gaps in which nothing fits, and Stream asks late for slow links.
    half_idle = 2 * maps <= tiles * max(cycles) * dram and link >= dram
    if half_idle and all(2 * layer.weight_bits <= min(cycles) * dram for layer in layers):
        assert closed >= 0.95 * run.latency_cycles


@settings(deadline=None, max_examples=40)
@given(chains(), st.integers(8, 512), st.integers(8, 512), st.sampled_from(["own", "stream"]))
def test_schedules_are_possible(chain, dram, link, convention):
    layers, cycles, tiles = chain
    cores = [index % 2 for index in range(len(layers))]
    run = fused_chain(layers, cycles, tiles, cores, dram, link, convention=convention)
    assert len(run.tiles) == tiles * len(layers)
    assert run.latency_cycles * dram >= run.dram_bits
    by_core = {}
    for tile in sorted(run.tiles, key=lambda tile: tile.start):
        assert tile.start >= by_core.get(tile.core, 0)
        assert tile.end - tile.start == cycles[tile.layer]
        by_core[tile.core] = tile.end
    assert sum(bits for name, bits in run.read_bits.items() if name[0] == "W") == sum(
        layer.weight_bits for layer in layers
    )
    if convention == "own":
        assert run.read_bits["T0"] == layers[0].input_bits
        assert run.write_bits == {f"T{len(layers)}": layers[-1].output_bits}
