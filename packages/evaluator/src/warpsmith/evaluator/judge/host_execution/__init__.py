"""How host code is executed so that what it does is recorded: detached, or on the device."""
