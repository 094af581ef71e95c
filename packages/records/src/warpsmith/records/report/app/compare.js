// Several runs side by side: solved shares with intervals, differences to the first, and curves over one another.

function compareView() {
  const view = h("div", { class: "main wide" }, h("h1", null, "Runs side by side"));
  const result = h("div", null, h("p", { class: "soft" }, "Reading ..."));
  const charts = h("div", { class: "charts" });
  const names = [...new Set(app.runs.flatMap((run) => metricsOf(run).map((metric) => metric.name)))].sort();
  const search = h("input", { type: "search", placeholder: "Search metrics", "aria-label": "Search metrics", on: { input: () => draw() } });
  const draw = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = words.length ? names.filter((name) => words.every((word) => name.toLowerCase().includes(word))) : ["correct_rate", "reward_mean", "aggregated_return_mean", "turn_return_mean", "speedup_mean", "entropy", "loss", "seconds"].filter((name) => names.includes(name));
    replace(charts, shown.map((name) => metricChart(name, app.runs.map((run) => ({ ...metricOf(run, name), name: run.name })).filter((metric) => metric.x && !metric.empty))));
  };
  const load = () => app.source.compare().then((found) => replace(result, comparison(found))).catch((error) => replace(result, h("p", { class: "note" }, error.message)));
  replace(view, h("h1", null, "Runs side by side"), result, h("h2", null, "Curves"), h("div", { class: "bar" }, search), charts);
  draw();
  load();
  view.update = () => { draw(); load(); };
  return view;
}

function comparison({ on, runs }) {
  const bounds = (found) => (found && known(found.low) ? `${percent(found.low)} to ${percent(found.high)}` : DASH);
  const points = (share) => (known(share) ? `${share > 0 ? "+" : ""}${(100 * share).toFixed(1)}` : DASH);
  const verdict = (found) => (!found || !known(found.low) ? DASH : found.low > 0 ? "better" : found.high < 0 ? "worse" : "not distinguishable");
  return [h("p", { class: "soft" }, on), table(["run", "evaluated", "problems", "solved", "95 % interval", "difference to the first, points", "95 % interval", ""], runs.map((run) => {
    const gap = run.difference;
    return [h("a", { href: address("overview", { run: run.id || null }) }, run.name), run.part || DASH, number(run.solved && run.solved.problems), percent(run.solved && run.solved.mean), bounds(run.solved),
      run.id ? points(gap && gap.mean) : DASH, gap && known(gap.low) ? `${points(gap.low)} to ${points(gap.high)}` : DASH, run.id ? verdict(gap) : "the first"];
  }))];
}
