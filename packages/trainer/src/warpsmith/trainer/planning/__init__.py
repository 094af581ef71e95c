"""Whether a run fits a machine, from its configuration and the model's shapes alone. No torch here."""
