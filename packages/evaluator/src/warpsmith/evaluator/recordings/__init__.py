"""What host code allocated, moved and launched, as data that a player replays without the host code."""
