"""Prompts in: captions files of several formats become `Prompt` records with lasting keys.

Knows no Ray, no torch, no model and no output.
"""

from mulo_ray.prompts.coco_download import coco_val2017
from mulo_ray.prompts.embedded import embedded_captions
from mulo_ray.prompts.read import SUFFIXES, read_prompts
from mulo_ray.prompts.rows import CaptionRule

__all__ = ["SUFFIXES", "CaptionRule", "coco_val2017", "embedded_captions", "read_prompts"]
