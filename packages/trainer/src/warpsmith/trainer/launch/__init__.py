"""Starting and stopping the processes of a run. No torch here."""
