"""Draws the output of scripts/bench --json: for each row, the time of each other system relative to mount.dafs."""

import math

LEFT, RIGHT, TOP, BAR, GAP = 480, 90, 60, 13, 16
WIDTH = 560  # of the bars
COLOURS = {"passthrough": "#9aa0a6", "libfuse": "#c4c7c5", "libfuse-high": "#dadce0", "over-tcp": "#5f6368",
           "sshfs": "#e8710a", "sshfs-plain": "#f9ab00", "sshfs-shared": "#fde293", "gluster": "#1e8e3e",
           "libnfs": "#9334e6", "dafs-uring": "#1a73e8", "dafs-own": "#7cacf8", "dafs-unsaved": "#12b5cb",
           "dafs-power": "#d93025", "dafs-asleep": "#a142f4"}


def escaped(text):
    return text.replace("&", "&amp;").replace("<", "&lt;")


def svg(report):
    """`report`: the value of "rows" in the JSON."""
    names = sorted({name for row in report for name in row["ratios"]}, key=list(COLOURS).index)
    slower = {(row["row"], name): 1 / ratio for row in report for name, ratio in row["ratios"].items()}
    most = 10 ** math.ceil(math.log10(max([10, *slower.values()])))
    least = 0.1

    def across(value):
        return LEFT + WIDTH * math.log10(min(max(value, least), most) / least) / math.log10(most / least)

    height = TOP + sum(len(row["ratios"]) * BAR + GAP for row in report) + 30
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + RIGHT}" height="{height}" '
             'font-family="sans-serif" font-size="12">',
             '<rect width="100%" height="100%" fill="white"/>',
             f'<text x="{LEFT}" y="16">time beside that of mount.dafs, 1 = the same, right = slower</text>']
    for number, name in enumerate(names):
        at = 10 + number * min(130, (LEFT + WIDTH + RIGHT - 10) // len(names))
        lines.append(f'<rect x="{at}" y="26" width="10" height="10" fill="{COLOURS[name]}"/>'
                     f'<text x="{at + 14}" y="35">{escaped(name)}</text>')
    value = least
    while value <= most:
        at = across(value)
        style = "stroke='#202124'" if value == 1 else "stroke='#dadce0'"
        lines.append(f'<line x1="{at:.1f}" y1="{TOP - 8}" x2="{at:.1f}" y2="{height - 24}" {style}/>'
                     f'<text x="{at:.1f}" y="{height - 8}" text-anchor="middle">{value:g}</text>')
        value *= 10
    y = TOP
    for row in report:
        figure = row["results"]["dafs"]["figure"]["median"]
        middle = y + len(row["ratios"]) * BAR / 2 + 4
        lines.append(f'<text x="{LEFT - 8}" y="{middle:.1f}" text-anchor="end">'
                     f'{escaped(row["about"])}{"" if row["pinned"] else ", not pinned"}: {figure:,.{1 if figure < 100 else 0}f} {escaped(row["unit"])}</text>')
        for name in names:
            if name in row["ratios"]:
                one, end = across(1), across(slower[row["row"], name])
                lines.append(f'<rect x="{min(one, end):.1f}" y="{y}" width="{max(abs(end - one), 1):.1f}" '
                             f'height="{BAR - 2}" fill="{COLOURS[name]}"/>'
                             f'<text x="{max(one, end) + 4:.1f}" y="{y + BAR - 3}" font-size="10">'
                             f'{slower[row["row"], name]:.2g}</text>')
                y += BAR
        y += GAP
    lines.append("</svg>")
    return "\n".join(lines) + "\n"


# ---- scripts/bench --paper -------------------------------------------------------------------------

PANEL, PANEL_HEIGHT, MARGIN = 400, 240, 60
WAYS = {"libdafs": "#1a73e8", "mount": "#e8710a", "libnfs": "#9334e6"}
PANELS = (("sync", "mbs", "one read at a time: MB/s"), ("async", "mbs", "32 reads at once: MB/s"),
          ("sync", "client", "one read at a time: client CPU, us a read"),
          ("async", "client", "32 reads at once: client CPU, us a read"))


def panel(rows, field, title, left, top):
    """Returns a graph of `field` over the block size, both logarithmic."""
    blocks = [row["block"] for row in rows]
    values = [result[field]["median"] for row in rows for result in row["results"].values()]
    low, high = math.floor(math.log10(max(min(values), 0.1))), math.ceil(math.log10(max(values)))

    def x(block):
        return left + PANEL * math.log2(block / blocks[0]) / math.log2(blocks[-1] / blocks[0])

    def y(value):
        return top + PANEL_HEIGHT * (1 - (math.log10(max(value, 10 ** low)) - low) / max(high - low, 1))

    lines = [f'<text x="{left}" y="{top - 8}">{escaped(title)}</text>']
    for power in range(low, high + 1):
        at = y(10 ** power)
        lines.append(f'<line x1="{left}" y1="{at:.1f}" x2="{left + PANEL}" y2="{at:.1f}" stroke="#dadce0"/>'
                     f'<text x="{left - 6}" y="{at + 4:.1f}" text-anchor="end">{10 ** power:,g}</text>')
    for block in blocks:
        name = f"{block >> 10}K" if block < 1 << 20 else f"{block >> 20}M"
        lines.append(f'<text x="{x(block):.1f}" y="{top + PANEL_HEIGHT + 16}" text-anchor="middle">{name}</text>')
    for way in rows[0]["results"]:
        points = [(x(row["block"]), y(row["results"][way][field]["median"])) for row in rows]
        path = " ".join(f"{across:.1f},{down:.1f}" for across, down in points)
        lines.append(f'<polyline points="{path}" fill="none" stroke="{WAYS[way]}" stroke-width="2"/>')
        lines += [f'<circle cx="{across:.1f}" cy="{down:.1f}" r="3" fill="{WAYS[way]}"/>' for across, down in points]
    return lines


def paper_svg(report):
    """`report`: the value of "paper" in the JSON."""
    width, height = 2 * (PANEL + MARGIN) + MARGIN, 2 * (PANEL_HEIGHT + MARGIN) + 30
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
             'font-family="sans-serif" font-size="12">', '<rect width="100%" height="100%" fill="white"/>']
    for number, way in enumerate(report[0]["results"]):
        at = MARGIN + number * 130
        lines.append(f'<rect x="{at}" y="10" width="10" height="10" fill="{WAYS[way]}"/>'
                     f'<text x="{at + 14}" y="19">{escaped(way)}</text>')
    for number, (mode, field, title) in enumerate(PANELS):
        rows = [row for row in report if row["mode"] == mode]
        lines += panel(rows, field, title, MARGIN + number % 2 * (PANEL + MARGIN),
                       50 + number // 2 * (PANEL_HEIGHT + MARGIN))
    lines.append("</svg>")
    return "\n".join(lines) + "\n"
