"""Pairs per second over callers as an SVG, to be read on light and on dark ground."""
import math

WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 70, 170, 54, 56
LABEL_HEIGHT = 16
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #3a3f47 }
.title { font-weight: 600 }
.grid { stroke: #8a909a; stroke-opacity: .28 }
.line { fill: none; stroke-width: 2; stroke-linejoin: round }
.lockagent { stroke-width: 3.5 }
.lockagent, .dot-lockagent { stroke: #1f6fd0 } .dot-lockagent { fill: #1f6fd0 }
.redsync, .dot-redsync { stroke: #c75b12 } .dot-redsync { fill: #c75b12 }
.bare, .dot-bare { stroke: #737a85 } .dot-bare { fill: #737a85 }
.nothing, .dot-nothing { stroke: #15846f } .dot-nothing { fill: #15846f }
.redis-py, .dot-redis-py { stroke: #9c4593 } .dot-redis-py { fill: #9c4593 }
@media (prefers-color-scheme: dark) {
text { fill: #d3d8e0 }
.lockagent, .dot-lockagent { stroke: #62a6ff } .dot-lockagent { fill: #62a6ff }
.redsync, .dot-redsync { stroke: #f0924c } .dot-redsync { fill: #f0924c }
.bare, .dot-bare { stroke: #a5acb8 } .dot-bare { fill: #a5acb8 }
.nothing, .dot-nothing { stroke: #4cc7ae } .dot-nothing { fill: #4cc7ae }
.redis-py, .dot-redis-py { stroke: #d68bce } .dot-redis-py { fill: #d68bce }
}
"""


def ticks(low, high):
    """1, 2 and 5 of each power of ten, just around `low` and `high`."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = [step * 10.0**power for power in powers for step in (1, 2, 5)]
    first = max(step for step in steps if step <= low)
    last = min(step for step in [*steps, 10.0 ** (powers[-1] + 1)] if step >= high)
    return [step for step in steps if first <= step <= last]


def scale(low, high, start, end):
    """Logarithmic; the middle if there is but one value."""
    if low == high:
        return lambda _: (start + end) / 2
    across = math.log(high / low)
    return lambda value: start + (end - start) * math.log(value / low) / across


def spread(wanted):
    """Heights of labels near those wanted, in the same order, that do not cover each other."""
    placed = {}
    lowest = -math.inf
    for y, name in sorted((y, name) for name, y in wanted.items()):
        lowest = placed[name] = max(y, lowest + LABEL_HEIGHT)
    return placed


def svg(lines, note=""):
    """`lines` are (class, label, [(callers, pairs per second)]); `note` is a warning, or empty."""
    callers = sorted({x for _, _, points in lines for x, _ in points})
    rates = [y for _, _, points in lines for _, y in points]
    marks = ticks(min(rates), max(rates))
    x_of = scale(callers[0], callers[-1], LEFT, WIDTH - RIGHT)
    y_of = scale(marks[0], marks[-1], HEIGHT - BOTTOM, TOP)
    title = "Acquire + release pairs per second, over callers"
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{title}</title>",
        f"<style>{STYLE}</style>",
        f'<text class="title" x="{LEFT}" y="22">{title} (both axes logarithmic)</text>',
        f'<text x="{LEFT}" y="38">{note}</text>',
    ]
    for mark in marks:
        y = y_of(mark)
        out.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        out.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{mark:,.0f}</text>')
    last_x = -math.inf
    for count in callers:
        x = x_of(count)
        out.append(f'<path class="grid" d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}"/>')
        if x - last_x >= 36:  # else its number would cover the one before
            out.append(f'<text x="{x:.1f}" y="{HEIGHT - 34}" text-anchor="middle">{count:,}</text>')
            last_x = x
    middle = (LEFT + WIDTH - RIGHT) / 2
    out.append(f'<text x="{middle}" y="{HEIGHT - 12}" text-anchor="middle">callers</text>')
    ends = {}
    for name, label, points in sorted(lines, key=lambda line: line[0] == "lockagent"):
        at = [(x_of(x), y_of(y)) for x, y in sorted(points)]
        out.append(
            f'<path class="line {name}" d="M' + "L".join(f"{x:.1f} {y:.1f}" for x, y in at) + '"/>'
        )
        out += [f'<circle class="dot-{name}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in at]
        ends[name] = at[-1][1], label
    placed = spread({name: y for name, (y, _) in ends.items()})
    for name, y in placed.items():
        x = WIDTH - RIGHT + 12
        out.append(f'<circle class="dot-{name}" cx="{x}" cy="{y:.1f}" r="4"/>')
        out.append(f'<text x="{x + 10}" y="{y + 4:.1f}">{ends[name][1]}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"
