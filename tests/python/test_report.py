"""Reports, compared with counts of json.loads over the captures."""

import json
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from datetime import datetime
from html.parser import HTMLParser

import pyarrow as pa
import pytest

import towpath
from canal_messages import MIXED, SCHEMA, change, order
from golden_files import GOLDEN, lines, truth
from towpath.cli import main
from towpath.report import FIELDS, write_report
from towpath.report.page import page
from towpath.report.summary import LAG_EDGES, Summary, summarize, width_of

CAPTURE = "cloudcanal/small.jsonl"


def decoded(values, schema=None):
    fields = [*FIELDS, "after"] if schema else FIELDS
    return towpath.Decoder("canal-json", schema, fields=fields).decode(pa.array(values, pa.binary()))


def counted(values):
    """Row changes by table and op, by nothing but json.loads."""
    messages = map(json.loads, values)
    changes = [one for one in messages if one["type"] in ("INSERT", "UPDATE", "DELETE")]
    counts = Counter()
    for one in changes:
        counts[f"{one['database']}.{one['table']}", one["type"].lower()] += len(one["data"])
    return counts


class Text(HTMLParser):
    """A page's text, its tables, and the resources that it references."""

    def __init__(self, content):
        super().__init__()
        self.tags, self.texts, self.tables, self.references = Counter(), [], [], []
        self.in_cell = False
        self.feed(content)

    def handle_starttag(self, tag, attributes):
        self.tags[tag] += 1
        self.references += [value for name, value in attributes if name in ("src", "href", "xlink:href")]
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

        self.in_cell = tag in ("td", "th") or (self.in_cell and tag == "em")

    def handle_endtag(self, tag):
        self.in_cell = self.in_cell and tag not in ("td", "th")

    def handle_data(self, data):
        self.texts.append(data)
        if self.in_cell:
            self.tables[-1][-1][-1] += data


def test_counts_are_those_of_the_capture():
    summary = summarize([decoded(lines(CAPTURE))])
    ours = Counter({(row["table"], row["op"]): row["rows"] for row in summary.counts.to_pylist()})
    wanted = counted(lines(CAPTURE))
    assert {key: ours[key] for key in wanted} == wanted
    assert sum(summary.times["rows"].to_pylist()) == sum(ours.values()) == len(lines(CAPTURE))


def test_lags_are_those_of_the_capture():
    wanted = Counter()
    values = lines("canal-mysql/mixed.flat.jsonl.zst")
    for one in map(json.loads, values):
        lag = (one["ts"] - one["es"]) * 1000
        wanted[sum(lag >= edge for edge in LAG_EDGES)] += max(1, len(one["data"] or [0]))
    summary = summarize([decoded(values)])
    ours = Counter()
    for row in summary.times.to_pylist():
        ours[row["lag"]] += row["rows"]
    assert ours == wanted
    assert len(wanted) > 1


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_nothing_depends_on_the_batches(size):
    values = [change(data=[order(1, "1.00")], es=1714979289000 + 7000 * at, ts=1714979289000) for at in range(200)]
    summary = summarize(decoded(values[at : at + size]) for at in range(0, len(values), size))
    times = sorted(summary.times.to_pylist(), key=lambda row: row["time"])
    assert summary.width == 30 == width_of(199 * 7)
    wanted = Counter((1714979289 + 7 * at) // 30 * 30 for at in range(200))
    by_time = Counter()
    for row in times:
        by_time[row["time"]] += row["rows"]
    assert by_time == wanted


@pytest.mark.parametrize(("seconds", "width"), [(0, 1), (119, 1), (120, 5), (86_400, 1_800), (10**9, 31_449_600)])
def test_plots_have_at_most_120_bars(seconds, width):
    assert width_of(seconds) == width
    assert seconds // width < 120


def test_a_page_shows_the_counts_and_loads_nothing(tmp_path):
    write_report([decoded(lines(CAPTURE))], tmp_path / "report.html", "Orders & more")
    content = (tmp_path / "report.html").read_text(encoding="utf-8")
    text = Text(content)
    head, *rows = text.tables[-1]
    shown = {(row[0], op): int(count) for row in rows for op, count in zip(head[1:-1], row[1:-1], strict=True)}
    wanted = counted(lines(CAPTURE))
    assert {key: shown[key] for key in wanted} == wanted
    assert sum(int(row[-1]) for row in rows) == len(lines(CAPTURE))
    assert "Orders & more" in text.texts
    assert text.tags["svg"] == 4
    assert text.tags["script"] == text.tags["link"] == 0
    assert all(reference.startswith(("#", "data:")) for reference in text.references)
    assert "@import" not in content
    assert "url(http" not in content


def test_plots_are_well_formed_and_share_no_id():
    svgs = re.findall(r"<svg.*?</svg>", page(summarize([decoded(lines(CAPTURE))])), re.DOTALL)
    ids = [set(re.findall(r'(?:url\(|xlink:href=")#([^")]+)', svg)) for svg in svgs]
    defined = [{element.get("id") for element in ElementTree.fromstring(svg).iter()} for svg in svgs]
    assert len(svgs) == 4
    assert all(used and used <= known for used, known in zip(ids, defined, strict=True))
    assert len(set().union(*ids)) == sum(map(len, ids)), "a plot would use another's shapes"


def test_bars_are_as_high_as_the_counts():
    """The heights of the SVG's bars, in units of the axis, are the counts that json.loads gives."""
    first, second = 1714979289000, 1714979290000
    values = [change(data=[order(at, "1.00")], es=first if at < 3 else second) for at in range(9)]
    svg = re.search(r"<svg.*?</svg>", page(summarize([decoded(values)])), re.DOTALL)[0]
    heights = []
    for path in re.findall(r'<g id="patch_\d+">\s*<path d="([^"]*)" clip-path[^>]*fill: #4477aa', svg):
        ends = [float(y) for _, y in re.findall(r"[ML] ([-\d.]+) ([-\d.]+)", path)]
        heights.append(max(ends) - min(ends))
    assert len(heights) == 2
    assert heights[1] / heights[0] == pytest.approx(2, rel=1e-3)


NASTY = "<script>alert(1)</script>&\"'$x^$_值"


def test_names_and_examples_are_escaped():
    values = [change(data=[{"id": NASTY}], table=NASTY, database="_d", es=1714979289000, ts=1714979289001)] * 2
    content = page(summarize([decoded(values, schema="id int")]), NASTY)
    text = Text(content)
    assert text.tags["script"] == 0
    assert f"_d.{NASTY}" in text.texts, "in the legend"
    kind, table, column, events, example = text.tables[0][1]
    assert (kind, table, column, events) == ("type", f"_d.{NASTY}", "id", "2")
    assert NASTY[:20] in example
    assert NASTY in text.texts, "in the title"


def test_errors_are_reported_by_kind_with_an_example():
    text = Text(page(summarize([decoded(MIXED, SCHEMA)])))
    rows = {(row[0], row[1], row[2]): row[3] for row in text.tables[0][1:]}
    assert rows == {
        ("syntax", "none", "none"): "1",
        ("type", "shop.orders", "total"): "1",
        ("type", "shop.customers", "id"): "1",
    }
    assert 'canal-json: after.total: "12,50" is not a decimal(10,2)' in [row[-1] for row in text.tables[0]]
    assert "5 events of 3 tables; 3 with an error." in text.texts


def test_many_tables_share_one_colour():
    values = [change(data=[order(1, "1.00")], table=f"t{at}", es=1714979289000) for at in range(20)]
    text = Text(page(summarize([decoded(values)])))
    assert text.texts.count("all others") == 1
    assert len(text.tables[-1]) == 21


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([], "There are no events, so there is nothing to show."),
        ([change(data=[order(1, "1.00")])], "No event has an event time."),
        ([change(data=[order(1, "1.00")], es=1714979289000)], "No event has both"),
    ],
)
def test_there_are_no_plots_of_nothing(values, said):
    content = page(summarize([decoded(values)] if values else []))
    assert said in content
    assert content.count("<svg") == (2 if "both" in said else 0)


