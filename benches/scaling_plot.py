"""The plot of the part `scaling`."""

import statistics

TITLES = {
    "columns": "columns of the table",
    "rows": "rows a message",
    "tables": "tables in the topic",
    "value": "bytes of a value",
}


def draw(axes, target):
    """One panel for each axis: nanoseconds an input byte, and instructions where they were counted."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "towpath"  # the same figures make the same file
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, len(axes), figsize=(3.2 * len(axes), 3.2), layout="constrained")
    for panel, (name, points) in zip(panels, axes.items(), strict=True):
        draw_axis(panel, TITLES[name], points)
    panels[0].set_ylabel("ns of CPU time an input byte")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    target.parent.mkdir(exist_ok=True)
    figure.savefig(target, metadata={"Date": None})
    plt.close(figure)


def draw_axis(panel, title, points):
    sizes = [point["size"] for point in points]
    for way, style in (("towpath typed", "o-"), ("simd-json tape", "s--")):
        each = [statistics.median(point["nanos"][way]) / point["bytes"] for point in points]
        panel.plot(sizes, each, style, markersize=4, label=way)
    panel.set_xscale("log")
    panel.set_ylim(bottom=0)
    panel.set_xlabel(title)
    if all("instructions" in point for point in points):
        counted = panel.twinx()
        counted.plot(sizes, [point["instructions"] for point in points], "^:", color="gray", markersize=4)
        panel.plot([], [], "^:", color="gray", markersize=4, label="instructions an input byte (right)")
        counted.set_ylim(bottom=0)
