"""Where candidates are judged: in this process, in Ray actors, or on evaluation servers, behind one interface."""
