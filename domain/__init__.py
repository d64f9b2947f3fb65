"""The domain of turnledger: facts, messages and their formats, policies, digests and errors.

Pure: no I/O, no SQL, no protobuf, and no import of the event-sourcing library, so that workers can use
policies and digests without the server's packages.
"""
