"""The page: one HTML file that needs nothing else, from the parts that the other modules made."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any

from fdglm_fast import __version__
from fdglm_fast.report.claims import MISSING, Verdict
from fdglm_fast.report.figures import Figure
from fdglm_fast.report.study import Study
from fdglm_fast.report.style import STYLE
from fdglm_fast.report.svg import panel_svg, stroke
from fdglm_fast.report.table import Table
from fdglm_fast.runs import PAPER

PAPER_SIZE, PAPER_ITERATIONS = (16384, 2048), 5000


@dataclass(frozen=True, eq=False)
class Section:
    """A study with its figures and tables; the paper's claims apart, because they come first."""

    study: Study
    figures: list[Figure]
    tables: list[Table]
    claims: Table | None = None
    verdicts: list[Verdict] = field(default_factory=list)

    @property
    def shown_claims(self) -> Table | None:
        """All claims for the paper's own problem; for another, those that its runs say something about."""
        if self.claims is None or (self.study.first.n, self.study.first.d) == PAPER_SIZE:
            return self.claims
        rows = [row for row in self.claims.rows if row["status"] != MISSING]
        return replace(self.claims, rows=rows) if rows else None


@dataclass(frozen=True, eq=False)
class Contents:
    """All that a page shows."""

    folder: str
    files: str  # the folder beside the page that holds figures and tables
    sections: list[Section]
    notes: list[str] = field(default_factory=list)


def page(contents: Contents) -> str:
    """The whole file. Every text that came from a result is escaped: a page must not run what a file says."""
    title = f"fdglm report: {contents.folder}"
    several = len(contents.sections) > 1
    body = [f"<h1>{escape(title)}</h1>", _opening(contents)]
    for k, section in enumerate(contents.sections, start=1):
        body.append(_section(section, f"s{k}-" if several else "", several))
    body.append(_provenance(contents))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<link rel="icon" href="data:,">'  # a browser would ask for one
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n"
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )


def _opening(contents: Contents) -> str:
    runs = sum(len(section.study.runs) for section in contents.sections)
    text = (
        f"<p>{runs} runs. The figures (SVG, PDF) and tables (CSV, JSON) of this page are in "
        f"<code>{escape(contents.files)}/</code>.</p>"
    )
    anchors = ""
    if len(contents.sections) == 1:
        section = contents.sections[0]
        shown: list[Table | Figure] = [section.shown_claims] if section.shown_claims else []
        shown += [figure for figure in section.figures if figure.panels]
        shown += [table for table in section.tables if table.rows]
        anchors = "".join(f'<a href="#{part.name}">{escape(part.title)}</a>' for part in shown)
    return f"{text}<nav>{anchors}</nav>{_notes(contents.notes)}"


def _notes(notes: list[str]) -> str:
    if not notes:
        return ""
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f'<ul class="note">{items}</ul>'


# --- a study --------------------------------------------------------------------------------------------------


def _section(section: Section, prefix: str, several: bool) -> str:
    study = section.study
    parts = [f"<h2>{escape(study.title)}</h2>", _facts(study)]
    if study.measure.note:
        parts.append(f'<p class="note">{escape(study.measure.note)}</p>')
    parts.append(_notes([f"Left out: {text}" for text in study.left_out]))
    claims = section.shown_claims
    if claims:
        note = f'<p class="note">{escape(_setting(study))}</p>'
        parts.append(_heading(prefix, claims) + note + claims.as_html())
    parts += [_figure(prefix, figure) for figure in section.figures if figure.panels]
    parts += [_heading(prefix, table) + table.as_html() for table in section.tables if table.rows]
    return "".join(parts)


def _setting(study: Study) -> str:
    """How the runs of the paper's method differ from its experiments."""
    n, d = PAPER_SIZE
    differences = []
    if (study.first.n, study.first.d) != PAPER_SIZE:
        differences.append(f"{study.first.n} samples and {study.first.d} features in the place of {n} and {d}")
    iterations = study.only(PAPER).iterations
    if iterations != PAPER_ITERATIONS:
        differences.append(f"{iterations} iterations in the place of {PAPER_ITERATIONS}")
    if not differences:
        return f"The paper's experiment: {n} samples, {d} features, T = {PAPER_ITERATIONS} iterations."
    return f"Not the paper's experiment: {', '.join(differences)}."


def _heading(prefix: str, part: Table | Figure) -> str:
    return f'<h3 id="{prefix}{part.name}">{escape(part.title)}</h3>'


def _facts(study: Study) -> str:
    facts = {
        "networks": ", ".join(study.families) or "none",
        "agents": ", ".join(str(m) for m in ([1] if study.single else []) + study.agents),
        "seeds": ", ".join(str(seed) for seed in study.seeds) or "none drawn",
        "iterations": _compared(study),
    }
    if study.methods != [PAPER]:
        facts["methods"] = ", ".join(study.methods)
    return _list(facts)


def _compared(study: Study) -> str:
    """How far the runs of each method all go, which is where the tables compare them."""
    ends = [(method, study.only(method).iterations) for method in study.methods]
    if len(ends) == 1:
        return f"compared after {study.iterations}"
    return "compared after " + ", ".join(f"{end} ({method})" for method, end in ends)


def _list(facts: dict[str, str]) -> str:
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in facts.items()) + "</dl>"


def _figure(prefix: str, figure: Figure) -> str:
    keys = []
    for key in figure.legend:
        mark = f'<svg viewBox="0 0 24 8" aria-hidden="true"><path class="{stroke(key)}" d="M0 4h24"/></svg>'
        keys.append(f"<li>{mark}{escape(key.label)}</li>")
    panels = "".join(panel_svg(panel, f"{figure.title}: {panel.title}") for panel in figure.panels)
    return (
        f"{_heading(prefix, figure)}<figure><figcaption>{escape(figure.caption)}</figcaption>"
        f'<ul class="legend">{"".join(keys)}</ul><div class="panels">{panels}</div></figure>'
    )


# --- how to run it again --------------------------------------------------------------------------------------


def _provenance(contents: Contents) -> str:
    """Machine, versions, seeds and command lines of all runs; what is common is said once."""
    reports = [run.report for section in contents.sections for run in section.study.runs]
    facts = {
        "machine": _each(reports, lambda r: _words(r.get("machine"))),
        "versions": _each(reports, lambda r: f"fdglm {r.get('version')}, {_words(r.get('versions'))}"),
        "threads": _each(reports, lambda r: str(r.get("threads"))),
        "data": _each(reports, lambda r: str(r["data"].get("path"))),
        "SHA-256 of the data": _each(reports, lambda r: str(r["data"].get("hash") or "not known")),
        "steps": _each(reports, lambda r: str(r.get("steps", {}).get("rule"))),
        "page": f"written by fdglm {__version__}",
    }
    commands = Counter(str(report["command"]) for report in reports if report.get("command"))
    shown = "".join(f"<pre>{escape(line)}</pre>" for line in commands)
    unknown = sum(not report.get("command") for report in reports)
    more = f'<p class="note">{unknown} runs do not tell their command.</p>' if unknown else ""
    return f'<h2 id="again">To run it again</h2>{_list(facts)}<h3>Command lines</h3>{shown}{more}'


def _each(reports: list[dict[str, Any]], tell: Any) -> str:
    """What the runs say, each answer once."""
    return "; ".join(dict.fromkeys(tell(report) for report in reports))


def _words(facts: Any) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items()) if isinstance(facts, dict) else "not known"
