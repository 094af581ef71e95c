"""Rewards: any formula over a turn's verdict, the turn, and the turns before it. One file per formula."""
