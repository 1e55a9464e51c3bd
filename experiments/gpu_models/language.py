"""GPT-2 on text that is split into tokens as it is read, differently each time (BPE dropout, Provilkov et al. 2020)."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import GPT2Config, GPT2LMHeadModel

from experiments.gpu_models.data import TOKENS, VOCABULARY

LENGTH = 1024
_DROPOUT = 0.1


class Prepare:
    """Unpacks a document, splits it into tokens and takes a random part."""

    def __init__(self, folder: Path) -> None:
        self._tokens = Tokenizer.from_file(str(folder / TOKENS))
        self._tokens.model.dropout = _DROPOUT

    def __call__(self, stored: bytes) -> tuple[torch.Tensor]:
        """The numbers of its tokens."""
        numbers = self._tokens.encode(gzip.decompress(stored).decode()).ids
        begin = random.randint(0, len(numbers) - LENGTH)
        return (torch.tensor(numbers[begin : begin + LENGTH]),)


def network(*, tiny: bool) -> Any:
    """With random weights and the published vocabulary's size."""
    config = (
        GPT2Config(vocab_size=VOCABULARY, n_layer=1, n_embd=32, n_head=2, bos_token_id=0, eos_token_id=0)
        if tiny
        else GPT2Config()
    )
    return GPT2LMHeadModel(config)


def loss(net: Any, batch: Any) -> Any:
    """Of predicting the next token."""
    (tokens,) = batch
    return net(input_ids=tokens, labels=tokens, use_cache=False).loss
