"""Pixels to PNG bytes: the same pixels and prompt give the same bytes. Knows no model."""

import io
import json

from PIL import Image, PngImagePlugin
from torch import Tensor

FORMAT = "png-1"
"""Part of the pixel hash: changes when the bytes of equal pixels would change."""

_XMP = (
    '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
    '<rdf:Description xmlns:Iptc4xmpExt="http://iptc.org/std/Iptc4xmpExt/2008-02-29/" '
    'Iptc4xmpExt:DigitalSourceType="http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia"/>'
    "</rdf:RDF></x:xmpmeta>"
)
"""The IPTC mark of generated media, as readers of image metadata expect it."""


def encode_png(pixels_HWC: Tensor, prompt: str) -> bytes:
    """uint8 (H, W, 3) -> PNG with the prompt (JSON text, ASCII) and the mark of generated media."""
    info = PngImagePlugin.PngInfo()
    info.add_text("prompt", json.dumps(prompt))
    info.add_itxt("XML:com.adobe.xmp", _XMP)
    buffer = io.BytesIO()
    Image.fromarray(pixels_HWC.numpy()).save(buffer, "PNG", pnginfo=info)
    return buffer.getvalue()
