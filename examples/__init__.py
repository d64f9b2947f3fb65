"""Demonstrations that ship with turnledger: programs written against the public client, as a user would write them."""