def test_an_empty_summary_is_empty():
    assert summarize([decoded([])]) == summarize([]) == Summary()


def test_the_command_writes_it(tmp_path, capsys):
    output = tmp_path / "r.html"
    assert main(["report", str(GOLDEN / CAPTURE), "--table", "orders", "-o", str(output)]) == 0
    out, err = capsys.readouterr()
    assert out == f"{output}\n"
    wanted = [one for one in truth("cloudcanal/small.truth.jsonl") if one["table"] == "orders"]
    assert f"{len(wanted)} events of 1 tables; 0 with an error." in output.read_text(encoding="utf-8")
    assert err.splitlines()[:2] == ["56 messages", f"{len(wanted)} rows"]


def test_the_head_says_what_was_read_and_when(tmp_path):
    output = tmp_path / "r.html"
    assert main(["report", str(GOLDEN / CAPTURE), "--table", "orders", "-o", str(output)]) == 0
    content = output.read_text(encoding="utf-8")
    details = dict(re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", content))
    events = [json.loads(value) for value in lines(CAPTURE)]
    times = sorted(one["es"] // 1000 for one in events if one["table"] == "orders")
    first, last, seconds = re.fullmatch(r"(.*) to (.*) \(UTC, in steps of (\d+) seconds?\)", details["Events"]).groups()
    read = [int(datetime.fromisoformat(f"{text}+00:00").timestamp()) for text in (first, last)]
    assert read == [time // int(seconds) * int(seconds) for time in (times[0], times[-1])]
    assert details["Files"] == str(GOLDEN / CAPTURE)
    assert (details["Dialect"], details["Table"]) == ("auto", "orders")
    assert details["Written"].endswith(f" UTC by towpath {towpath.__version__}")


def test_errors_come_before_plots():
    headings = re.findall("<h2>(.*?)</h2>", page(summarize([decoded(lines(CAPTURE))])))
    assert (headings[0], headings[-1]) == ("Errors", "Tables")


def test_the_command_looks_at_values_that_a_schema_asks_for(tmp_path, capsys):
    capture, output = tmp_path / "mixed.jsonl", tmp_path / "r.html"
    capture.write_bytes(b"\n".join(MIXED))
    assert main(["report", str(capture), "--schema", SCHEMA, "--table", "orders", "-o", str(output)]) == 1
    assert "2 errors: 1 syntax, 1 type" in capsys.readouterr().err.splitlines()
    assert "4 events of 2 tables; 2 with an error." in output.read_text(encoding="utf-8")
