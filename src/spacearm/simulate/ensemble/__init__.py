"""Many runs: the same phases from many starts, roll-outs in vector lanes and on a GPU."""

__all__: list[str] = []
