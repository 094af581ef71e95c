"""Where candidates are evaluated: in this process, in Ray actors, or on evaluation servers, behind one interface."""
