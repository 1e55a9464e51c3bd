"""Profiles of four current models on one GPU: image, language, diffusion and speech, each with its input pipeline."""
