// Every column and metric of `steps`; what is constant over the run is folded away.

const NOT_METRICS = new Set(["run", "step", "weight_version", "started"]);

function metricOf(run, name) {
  const column = run.steps.columns.get(name);
  if (!column || column.kind === "s") return null;
  const x = [], y = [];
  for (let row = 0; row < run.steps.rows; row++) { x.push(run.steps.get("step", row)); y.push(run.steps.get(name, row)); }
  const values = y.filter(known);
  return { name, x, y, flat: values.every((value) => value === values[0]), empty: !values.length, value: values[0] };
}

function metricsOf(run) {
  return [...run.steps.columns.keys()].filter((name) => !NOT_METRICS.has(name)).map((name) => metricOf(run, name)).filter((metric) => metric && !metric.empty);
}

function metricsView(run) {
  const all = metricsOf(run), moving = all.filter((metric) => !metric.flat || run.steps.rows < 2), flat = all.filter((metric) => metric.flat && run.steps.rows > 1);
  const box = h("div", { class: "charts" }), count = h("span", { class: "soft" });
  const search = h("input", { type: "search", placeholder: "Search metrics", "aria-label": "Search metrics", value: route().params.get("q") || "", on: { input: () => show() } });
  const show = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = moving.filter((metric) => words.every((word) => metric.name.toLowerCase().includes(word)));
    count.textContent = `${found.length} of ${moving.length} metrics that vary`;
    replace(box, found.map((metric) => metricChart(metric.name, [{ ...metric, name: run.name }])));
  };
  show();
  return h("div", { class: "main wide" }, h("h1", null, "Metrics"), run.steps.rows ? [h("div", { class: "bar" }, search, count), box] : h("p", null, "No training steps are recorded yet."),
    flat.length ? h("details", { class: "part" }, h("summary", null, `${flat.length} metrics that are constant over the run`), table(["metric", "value"], flat.map((metric) => [metric.name, measured(metric.name, metric.value)]))) : null);
}
