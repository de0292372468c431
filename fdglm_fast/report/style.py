"""The style sheet of the page: light and dark by the reader's choice, one column on a phone, plain on paper."""

from __future__ import annotations

from fdglm_fast.report.palette import DARK, DOTS, LIGHT


def _variables(colours: tuple[str, ...]) -> str:
    return "".join(f"--s{k}:{colour};" for k, colour in enumerate(colours))


_LIGHT = "--ink:#1f2933;--soft:#5a6875;--paper:#ffffff;--card:#f5f7f9;--rule:#d5dbe1;--hub:#d1410c;--dot:#2f6fab;"
_LIGHT += "--good:#17663a;--bad:#b3261e;"
_DARK = "--ink:#e4e8ec;--soft:#9aa7b3;--paper:#14181d;--card:#1d232a;--rule:#3a444e;--hub:#ff8a5c;--dot:#78b4ea;"
_DARK += "--good:#6fd39a;--bad:#ff8d85;"

STYLE = f"""
:root{{color-scheme:light dark;{_LIGHT}{_variables(LIGHT)}}}
@media (prefers-color-scheme:dark){{:root{{{_DARK}{_variables(DARK)}}}}}
@media print{{:root{{color-scheme:light;{_LIGHT}{_variables(LIGHT)}}}}}
*{{box-sizing:border-box}}
body{{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,"Helvetica Neue",Arial,sans-serif}}
main{{max-width:1240px;margin:0 auto;padding:1.25rem}}
h1{{font-size:1.7rem;line-height:1.2;margin:.2em 0 .4em;overflow-wrap:anywhere}}
h2{{font-size:1.3rem;margin:2.2rem 0 .5rem;padding-top:.6rem;border-top:2px solid var(--rule)}}
h3{{font-size:1.05rem;margin:1.6rem 0 .3rem}}
p{{margin:.4em 0;max-width:75ch;overflow-wrap:anywhere}}
a{{color:inherit}}
.note,figcaption,dt{{color:var(--soft)}}
.note,figcaption{{font-size:.9rem}}
nav{{font-size:.95rem;display:flex;flex-wrap:wrap;gap:.2rem 1rem}}
dl{{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem;margin:.6rem 0}}
dd{{margin:0;overflow-wrap:anywhere}}
code,pre{{font:.86em/1.5 ui-monospace,"SF Mono",Menlo,Consolas,monospace}}
pre{{background:var(--card);padding:.6rem .8rem;border-radius:6px;
white-space:pre-wrap;overflow-wrap:anywhere;margin:.4rem 0}}
figure{{margin:.6rem 0 0}}
.panels{{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,330px),1fr));gap:.4rem 1rem}}
.panels svg{{display:block;width:100%;max-width:480px;height:auto}}
.legend{{display:flex;flex-wrap:wrap;gap:.1rem 1rem;font-size:.88rem;margin:.4rem 0;padding:0;list-style:none}}
.legend svg{{width:24px;height:8px;vertical-align:middle;margin-right:.35rem}}
svg text{{fill:var(--ink);font:11px system-ui,"Helvetica Neue",Arial,sans-serif}}
svg .title{{font-weight:600;font-size:12.5px}} svg .m{{font-size:9.5px}}
svg .end{{text-anchor:end}} svg .mid{{text-anchor:middle}}
svg .grid{{stroke:var(--rule);stroke-width:1}} svg .axis{{stroke:var(--ink);stroke-width:1;fill:none}}
svg .line{{fill:none;stroke-width:1.7;stroke-linejoin:round}} svg .band{{stroke:none;fill-opacity:.2}}
svg .single{{stroke:var(--ink);stroke-dasharray:5 3}} svg .line.other{{stroke-dasharray:{DOTS};stroke-width:2}}
{"".join(f"svg .s{k}{{stroke:var(--s{k})}}svg .f{k}{{fill:var(--s{k})}}" for k in range(len(LIGHT)))}
svg .edge{{stroke:var(--ink);stroke-width:.6;fill:none}}
svg .dot{{stroke:var(--dot);stroke-linecap:round;fill:none}} svg .hub{{fill:var(--hub)}}
.net{{width:84px;height:84px;display:block}}
.scroll{{overflow:auto;width:fit-content;max-width:100%;margin:.5rem 0;max-height:34rem;
border:1px solid var(--rule);border-radius:6px}}
.whole{{max-height:none}}
table{{border-collapse:collapse;font-size:.86rem;min-width:min(100%,40rem)}}
th,td{{padding:.28rem .6rem;text-align:left;vertical-align:top;white-space:nowrap;border-bottom:1px solid var(--rule)}}
th{{position:sticky;top:0;background:var(--card);white-space:normal;vertical-align:bottom}}
td.number,th.number{{text-align:right;font-variant-numeric:tabular-nums}}
td.wide{{white-space:normal;min-width:16rem}}
td.picture{{padding:.1rem .4rem;vertical-align:middle}}
.good{{color:var(--good);font-weight:600}} .bad{{color:var(--bad);font-weight:600}}
@media (max-width:640px){{main{{padding:.9rem}} .scroll{{max-height:75vh}} .whole{{max-height:none}}
.stacked thead{{display:none}} .stacked tr{{display:block;padding:.4rem .6rem;border-bottom:1px solid var(--rule)}}
.stacked td,.stacked td.wide{{display:block;border:0;padding:.1rem 0;white-space:normal;min-width:0;text-align:left}}
.stacked td::before{{content:attr(data-label) ": ";color:var(--soft);font-weight:400}}
.stacked td:first-child{{font-weight:600}} .stacked td:first-child::before{{content:""}}}}
@media print{{main{{max-width:none;padding:0}} body{{font-size:11pt}} nav{{display:none}}
.scroll{{max-height:none;overflow:visible;border:0}} table{{font-size:7.5pt}}
th,td{{padding:.15rem .3rem;white-space:normal}}
td.wide{{min-width:0}} figure,tr{{break-inside:avoid}} h2,h3{{break-after:avoid}}
.panels{{grid-template-columns:1fr 1fr 1fr}}}}
""".strip()
