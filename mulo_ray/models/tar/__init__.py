"""Tar: text to image at 256, 512 and 1024 px, by a language model whose words are pictures and a detokenizer."""
