"""One run in time: its phases prepared and gone through, its segments, ledger and certificate, its file."""

__all__: list[str] = []
