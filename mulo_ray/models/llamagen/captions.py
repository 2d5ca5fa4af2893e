"""Caption cleaning of the T5 text side that LlamaGen was trained with: no addresses, tags, names or odd signs.

The rules are those of the official samplers, in their order, and are applied twice as there. What they leave is what
the model sees, and what the ledger keeps as `prompt_used` (docs/reports.md C6). Knows no tokenizer.
"""

import html
import re
import sys
import unicodedata
from html.parser import HTMLParser
from urllib.parse import unquote_plus

from mulo_ray.errors import PromptError
from mulo_ray.models.extras import need

_FILE_TYPES = "png|jpg|jpeg|bmp|webp|eps|pdf|apk|mp4"
_SITE = r"[a-z0-9.\-]+\.(?:com|co|ru|net|org|edu|gov|it)[\w/-]*\b/?(?!@)"
_CJK = "\u31c0-\u31ef\u31f0-\u31ff\u3200-\u32ff\u3300-\u33ff\u3400-\u4dbf\u4dc0-\u4dff\u4e00-\u9fff"
_DASHES = "".join(chr(n) for n in range(sys.maxunicode + 1) if unicodedata.category(chr(n)) == "Pd")
_ODD_SIGNS = re.escape("#&@~()[]{}|\\/*") + "\u00ae\u2022\u00a9\u2122\u00b7\u00ba\u00bd\u00be\u00bf\u00a1\u00a7"

Rule = tuple[re.Pattern[str], str]


def _rules(*pairs: tuple[str, str]) -> tuple[Rule, ...]:
    return tuple((re.compile(pattern), replacement) for pattern, replacement in pairs)


_BEFORE_TAGS = _rules(
    ("<person>", "person"),
    (rf"\b(?:https?:(?:/{{1,3}}|[a-z0-9%])|{_SITE})", ""),  # the scheme goes, then a host with a known ending
    (rf"\b(?:www:(?:/{{1,3}}|[a-z0-9%])|{_SITE})", ""),
)
_AFTER_TAGS = _rules(
    (r"@\w+\b", ""),
    (f"[{_CJK}]+", ""),
    (f"[{re.escape(_DASHES)}]+", "-"),
    ("[`\u00b4\u00ab\u00bb\u201c\u201d\u00a8]", '"'),
    ("[\u2018\u2019]", "'"),
    ("&quot;?", ""),
    ("&amp", ""),
    (r"\d{1,3}(?:\.\d{1,3}){3}", " "),  # addresses of machines
    (r"\d:\d\d\s+$", ""),  # times at the end
    (r"\\n", " "),
    (r"#\d{1,3}\b", ""),
    (r"#\d{5,}\b", ""),
    (r"\b\d{6,}\b", ""),
    (rf"\S+\.(?:{_FILE_TYPES})", ""),
    ("[\"']{2,}", '"'),
    (r"\.{2,}", " "),
    (f"[{_ODD_SIGNS}]+", " "),
    (r"\s+\.\s+", " "),
)
_JOINTS = re.compile("[-_]")  # more than three of them: words written as a file name
_AFTER_REPAIR = _rules(
    (r"\b[a-zA-Z]{1,3}\d{3,15}\b", ""),  # article numbers in four manners
    (r"\b[a-zA-Z]+\d+[a-zA-Z]+\b", ""),
    (r"\b\d+[a-zA-Z]+\d+\b", ""),
    (r"(?:worldwide\s+)?(?:free\s+)?shipping", ""),
    (r"(?:free\s)?download(?:\sfree)?", ""),
    (r"\bclick\b\s(?:for|on)\s\w+", ""),
    (rf"\b(?:{_FILE_TYPES})(?:\simages?)?", ""),
    (r"\bpage\s+\d+\b", ""),
    (r"\b\d*[a-zA-Z]+\d+[a-zA-Z]+\d+[a-zA-Z\d]*\b", " "),
    ("\\b\\d+\\.?\\d*[x\u0445\u00d7]\\d+\\.?\\d*\\b", ""),  # sizes such as 20x30
    (r"\b\s+:\s+", ": "),
    (r"(\D[,./])\b", r"\1 "),
    (r"\s+", " "),
)
_EDGES = _rules(
    (r"^[\"']([\w\W]+)[\"']$", r"\1"),
    (r"^['_,\-:;]", ""),
    (r"['_,\-:+]$", ""),
    (r"^\.\S+$", ""),
)


def prompt_used(text: str) -> str:
    """The caption as the model will see it; PromptError when cleaning leaves nothing of it."""
    used = clean(clean(text[:100_000]))
    if not used:
        raise PromptError(
            f"cleaning leaves nothing of the caption {text[:40]!r}: addresses, tags, @names and signs are stripped as "
            "in this family's training; describe the picture in words"
        )
    return used


def clean(text: str) -> str:
    """One pass of the official cleaning."""
    text = _apply(_BEFORE_TAGS, unquote_plus(text).strip().lower())
    text = _apply(_AFTER_TAGS, _without_tags(text))
    if len(_JOINTS.findall(text)) > 3:
        text = _JOINTS.sub(" ", text)
    text = need("ftfy", "caption cleaning of LlamaGen").fix_text(text)
    text = _apply(_AFTER_REPAIR, html.unescape(html.unescape(text)).strip())
    return _apply(_EDGES, text.strip()).strip()


def _apply(rules: tuple[Rule, ...], text: str) -> str:
    for pattern, replacement in rules:
        text = pattern.sub(replacement, text)
    return text


class _Text(HTMLParser):
    """The text of a page without its tags and comments."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []

    def handle_data(self, data: str) -> None:
        self.parts.append(data)


def _without_tags(text: str) -> str:
    parser = _Text()
    parser.feed(text)
    parser.close()
    return "".join(parser.parts)
