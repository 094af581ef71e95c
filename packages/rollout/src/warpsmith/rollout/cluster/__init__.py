"""Ray: sessions, calls to actors with deadlines, and the logs of actors."""
