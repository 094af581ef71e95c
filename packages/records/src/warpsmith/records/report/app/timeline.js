// When one step generated, evaluated, waited, trained and synced; and what the run recorded about its devices.

const PHASES = { __proto__: null, generate: "#3b7dd8", wait: "#7a8a99", evaluate: "#d9822b", "wait for batch": "#b5962b", train: "#2a9d5c", sync: "#a45bd0" };

function timelineView(run) {
  const { params } = route(), steps = [...new Set([...run.steps.list("step"), ...run.trajectories.map((t) => t.step).filter(known)])].sort((one, other) => one - other);
  if (!steps.length) return h("div", { class: "main" }, h("h1", null, "Timeline"), h("p", null, "No training steps are recorded yet."));
  const step = params.has("step") ? Number(params.get("step")) : steps[steps.length - 1];
  const to = (value) => go("timeline", { ...Object.fromEntries(params), step: value });
  const at = steps.indexOf(step), spans = spansOf(run, step);
  const view = h("div", { class: "main wide" }, h("h1", null, `Timeline of step ${step}`), h("div", { class: "bar" },
    h("button", { disabled: at <= 0, on: { click: () => to(steps[at - 1]) } }, "Previous"), h("button", { disabled: at >= steps.length - 1, on: { click: () => to(steps[at + 1]) } }, "Next"),
    picker("Step", steps.map((value) => [String(value), String(value)]), String(step), to), h("span", { class: "soft" }, summaryOf(spans))),
    spans.length ? timelineChart(run, spans) : h("p", null, "Nothing of this step took time."), deviceCharts(run));
  view.keys = { j: () => at < steps.length - 1 && to(steps[at + 1]), k: () => at > 0 && to(steps[at - 1]) };
  return view;
}

// {phase, begin, end (seconds since 1970), lane, name, key}; lanes are as many as turns at once.
function spansOf(run, step) {
  const found = [], { turns, steps } = run, get = (name, row) => turns.get(name, row) || 0;
  for (const t of run.trajectories) {
    if (t.step !== step) continue;
    for (const row of t.rows) {
      let begin = turns.get("started", row);
      for (const [phase, column] of [["generate", "generate_s"], ["wait", "wait_s"], ["evaluate", "evaluate_s"]]) {
        const length = get(column, row);
        if (length) found.push({ phase, begin, end: begin + length, name: `${t.problem}, sample ${t.sample}, turn ${turns.get("turn", row) + 1}`, key: t.key, turn: row });
        begin += length;
      }
    }
  }
  laned(found);
  const row = run.steps.list("step").indexOf(step);
  let begin = row < 0 ? 0 : steps.get("started", row);
  for (const [phase, column] of [["wait for batch", "collect_s"], ["train", "train_s"], ["sync", "sync_s"]]) {
    const length = row < 0 ? 0 : steps.get(column, row) || 0;
    if (length) found.push({ phase, begin, end: begin + length, lane: "trainer", name: `step ${step}` });
    begin += length;
  }
  return found;
}

function laned(spans) {
  const turns = new Map();
  for (const span of spans) {
    const own = turns.get(span.turn);
    if (own) own.end = Math.max(own.end, span.end);
    else turns.set(span.turn, { begin: span.begin, end: span.end });
  }
  const free = [];
  for (const turn of [...turns.values()].sort((one, other) => one.begin - other.begin)) {
    let lane = free.findIndex((moment) => moment <= turn.begin + 1e-6);
    if (lane < 0) lane = free.length;
    free[lane] = turn.end;
    turn.lane = lane + 1;
  }
  for (const span of spans) span.lane = turns.get(span.turn).lane;
}

function summaryOf(spans) {
  const sum = (phase) => spans.filter((span) => span.phase === phase).reduce((total, span) => total + span.end - span.begin, 0);
  return Object.keys(PHASES).filter((phase) => sum(phase)).map((phase) => `${phase} ${seconds(sum(phase))}`).join(" · ");
}

function timelineChart(run, spans) {
  const origin = Math.min(...spans.map((span) => span.begin)), lanes = new Set(spans.map((span) => span.lane)).size;
  const marked = Array.from({ length: Math.ceil(lanes / 10) }, (_, n) => 10 * n);
  const traces = () => Object.entries(PHASES).map(([phase, colour]) => {
    const own = spans.filter((span) => span.phase === phase);
    return { type: "bar", orientation: "h", name: phase, base: own.map((span) => span.begin - origin), x: own.map((span) => span.end - span.begin), y: own.map((span) => (span.lane === "trainer" ? 0 : span.lane)),
      marker: { color: colour }, customdata: own.map((span) => span.key || ""), text: own.map((span) => `${label(span.name)}: ${seconds(span.end - span.begin)}`), textposition: "none", hovertemplate: "%{text}<extra>" + phase + "</extra>" };
  }).filter((trace) => trace.x.length);
  return chart("Each lane is one turn at a time. A click opens the trajectory.", traces, { wide: true, height: Math.min(900, 150 + 14 * lanes), hover: "closest", bars: "overlay", x: "seconds",
    yaxis: { autorange: "reversed", title: { text: "" }, tickvals: marked, ticktext: marked.map((lane) => (lane ? String(lane) : "trainer")) }, click: (point) => point.customdata && go("trajectory", { key: point.customdata, run: app.run || null }) });
}

const DEVICE_METRICS = /gpu|lease|^evaluator\/|^machine\/|utili[sz]ation|memory|power|device/i;

function deviceCharts(run) {
  const found = metricsOf(run).filter((metric) => DEVICE_METRICS.test(metric.name));
  return section("devices", "Use of GPUs, evaluator and processors", found.length ? h("div", { class: "charts" }, found.map((metric) => metricChart(metric.name, [{ ...metric, name: run.name }])))
    : h("p", { class: "soft" }, "This run recorded no metric of their use."));
}
