"""Our chain head as a model of vLLM's: EAGLE-3's place in the engine, our fusion of hidden states and embedding.

`vllm_eagle_layout` writes the folder that it is loaded from; `runners/torch_head_kinds.py` says what it computes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from vllm.compilation.decorators import support_torch_compile
from vllm.model_executor.layers.layernorm import RMSNorm
from vllm.model_executor.layers.linear import ReplicatedLinear
from vllm.model_executor.layers.logits_processor import LogitsProcessor
from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead, VocabParallelEmbedding
from vllm.model_executor.models.llama_eagle import LlamaDecoderLayer, LlamaModel
from vllm.model_executor.models.llama_eagle3 import Eagle3LlamaForCausalLM
from vllm.model_executor.models.utils import AutoWeightsLoader, maybe_prefix


@support_torch_compile(dynamic_arg_dims={"input_ids": 0, "positions": -1, "hidden_states": 0})
class HeadModel(nn.Module):
    """One entry a row: the next token's embedding and a feature, which is fused hidden states or an output before."""

    use_aux_hidden_state, norm_before_fc = True, False  # what the EAGLE-3 model asks of its inner one

    def __init__(self, *, vllm_config: Any, prefix: str = "", start_layer_id: int = 0) -> None:
        super().__init__()
        config = self.config = vllm_config.speculative_config.draft_model_config.hf_config
        size, eps = config.hidden_size, config.rms_norm_eps
        taps, dtype = config.num_aux_hidden_states, vllm_config.model_config.dtype
        self.embed_tokens = VocabParallelEmbedding(config.vocab_size, size, prefix=maybe_prefix(prefix, "embed_tokens"))
        self.tap_norms = nn.ModuleList(RMSNorm(size, eps=eps) for _ in range(taps))
        self.fc = _linear(taps * size, size, dtype, maybe_prefix(prefix, "fc"))
        self.embedding_norm, self.feature_norm = RMSNorm(size, eps=eps), RMSNorm(size, eps=eps)
        self.mix = _linear(2 * size, size, dtype, maybe_prefix(prefix, "mix"))
        layer = LlamaDecoderLayer(
            vllm_config, False, prefix=maybe_prefix(prefix, f"layers.{start_layer_id}"), config=config
        )
        self.layers = nn.ModuleList([layer])
        self.norm = RMSNorm(size, eps=eps)

    def features(self, taps: Tensor) -> Tensor:
        """(R, T x H) hidden states, layer after layer, to (R, H)."""
        chunks = taps.chunk(len(self.tap_norms), dim=-1)
        normed = [norm(chunk.contiguous()) for norm, chunk in zip(self.tap_norms, chunks, strict=True)]
        return self.fc(torch.cat(normed, dim=-1))  # type: ignore[no-any-return]

    def embed_input_ids(self, input_ids: Tensor) -> Tensor:
        return self.embed_tokens(input_ids)  # type: ignore[no-any-return]

    def forward(self, input_ids: Tensor, positions: Tensor, hidden_states: Tensor) -> tuple[Tensor, Tensor]:
        """(R, H) twice: normed, for logits, and as the next entry's feature."""
        embedding = self.embed_tokens(input_ids)
        both = torch.cat((self.embedding_norm(embedding), self.feature_norm(hidden_states)), dim=-1)
        hidden, residual = self.layers[0](positions, self.mix(both), None)
        normed, output = self.norm(hidden, residual)
        return normed, output

    def load_weights(self, weights: Iterable[tuple[str, Tensor]]) -> set[str]:
        loaded: set[str] = AutoWeightsLoader(self).load_weights(weights, mapper=LlamaModel.hf_to_vllm_mapper)
        return loaded


class Eagle3LightspecForCausalLM(Eagle3LlamaForCausalLM):  # type: ignore[misc]
    """Says its tokens over a draft vocabulary, mapped into the target's by offsets, as EAGLE-3 heads do."""

    def __init__(self, *, vllm_config: Any, prefix: str = "") -> None:
        nn.Module.__init__(self)
        config = self.config = vllm_config.speculative_config.draft_model_config.hf_config
        layers = vllm_config.model_config.get_total_num_hidden_layers()
        self.config.target_layer_count = layers
        self.model = HeadModel(vllm_config=vllm_config, prefix=maybe_prefix(prefix, "model"), start_layer_id=layers)
        vocabulary = config.draft_vocab_size
        self.lm_head = ParallelLMHead(vocabulary, config.hidden_size, prefix=maybe_prefix(prefix, "lm_head"))
        self.logits_processor = LogitsProcessor(vocabulary)
        self.draft_id_to_target_id = nn.Parameter(torch.zeros(vocabulary, dtype=torch.long), requires_grad=False)
        self.use_parallel_drafting = False

    def forward(
        self, input_ids: Tensor, positions: Tensor, hidden_states: Tensor, inputs_embeds: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        return self.model(input_ids, positions, hidden_states)  # type: ignore[no-any-return]

    def combine_hidden_states(self, hidden_states: Tensor) -> Tensor:
        return self.model.features(hidden_states)


def _linear(inputs: int, outputs: int, dtype: Any, prefix: str) -> Any:
    return ReplicatedLinear(
        inputs, outputs, bias=False, params_dtype=dtype, quant_config=None, prefix=prefix, return_bias=False
    )
