"""The embedded family: a tokenizer and three scales trained on free emoji art, weights inside the package."""
