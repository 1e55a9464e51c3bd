"""Whole schedulers that count each job's workers and parameter servers: SMD and its field.

They are whole, and not parts of a composed one, because what they decide is one question to all jobs at once,
asked at intervals and answered with a bound.
"""
