"""Projections of a run's ledger: turns, the window rules, strategies, windows and their replay.

A strategy chooses only when to act and how much; every window goes through the one engine in
:mod:`turnledger.projections.visit`, which no strategy can bypass. Nothing here does I/O.
"""
