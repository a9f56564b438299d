"""Style and script of the report page: one column that reads on a phone, light and dark, tables sorted by a click."""

CSS = """
:root { color-scheme: light dark; --bg: #fff; --fg: #1c1c1e; --soft: #5a5a60; --line: #d9d9de; --card: #f5f5f7;
  --yes: #00664d; --no: #9b2226; --tie: #5a4a00; --link: #0058a3; }
@media (prefers-color-scheme: dark) { :root { --bg: #16171a; --fg: #ececf0; --soft: #a9a9b2; --line: #3a3b41;
  --card: #212227; --yes: #5fd3b0; --no: #ff9a9a; --tie: #e6cf6b; --link: #7cc0ff; } }
* { box-sizing: border-box; }
body { margin: 0; overflow-wrap: break-word; background: var(--bg); color: var(--fg);
  font: 16px/1.5 system-ui, sans-serif; }
main, header, footer, nav { max-width: 72rem; margin: 0 auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 1.5rem 0 .5rem; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 .6rem; }
h3 { font-size: 1rem; margin: 0 0 .3rem; }
h3, p, li, summary, figcaption { overflow-wrap: anywhere; min-width: 0; }
a { color: var(--link); }
.origin, caption, figcaption, .note { color: var(--soft); font-size: .9rem; }
.lead { font-size: 1.15rem; }
.answers { list-style: none; padding: 0; display: grid; gap: .8rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); }
.answers > li { background: var(--card); border-left: .3rem solid var(--soft); border-radius: .3rem;
  padding: .8rem 1rem; }
.answers ul { margin: .4rem 0 0; padding-left: 1.1rem; color: var(--soft); font-size: .92rem; }
.answers .yes { border-color: var(--yes); } .answers .no { border-color: var(--no); }
.answers .tie { border-color: var(--tie); }
.answers p { margin: .3rem 0 0; } .headline { font-weight: 600; }
.word { font-weight: 700; } .yes .word { color: var(--yes); } .no .word { color: var(--no); }
.tie .word { color: var(--tie); }
figure { margin: 1rem 0 1.6rem; }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: .3rem; }
.scroll:focus-visible, button:focus-visible, summary:focus-visible { outline: 2px solid var(--link); }
nav ul { display: flex; flex-wrap: wrap; gap: .2rem 1rem; list-style: none; margin: 0; padding: 0; }
figure img { display: block; background: #fff; width: 100%; min-width: 40rem; max-width: 62rem; margin: 0 auto; }
figcaption { margin-top: .4rem; }
details { margin: .6rem 0; }
summary { cursor: pointer; padding: .4rem 0; font-weight: 600; }
table { border-collapse: collapse; width: 100%; font-size: .88rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding: .5rem .6rem; }
th, td { padding: .3rem .6rem; text-align: right; border-top: 1px solid var(--line); white-space: nowrap; }
thead th { vertical-align: bottom; background: var(--card); border: 0; padding: 0; }
thead button { font: inherit; font-weight: 600; color: inherit; background: none; border: 0; padding: .4rem .6rem;
  width: 100%; text-align: right; white-space: normal; cursor: pointer; }
th[aria-sort=ascending] button::after { content: " \\2191"; }
th[aria-sort=descending] button::after { content: " \\2193"; }
tbody th { text-align: left; font-weight: 400; position: sticky; left: 0; background: var(--bg); white-space: normal;
  min-width: 9rem; max-width: 18rem; overflow-wrap: anywhere; }
thead th:first-child { position: sticky; left: 0; } thead th:first-child button { text-align: left; }
thead th.plain { padding: .4rem .6rem; white-space: pre-line; } thead th.plain:first-child { text-align: left; }
tr.group th { font-weight: 700; background: var(--card); max-width: none; }
td.words, th.words { white-space: normal; text-align: left; } section > ul { padding-left: 1.1rem; }
td small { display: block; color: var(--soft); }
tr.reference th, tr.reference td { font-weight: 700; } tr.reference small { font-weight: 400; }
tr.bound, tr.static { color: var(--soft); }
body:not(:has(#all-static:checked)) tr.static { display: none; }
td.ahead { color: var(--yes); font-weight: 600; } td.behind { color: var(--no); } .matrix td { padding: .2rem .5rem; }
.ranking tbody th { min-width: 12rem; } .ranking td small { white-space: normal; min-width: 5.5rem; }
td.reason small { min-width: 26rem; } .ranking td.long small { min-width: 12.5rem; }
.ranking td { padding: .2rem .5rem; }
.policy { border-top: 1px solid var(--line); scroll-margin-top: 1rem; } .policy summary { font-weight: 400; }
.policy > ul, .policy > p { margin: .5rem 0; } .policy:target > summary { font-weight: 700; }
pre { background: var(--card); border-radius: .3rem; padding: .8rem; overflow-x: auto; font-size: .82rem; }
dt { font-weight: 600; margin-top: .6rem; } dd { margin: 0; }
footer { padding: 2rem 1rem; }
@media print { .scroll { overflow: visible; } figure img { min-width: 0; } }
"""

SCRIPT = """
document.querySelectorAll("thead button").forEach((button) => button.addEventListener("click", () => {
  const head = button.closest("th"), row = head.parentNode, body = head.closest("table").tBodies[0];
  const column = [...row.children].indexOf(head);
  const down = head.getAttribute("aria-sort") !== "descending";
  for (const other of row.children) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const value = (line) => line.children[column].dataset.value ?? "";
  const order = (a, b) => {
    const [x, y] = [value(a), value(b)], [p, q] = [parseFloat(x), parseFloat(y)];
    if (x === "" || y === "") return (x === "") - (y === "");
    return (down ? -1 : 1) * (column && !isNaN(p) && !isNaN(q) ? p - q : x.localeCompare(y));
  };
  body.append(...[...body.rows].sort(order));
}));
const reveal = () => {
  const target = document.getElementById(location.hash.slice(1));
  if (target instanceof HTMLDetailsElement) { target.open = true; target.scrollIntoView(); }
};
addEventListener("hashchange", reveal);
reveal();
"""
