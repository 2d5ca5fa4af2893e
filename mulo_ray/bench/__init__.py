"""Decoders measured in this process, without Ray: against each other, against the cost model, against the machine."""
