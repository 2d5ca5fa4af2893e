"""Training of the embedded family: emoji pictures, tokenizer, scales. Needs the extra `train`; decoding does not."""
