"""How time is measured: clocks, rounds in the workers, and the floor of what is believed."""
