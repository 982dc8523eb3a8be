"""XRBench's tables, as they are shipped."""

from __future__ import annotations

import pytest

from headway.core.errors import HeadwayError
from headway.models import load_model
from headway.models.importers.shipped import shipped_names

# Layers, MACs with outputs of (Y - R) / stride + 1 rows, and weights of XRBench's own files, computed apart
# from this importer (github.com/XRBench/XRBench-MLSys2023, XRbench_evaluation/usage_scenarios/*.m).
FACTS = {
    "KD_res8_narrow": (8, 5345688, 19893),
    "ASR_EM_24L": (120, 9663676416, 75497472),
    "SS_HRViT_b1": (423, 20095232384, 111571136),
    "DE_midas_v21_small": (92, 18493636608, 367462944),
    "PD_Plane_RCNN_Quarter": (153, 7523982272, 59538608),
    "OD_D2go_FasterRCNN": (138, 9707348224, 92325896),
    "HT_hand_graph_cnn_half": (224, 3726245184, 19299072),
    "ES_RITNet": (42, 1040138240, 231424),
    "GE_FBNet_C": (63, 2249744704, 159393456),
    "DR_RGBd_200": (34, 16837208128, 13673104),
    "AS_ED_TCN": (4, 354457600, 742400),
}


def test_there_are_those_of_the_scenarios() -> None:
    assert shipped_names() == tuple(f"xrbench/{network}" for network in FACTS)


@pytest.mark.parametrize("network", FACTS)
def test_they_have_the_sizes_of_the_source(network: str) -> None:
    graph = load_model(f"xrbench/{network}")
    assert (len(graph.layers), graph.macs, graph.params) == FACTS[network]
    assert graph.name == network


def test_mistakes() -> None:
    with pytest.raises(HeadwayError, match=r"no shipped table named 'xrbench/ES_RITNe' \(did you mean"):
        load_model("xrbench/ES_RITNe")
    with pytest.raises(HeadwayError, match="found sizes of batch; a layer table has none to give"):
        load_model("xrbench/ES_RITNet", dims={"batch": 2})
