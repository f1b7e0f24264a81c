"""Measured rows: which readings count, what stands for those that are missing, and how noisy they are."""
