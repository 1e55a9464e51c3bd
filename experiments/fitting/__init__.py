"""Fits of speed models to measured data; each module prints how far its fits are off."""
