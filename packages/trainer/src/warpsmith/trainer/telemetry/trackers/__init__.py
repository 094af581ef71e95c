"""Trackers: show a run's steps elsewhere, behind one interface. The `steps` table has everything, whatever fails."""
