"""The ledger: the application's use cases, and how events are kept."""
