#!/usr/bin/env python3
"""The colours of the status page can be told apart, in light and in dark (WCAG 2.2, AA): text from
its background by 4.5 to 1, and the marks of a control or a state by 3 to 1."""

import pathlib
import re

CSS = pathlib.Path(__file__).resolve().parents[2] / "api/page/page.css"
TEXT, SHAPE = 4.5, 3.0
GROUNDS = ("page", "card", "hover")
PAIRS = [
    *((colour, ground, TEXT) for colour in ("text", "aside", "link") for ground in GROUNDS),
    *((tone, f"{tone}-page", TEXT) for tone in ("good", "fair", "bad")),
    *((f"{tone}-mark", ground, SHAPE) for tone in ("good", "fair", "bad") for ground in GROUNDS),
    *(("edge", ground, SHAPE) for ground in GROUNDS),
    *(("focus", ground, SHAPE) for ground in GROUNDS),
    ("bar", "line", SHAPE),
    ("bad-mark", "line", SHAPE),
]
COLOUR = re.compile(r"--([\w-]+): #([0-9a-f]{6});")


def luminance(colour):
    def linear(part):
        part /= 255
        return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(int(colour[at : at + 2], 16)) for at in (0, 2, 4))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def main():
    text = CSS.read_text(encoding="ascii")
    light, dark, *_ = re.split(r"@media", text)
    schemes = {"light": dict(COLOUR.findall(light)), "dark": dict(COLOUR.findall(dark))}
    assert round(contrast("000000", "ffffff"), 2) == 21 and contrast("777777", "ffffff") < TEXT
    used, paired = set(re.findall(r"var\(--([\w-]+)\)", text)), {each for p in PAIRS for each in p}
    failed = [f"--{name} is in no pair" for name in sorted(used - paired)]
    # no colour but these, whose contrast is known
    bare = re.sub(r"--[\w-]+: #[0-9a-f]{6};", "", text)
    failed += [f"a bare colour: {each}" for each in re.findall(r"#[0-9a-f]{3,6};|rgb\S*", bare)]
    for scheme, colours in schemes.items():
        for one, other, least in PAIRS:
            ratio = contrast(colours[one], colours[other])
            if ratio < least:
                failed.append(f"{scheme}: --{one} on --{other}: {ratio:.2f}, below {least}")
    for line in failed:
        print(f"FAILED {line}")
    print(f"{2 * len(PAIRS) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
