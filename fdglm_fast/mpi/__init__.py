"""Agents on several ranks of MPI: who is where, what is sent, and the engine that overlaps it with the pass over X."""
