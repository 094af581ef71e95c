"""Code that runs in contained processes: the zygote that forks them, and each role."""
