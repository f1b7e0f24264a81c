"""One run in time: preparation of its phases, the loop over them, segments, ledger and certificate, its file."""

__all__: list[str] = []
