"""Recorded runs as people have them in files, and what their workers would have sent of them."""
