"""Benchmarks: ratios against a floor that is measured in the same run. ``python -m benchmarks NAME``."""
