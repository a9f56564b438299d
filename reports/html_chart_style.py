"""Style and script of the page's charts: values where one points, series on and off, a choice of loads; no library."""

CHART_CSS = """
.charts { display: grid; gap: 0 1.5rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); }
.chart { min-width: 0; } .several { grid-column: 1 / -1; }
.chart > h3 { display: inline-block; margin-right: .8rem; }
.choice { font-size: .9rem; } .choice select { font: inherit; padding: .15rem .3rem; }
.panels { display: grid; gap: .8rem; grid-template-columns: repeat(auto-fit,
  minmax(min(100%, max(21rem, (100% - (var(--n) - 1) * .8rem) / var(--n))), 1fr)); }
.panels[hidden] { display: none; }
.panel { border: 1px solid var(--line); border-radius: .3rem; padding: .5rem .5rem .3rem; min-width: 0;
  max-width: 34rem; }
.panel h4 { margin: 0; font-size: .88rem; overflow-wrap: anywhere; }
.unit { margin: 0; color: var(--soft); font-size: .8rem; }
.plot { display: block; width: 100%; height: auto; touch-action: pan-y; }
.plot:focus-visible { outline: 2px solid var(--link); }
.plot text { font-size: 12px; fill: var(--soft); font-variant-numeric: tabular-nums; }
.plot text.small { font-size: 10.5px; } .plot text.name, .plot text.axis { fill: var(--fg); }
.rule { stroke: var(--line); stroke-width: 1; } .zero { stroke: var(--soft); stroke-width: 1.2; }
.cursor { stroke: var(--soft); stroke-dasharray: 3 3; }
.line, g.tip { color: var(--c); } .stroke { fill: none; stroke: currentColor; stroke-linejoin: round; }
.band { fill: currentColor; opacity: .13; }
.line polygon, .line circle { fill: currentColor; } .cross { stroke: currentColor; stroke-width: 2; fill: none; }
.cell { opacity: .75; }
.whisker { stroke: var(--fg); stroke-width: 1.4; fill: none; }
g.tip rect { fill: currentColor; } g.tip.faint rect { fill: none; stroke: currentColor; }
.line.off, .off { display: none; }
.legend { display: flex; flex-wrap: wrap; gap: .25rem .4rem; margin: .3rem 0 .5rem; }
.key { display: inline-flex; align-items: center; gap: .35rem; font: inherit; font-size: .85rem; color: inherit;
  background: none; border: 1px solid transparent; border-radius: .3rem; padding: .2rem .4rem; }
button.key { cursor: pointer; border-color: var(--line); min-height: 1.8rem; }
button.key[aria-pressed=false] { opacity: .45; text-decoration: line-through; }
.key svg { width: 26px; height: 14px; flex: none; overflow: visible; }
.heat td { text-align: center; border: 2px solid var(--bg); } .heat td small { color: inherit; }
.heat { width: auto; }
.tooltip { position: absolute; z-index: 9; max-width: min(24rem, calc(100vw - 1rem)); background: var(--fg);
  color: var(--bg); font-size: .82rem; padding: .4rem .6rem; border-radius: .3rem; pointer-events: none;
  font-variant-numeric: tabular-nums; }
.tooltip p { margin: 0; } .tooltip .near { font-weight: 700; }
@media (prefers-color-scheme: dark) { .line, g.tip { color: var(--d); } }
@media print { .tooltip { display: none; } .panels[hidden] { display: grid; } }
"""

