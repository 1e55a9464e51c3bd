"""Makes the stored samples of the four models in a folder, on all cores: JPEGs, sound, text and its tokens.

- A JPEG is noise whose amplitude falls with the frequency to the power 1.2, nearly as in photographs (1.0 to 1.2), with
  one strong brightness and two weak colours. So its size and the time of decoding it are those of a photograph.
- Sound is noise whose amplitude falls with the square root of the frequency. Only its length matters for size and time.
- Text is a chain of words of this repository's pages: each follows a word that it follows somewhere in them.
"""

from __future__ import annotations

import functools
import gzip
import io
import os
import random
from collections import defaultdict
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import numpy.typing as npt

from experiments.gpu_models.recipes import RECIPES, TINY_SAMPLES

PAGES = Path(__file__).parents[2] / "docs"
SAMPLES_PER_S = 16_000
"""Of sound."""
TOKENS = "tokens.json"
"""The vocabulary of the text."""
_AMPLITUDE_POWER = 1.2
_BRIGHTNESS, _COLOUR = 50, 25
"""Standard deviations of a pixel, of 255."""
_LEAST_SECONDS, _MOST_SECONDS = 8, 24
_WORDS = 8000
"""Of a document, as an article has."""
VOCABULARY = 8192
_READ_FOR_VOCABULARY = 64
"""Documents."""


def make_data(folder: Path, models: list[str], *, tiny: bool) -> None:
    """Files `MODEL/NUMBER` for each model, and the vocabulary if there is text."""
    jobs = []
    for model in models:
        (folder / model).mkdir(parents=True, exist_ok=True)
        count = min(RECIPES[model].files, TINY_SAMPLES if tiny else RECIPES[model].files)
        jobs += [(model, number, folder / model / str(number)) for number in range(count)]
    with get_context("fork").Pool(len(os.sched_getaffinity(0))) as pool:
        pool.starmap(_make, jobs, chunksize=8)
    if "language" in models:
        _train_vocabulary(folder)


def _make(model: str, number: int, path: Path) -> None:
    path.write_bytes(_MAKERS[model](number))


def _jpeg(height: int, width: int, quality: int, number: int) -> bytes:
    from PIL import Image

    packed = io.BytesIO()
    picture = _picture(np.random.default_rng(number), height, width)
    Image.fromarray(picture).save(packed, "JPEG", quality=quality)
    return packed.getvalue()


def _picture(rng: np.random.Generator, height: int, width: int) -> npt.NDArray[np.uint8]:
    """Red, green and blue of one brightness and two colours."""
    rows, columns = np.fft.fftfreq(height, 1 / width)[:, None], np.fft.rfftfreq(width, 1 / width)
    amplitude = np.maximum(np.hypot(rows, columns), 1.0).astype(np.float32) ** -_AMPLITUDE_POWER
    waves = rng.standard_normal((2, 3, *amplitude.shape), dtype=np.float32)
    layers = np.fft.irfft2(amplitude * (waves[0] + 1j * waves[1]), s=(height, width))
    brightness, blue, red = layers / layers.std(axis=(1, 2), keepdims=True)
    grey = 128 + _BRIGHTNESS * brightness
    colours = (grey + _COLOUR * red, grey - _COLOUR * (red + blue) / 3, grey + _COLOUR * blue)
    pixels: npt.NDArray[np.uint8] = np.clip(np.stack(colours, axis=-1), 0, 255).astype(np.uint8)
    return pixels


def _sound(number: int) -> bytes:
    """Samples of 16 bits, as a WAV file has them behind its head."""
    rng = np.random.default_rng(number)
    count = SAMPLES_PER_S * int(rng.integers(_LEAST_SECONDS, _MOST_SECONDS + 1))
    waves = np.fft.rfft(rng.standard_normal(count)) / np.sqrt(np.arange(count // 2 + 1) + 1.0)
    sound = np.fft.irfft(waves, n=count)
    stored: bytes = (8000 * sound / np.abs(sound).max()).astype("<i2").tobytes()
    return stored


@functools.cache
def _followers() -> dict[str, list[str]]:
    """The words that follow each word of the pages."""
    words = " ".join(page.read_text(encoding="utf-8") for page in sorted(PAGES.rglob("*.md"))).split()
    followers = defaultdict(list)
    for word, following in zip(words, [*words[1:], words[0]], strict=True):
        followers[word].append(following)
    return followers


def _document(number: int) -> bytes:
    rng, followers = random.Random(number), _followers()
    text = [rng.choice(list(followers))]
    while len(text) < _WORDS:
        text.append(rng.choice(followers[text[-1]]))
    return gzip.compress(" ".join(text).encode())


def _train_vocabulary(folder: Path) -> None:
    """Pairs of bytes that are frequent in the documents (BPE), most frequent first."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokens = Tokenizer(models.BPE())
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokens.decoder = decoders.ByteLevel()
    documents = sorted((folder / "language").iterdir())[:_READ_FOR_VOCABULARY]
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, show_progress=False)
    texts = (gzip.decompress(path.read_bytes()).decode() for path in documents)
    tokens.train_from_iterator(texts, trainer)
    tokens.save(str(folder / TOKENS))


_MAKERS: dict[str, Callable[[int], bytes]] = {
    "image": functools.partial(_jpeg, 375, 500, 91),
    "language": _document,
    "diffusion": functools.partial(_jpeg, 960, 1280, 85),
    "speech": _sound,
}
