"""Whisper small on sound that is changed at random, as speech recognition is trained."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.signal import resample_poly
from transformers import WhisperConfig, WhisperForConditionalGeneration
from transformers.audio_utils import mel_filter_bank

from experiments.gpu_models.data import SAMPLES_PER_S

SECONDS, LABELS = 30, 64
_WINDOW, _HOP, _MELS = 400, 160, 80
_SPEEDS = ((10, 9), (1, 1), (10, 11))
"""As fractions, longer by how much: a speed of 0.9, 1 and 1.1."""
_MASKED_MELS, _MASKED_FRAMES = 27, 100
"""At most, of each of two masks (SpecAugment, Park et al. 2019)."""


class Prepare:
    """Changes speed, loudness and noise, and takes the logarithm of the mel spectrum of 30 seconds."""

    def __init__(self, folder: Path) -> None:
        mels = mel_filter_bank(
            num_frequency_bins=_WINDOW // 2 + 1,
            num_mel_filters=_MELS,
            min_frequency=0.0,
            max_frequency=SAMPLES_PER_S / 2,
            sampling_rate=SAMPLES_PER_S,
            norm="slaney",
            mel_scale="slaney",
        )
        self._mels = torch.from_numpy(mels.T).float()
        self._window = torch.hann_window(_WINDOW)

    def __call__(self, stored: bytes) -> tuple[torch.Tensor, torch.Tensor]:
        """The spectrum and its text."""
        sound = np.frombuffer(stored, dtype="<i2").astype(np.float32) / 2**15
        longer, shorter = random.choice(_SPEEDS)
        if longer != shorter:
            sound = resample_poly(sound, longer, shorter)
        noise = 10 ** random.uniform(-4, -2) * np.random.standard_normal(len(sound)).astype(np.float32)
        changed = torch.from_numpy(10 ** random.uniform(-0.5, 0.5) * sound + noise).float()
        whole = torch.zeros(SECONDS * SAMPLES_PER_S)
        whole[: len(changed)] = changed[: len(whole)]
        waves = torch.stft(whole, _WINDOW, _HOP, window=self._window, return_complex=True)
        levels = (self._mels @ waves[:, :-1].abs() ** 2).clamp(min=1e-10).log10()
        spectrum = (torch.maximum(levels, levels.max() - 8) + 4) / 4
        for _ in range(2):
            _mask(spectrum, _MASKED_MELS)
            _mask(spectrum.T, _MASKED_FRAMES)
        return spectrum, torch.randint(50_000, (LABELS,))


def _mask(rows: torch.Tensor, most: int) -> None:
    """Sets up to so many rows in succession to 0."""
    count = random.randint(0, most)
    begin = random.randint(0, len(rows) - count)
    rows[begin : begin + count] = 0


def network(*, tiny: bool) -> Any:
    """With random weights."""
    width, layers, heads = (64, 2, 2) if tiny else (768, 12, 12)
    config = WhisperConfig(
        d_model=width,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=4 * width,
        decoder_ffn_dim=4 * width,
    )
    return WhisperForConditionalGeneration(config)


def loss(net: Any, batch: Any) -> Any:
    """Of predicting the text."""
    spectra, text = batch
    return net(input_features=spectra, labels=text, use_cache=False).loss