CHART_SCRIPT = """
const tooltip = document.createElement("div");
tooltip.className = "tooltip"; tooltip.hidden = true; tooltip.setAttribute("role", "status");
document.body.append(tooltip);
const show = (lines, x, y) => {
  tooltip.replaceChildren(...lines.map(([words, near]) => {
    const line = document.createElement("p");
    line.textContent = words; line.className = near ? "near" : "";
    return line;
  }));
  tooltip.hidden = false;
  const { width, height } = tooltip.getBoundingClientRect(), page = document.documentElement.clientWidth;
  const left = x + 14 + width > page ? Math.max(4, x - 14 - width) : x + 14;
  tooltip.style.left = Math.min(left, page - width - 4) + scrollX + "px";
  tooltip.style.top = Math.max(4, y - height - 10) + scrollY + "px";
};
const hide = (plot) => {
  tooltip.hidden = true;
  plot?.querySelector(".cursor")?.setAttribute("visibility", "hidden");
};
const series = (plot) => [...plot.querySelectorAll(".line[data-points]:not(.off)")].map((line) => ({
  name: line.dataset.name, still: line.classList.contains("static"), points: JSON.parse(line.dataset.points) }));
const nearest = (items, far) => items.reduce((best, item) => far(item) < far(best) ? item : best, items[0]);
const client = (plot, x, y) => {
  const box = plot.getBoundingClientRect(), scale = box.width / plot.viewBox.baseVal.width;
  return [box.left + x * scale, box.top + y * scale];
};
const column = (plot, x, y) => {
  const lines = series(plot), all = lines.flatMap((line) => line.points);
  if (!all.length) return;
  const at = nearest(all, (p) => Math.abs(p[0] - x)), found = [];
  for (const line of lines) {
    const point = nearest(line.points, (p) => Math.abs(p[0] - at[0]));
    if (Math.abs(point[0] - at[0]) < 8) found.push({ ...line, point });
  }
  const closest = nearest(found, (f) => Math.abs(f.point[1] - y));
  const shown = found.filter((f) => !f.still || f === closest).sort((a, b) => a.point[1] - b.point[1]);
  const cursor = plot.querySelector(".cursor");
  for (const end of ["x1", "x2"]) cursor.setAttribute(end, at[0]);
  cursor.setAttribute("visibility", "visible");
  const unit = plot.querySelector(".axis").textContent;
  const lead = [[unit + ": " + at[2], false]];
  show([...lead, ...shown.map((f) => [f.name + ": " + f.point[3], f === closest])], ...client(plot, at[0], y));
};
const single = (plot, x, y) => {
  const all = series(plot).flatMap((line) => line.points.map((point) => ({ line, point })));
  if (!all.length) return;
  const found = nearest(all, ({ point }) => Math.hypot(point[0] - x, point[1] - y));
  show([[found.line.name, true], [found.point[3], false]], ...client(plot, found.point[0], found.point[1]));
};
const look = (plot, x, y) => plot.dataset.mode === "column" ? column(plot, x, y) : single(plot, x, y);
for (const plot of document.querySelectorAll(".plot")) {
  const follow = (event) => {
    if (plot.dataset.mode === "tips") return;
    const box = plot.getBoundingClientRect(), scale = plot.viewBox.baseVal.width / box.width;
    look(plot, (event.clientX - box.left) * scale, (event.clientY - box.top) * scale);
  };
  plot.addEventListener("pointermove", follow);
  plot.addEventListener("pointerdown", follow);
  plot.addEventListener("pointerleave", () => hide(plot));
  plot.addEventListener("blur", () => hide(plot));
  let place = -1;
  plot.addEventListener("keydown", (event) => {
    const way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "Escape") hide(plot);
    if (!way) return;
    event.preventDefault();
    const tips = [...plot.querySelectorAll("[data-text]")];
    const points = series(plot).flatMap((line) => line.points);
    const unique = plot.dataset.mode === "column" ? [...new Map(points.map((p) => [p[0], p])).values()] : points;
    const stops = tips.length ? tips : unique.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    if (!stops.length) return;
    place = (place + way + stops.length) % stops.length;
    if (tips.length) {
      const box = stops[place].getBoundingClientRect();
      show([[stops[place].dataset.text, false]], box.left + box.width / 2, box.top);
    } else look(plot, stops[place][0], stops[place][1]);
  });
}
document.addEventListener("pointerover", (event) => {
  const tip = event.target.closest?.(".tip");
  if (tip) show([[tip.dataset.text, false]], event.clientX, event.clientY);
  else if (!event.target.closest?.(".plot")) hide();
});
for (const key of document.querySelectorAll("button.key")) key.addEventListener("click", () => {
  const on = key.getAttribute("aria-pressed") !== "true";
  key.setAttribute("aria-pressed", on);
  for (const part of key.closest("figure").querySelectorAll(".panels [data-group]"))
    if (part.dataset.group === key.dataset.group) part.classList.toggle("off", !on);
});
for (const choice of document.querySelectorAll(".choice select")) choice.addEventListener("change", () => {
  for (const panels of choice.closest("figure").querySelectorAll(".panels"))
    panels.hidden = panels.dataset.choice !== choice.value;
});
"""
