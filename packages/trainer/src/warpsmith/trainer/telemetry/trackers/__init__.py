"""Trackers: what shows a run's steps outside of it, behind one interface. The `steps` table has all, whatever fails."""
