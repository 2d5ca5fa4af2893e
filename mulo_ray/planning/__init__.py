"""What a run would do on devices that it has not got yet: a discrete-event model and a search over group shapes."""
