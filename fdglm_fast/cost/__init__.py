"""What an iteration costs: operations (modelled, counted, executed), messages, and seconds on networks of any size."""
