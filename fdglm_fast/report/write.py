"""Making a report: read the folder, work out figures and tables, write the files, and the page last."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from fdglm_fast.errors import UsageError
from fdglm_fast.files import atomic_path, atomic_text, check_output, printable
from fdglm_fast.report.claims import Verdict, check_claims
from fdglm_fast.report.figures import figures
from fdglm_fast.report.methods import equal_table, method_table
from fdglm_fast.report.operations import count_study, operation_table
from fdglm_fast.report.page import Contents, Section, page
from fdglm_fast.report.pdf import figure_pdf
from fdglm_fast.report.study import Study, studies
from fdglm_fast.report.svg import figure_svg
from fdglm_fast.report.tables import (
    best_table,
    bound_table,
    claims_table,
    network_table,
    run_table,
    summary_table,
)
from fdglm_fast.runs import PAPER, read_folder


@dataclass(frozen=True)
class Written:
    """What was written: the page, the folder beside it, and the verdicts on the paper's claims, if they were judged."""

    page: str
    folder: str
    runs: int
    files: list[str]
    notes: list[str]
    claims: list[Verdict]


def write_report(runs: str, out: str, force: bool = False) -> Written:
    """A page at `out` for the results in the folder `runs`, and its figures and tables in a folder beside it."""
    beside = f"{Path(out).with_suffix('')}_files"
    check_output(out, force)
    _check_folder(beside, force)
    folder = read_folder(runs)
    sections = [_section(study) for study in studies(folder.runs)]
    contents = Contents(os.path.normpath(runs), os.path.basename(beside), sections, folder.notes)
    text = page(contents)
    os.makedirs(beside, exist_ok=True)
    files: list[str] = []
    for k, section in enumerate(sections, start=1):
        files += _write_parts(section, beside, f"{k}-" if len(sections) > 1 else "")
    with atomic_text(out, force) as stream:
        stream.write(text)
    verdicts = [verdict for section in sections for verdict in section.verdicts]
    return Written(out, beside, len(folder.runs), files, folder.notes, verdicts)


def _check_folder(path: str, force: bool) -> None:
    if not os.path.lexists(path):
        return
    if not os.path.isdir(path):
        raise UsageError(
            f"'{printable(path)}' is in the way: the report's figures and tables go into a folder of that name."
        )
    if os.listdir(path) and not force:
        raise UsageError(
            f"the folder '{printable(path)}' is not empty; use --force to replace the files of a report in it."
        )


def _section(study: Study) -> Section:
    tables = [
        *(table for table in (method_table(study), equal_table(study)) if table),
        summary_table(study),
        best_table(study),
        bound_table(study),
        network_table(study),
        operation_table(study, count_study(study)),
        run_table(study),
    ]
    report, paper = study.first.report, study.only(PAPER)
    judged = report["loss"] == "squared" and report["penalty"] == "none" and len(paper.families) > 1
    verdicts = check_claims(paper) if judged else []
    return Section(study, list(figures(study)), tables, claims_table(verdicts) if judged else None, verdicts)


def _write_parts(section: Section, folder: str, prefix: str) -> list[str]:
    """Figures as SVG and PDF, tables as CSV and JSON; the names of the files."""
    names = []
    for figure in section.figures:
        if not figure.panels:
            continue
        for suffix, content in (("svg", figure_svg(figure).encode()), ("pdf", figure_pdf(figure))):
            names.append(f"{prefix}{figure.name}.{suffix}")
            with atomic_path(os.path.join(folder, names[-1]), force=True) as temporary:
                temporary.write_bytes(content)
    for table in [*section.tables, *([section.claims] if section.claims else [])]:
        for suffix, text in (("csv", table.as_csv()), ("json", table.as_json())):
            names.append(f"{prefix}{table.name}.{suffix}")
            with atomic_text(os.path.join(folder, names[-1]), force=True) as stream:
                stream.write(text)
    return names
