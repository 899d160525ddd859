"""Draws what scripts/bench --json wrote: for each row, how many times as long as mount.dafs each other system takes."""

import math

LEFT, RIGHT, TOP, BAR, GAP = 330, 90, 60, 13, 16
WIDTH = 560  # of the bars
COLOURS = {"passthrough": "#9aa0a6", "libfuse": "#c4c7c5", "sshfs": "#e8710a", "sshfs-plain": "#f9ab00",
           "gluster": "#1e8e3e", "libnfs": "#9334e6"}


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
        at = 10 + number * 130
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
                     f'{escaped(row["about"])}: {figure:,.4g} {escaped(row["unit"])}</text>')
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
