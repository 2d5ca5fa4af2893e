"""LlamaGen: class-conditional at 256 and 384 px, text-conditional at 256 and 512 px."""
