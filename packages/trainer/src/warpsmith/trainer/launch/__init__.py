"""Starting and stopping the processes of a run. Imports no torch."""
