"""Linear layers in bfloat16 on a CPU, with their weights laid out once as oneDNN's kernels read them.

torch hands oneDNN a plain weight, which is laid out anew at every call: with the few rows of a decode step that costs
half as much again as the product. torch's compiler packs weights the same way, through the same two operators. In
float32 packed products are no faster.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class PackedLinear(nn.Module):
    """A linear layer that holds its weight packed, for inference; the plain one as well where others read it."""

    def __init__(self, linear: nn.Linear, keeps_weight: bool) -> None:
        super().__init__()
        weight = linear.weight.detach()
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight)
        empty = nn.Parameter(weight.new_empty(0), requires_grad=False)  # models ask for the dtype of a weight
        self.weight = linear.weight if keeps_weight else empty
        self.bias = linear.bias

    def forward(self, hidden: Tensor) -> Tensor:
        out: Tensor = torch.ops.mkldnn._linear_pointwise(hidden, self._packed, self.bias, "none", [], "")
        return out


def pack_linears(model: nn.Module, head: nn.Module) -> None:
    """Pack the linear layers of a model where that can be done; its output `head` keeps its plain weight, which may be
    the embedding's and which draft heads read."""
    for module in model.modules():
        for name, child in module.named_children():
            if type(child) is nn.Linear and can_pack(child.weight):
                setattr(module, name, PackedLinear(child, child is head))


def can_pack(weight: Tensor) -> bool:
    """Whether oneDNN has packed products for such a weight on this processor."""
    mkldnn: Any = torch.backends.mkldnn
    if weight.device.type != "cpu" or weight.dtype != torch.bfloat16 or not mkldnn.is_available():
        return False
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
