"""COCO's official annotations zip: finds the one captions file of the validation split inside.

Knows no caption rule: it hands out the JSON text.
"""

import re
import zipfile
from typing import BinaryIO

from mulo_ray.errors import UsageError

_CAPTIONS = re.compile(r"(^|/)captions_val[^/]*\.json$")


def captions_in_zip(stream: BinaryIO, name: str) -> tuple[bytes, str]:
    """The bytes and the name of the zip's captions_val*.json.

    Raises UsageError when the zip is broken, holds none, or holds several.
    """
    try:
        with zipfile.ZipFile(stream) as archive:
            members = [m for m in archive.namelist() if _CAPTIONS.search(m) and not m.startswith("__MACOSX")]
            if len(members) != 1:
                found = ", ".join(members or archive.namelist()[:10]) or "nothing"
                kind = "several captions_val*.json" if members else "no captions_val*.json"
                raise UsageError(f"{name} holds {kind} (found {found}); unpack it and name the one json you mean")
            return archive.read(members[0]), f"{name}/{members[0]}"
    except (zipfile.BadZipFile, OSError, NotImplementedError, RuntimeError) as error:
        raise UsageError(f"{name} is not a whole zip file: {error}; fetch it again") from error
