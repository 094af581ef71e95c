// Charts by plotly, drawn when they come into view, and again when the colours change.

const app = { source: null, runs: [], run: 0, plotly: null };

function plotlyReady() {
  app.plotly ||= app.source.plotlyScript().then(() => warmedUp(window.Plotly));
  return app.plotly;
}

// The first drawing of each kind takes several times as long as the next, so it belongs to the loading.
async function warmedUp(plotly) {
  const box = h("div", { class: "warm-up", "aria-hidden": "true" });
  document.body.append(box);
  await plotly.newPlot(box, [{ type: "scatter", y: [0, 1] }, { type: "bar", y: [1] }], layout({}));
  plotly.purge(box);
  box.remove();
  return plotly;
}

// Without a pointer that hovers, plotly's buttons would always cover a corner of the plot.
const HOVERS = matchMedia("(hover: hover)").matches;

// plotly interprets tags in labels.
const label = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

function layout(options) {
  const axis = { gridcolor: css("--line"), zerolinecolor: css("--line"), linecolor: css("--line"), automargin: true, fixedrange: false, exponentformat: "e" };
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: css("--soft"), size: 11, family: "system-ui, sans-serif" },
    margin: { l: 44, r: 10, t: 8, b: 34 }, height: options.height || 210, showlegend: options.legend ?? true, hovermode: options.hover || "x unified",
    hoverlabel: { bgcolor: css("--card"), bordercolor: css("--line"), font: { color: css("--ink") } },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: css("--soft"), activecolor: css("--ink") },
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: 11 }, maxheight: 1 }, barmode: options.bars || "stack", dragmode: "zoom",
    xaxis: { ...axis, title: { text: options.x ?? "step", standoff: 4 }, ...options.xaxis },
    yaxis: { ...axis, tickformat: options.rate ? ".0%" : undefined, rangemode: options.rate ? "tozero" : "normal", ...options.yaxis },
  };
}

// Steps are whole: over few of them plotly would also mark halves.
function wholeSteps(traces, options) {
  const steps = new Set(traces.flatMap((trace) => Array.from(trace.x || [])));
  return options.x === undefined && steps.size > 1 && steps.size <= 11 && Math.max(...steps) - Math.min(...steps) <= 10 ? { dtick: 1 } : {};
}

// Pixels that a legend needs beyond two rows, so that it does not cover the plot in a narrow window.
function legendBeyond(traces, width) {
  const rows = Math.ceil(traces.filter((trace) => trace.showlegend !== false).length / Math.max(1, Math.floor(width / 150)));
  return 19 * Math.max(0, rows - 2);
}

const watcher = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) if (isIntersecting) { watcher.unobserve(target); drawSoon(target); }
}, { rootMargin: "300px" });

// One chart a task, so that keys and clicks are answered between two of them.
const waiting = [];

function drawSoon(box) {
  waiting.push(box);
  if (waiting.length === 1) setTimeout(drawNext);
}

async function drawNext() {
  const [box] = waiting;
  try { if (box.isConnected) await box.draw(); } finally {
    waiting.shift();
    if (waiting.length) setTimeout(drawNext);
  }
}

// A figure with a title; `traces` are functions of the colours, so that they can be made again.
function chart(title, traces, options = {}) {
  const box = h("div", { class: "plot", style: { height: (options.height || 210) + "px" } });
  box.draw = async () => {
    const plotly = await plotlyReady();
    if (!box.isConnected) return;
    box.drawn = true;
    const drawn = traces(), height = (options.height || 210) + legendBeyond(drawn, box.clientWidth);
    box.style.height = height + "px";
    const whole = { ...options, xaxis: { ...wholeSteps(drawn, options), ...options.xaxis } };
    await plotly.newPlot(box, drawn, { ...layout(whole), height }, { displaylogo: false, responsive: true, displayModeBar: HOVERS ? "hover" : false, modeBarButtons: [["toImage", "resetScale2d"]] });
    if (options.click) box.on("plotly_click", (event) => options.click(event.points[0]));
  };
  watcher.observe(box);
  return h("figure", { class: "chart" + (options.wide ? " wide" : "") }, h("figcaption", null, title, options.last && h("b", null, options.last)), box);
}

function redrawCharts() {
  for (const box of document.querySelectorAll(".plot")) if (box.drawn) drawSoon(box);
}

// Curves as Python sends them: {name, x, y, low, high}.
function curves(list, { rate } = {}) {
  const shown = rate ? percent : number;
  const known = (values) => values && values.length && values.every((value) => value !== null);
  return list.flatMap((curve, n) => {
    const line = lineTraces(curve, n, shown);
    if (!known(curve.low) || !known(curve.high)) return line;
    const band = { x: [...curve.x, ...[...curve.x].reverse()], y: [...curve.high, ...[...curve.low].reverse()], fill: "toself", type: "scatter", mode: "lines",
      fillcolor: SERIES[n % SERIES.length] + "2e", line: { width: 0 }, hoverinfo: "skip", showlegend: false };
    return [band, ...line];
  });
}

// A metric's unit, by its name: shares are shown in percent, times in seconds.
function unitOf(name) {
  if (/learning_rate/.test(name)) return "";
  if (/(_rate|_share|_fraction|_fraction_high|\/utilization|_utilization)$/.test(name)) return "rate";
  if (/_tokens_per_s$/.test(name)) return "tokens/s";
  if (name === "seconds" || /(^|_)s(_mean|_p\d+)?$/.test(name)) return "s";
  return /(^|\/)tokens$|completion_length/.test(name) ? "tokens" : "";
}

// A value of a metric in its unit.
function measured(name, value) {
  const unit = unitOf(name);
  if (!known(value)) return DASH;
  return unit === "rate" ? percent(value) : unit ? `${number(value)} ${unit}` : number(value);
}

// The chart of one metric: of one run without a legend and with the last value, of several with one.
function metricChart(name, list) {
  const one = list.length === 1, unit = unitOf(name);
  // Other names end in their unit.
  const title = unit === "tokens" && !name.endsWith("tokens") ? `${name}, tokens` : name;
  return chart(title, () => metricTraces(list, (value) => measured(name, value)), { legend: !one, rate: unit === "rate", last: one ? measured(name, list[0].y.findLast(known)) : undefined });
}

// One metric of one or more runs; from 24 points on with a trailing mean. `shown` writes a value.
function metricTraces(list, shown) {
  return list.flatMap((one, n) => lineTraces(one, n, shown));
}

function lineTraces({ name, x, y }, n, shown) {
  const colour = SERIES[n % SERIES.length];
  const long = x.length >= 24;
  const base = { x, type: "scatter", name: label(name), legendgroup: String(n) };
  const raw = { ...base, y, mode: long ? "lines" : "lines+markers", opacity: long ? 0.35 : 1, line: { color: colour, width: long ? 1 : 2 },
    marker: { size: 5 }, text: y.map(shown), hovertemplate: "%{text}<extra>" + label(name) + "</extra>" };
  if (!long) return [raw];
  return [{ ...raw, showlegend: false }, { ...base, y: trailingMean(y, Math.floor(x.length / 8)), mode: "lines", line: { color: colour, width: 2 }, hoverinfo: "skip" }];
}

function trailingMean(values, width) {
  const held = [];
  return values.map((value) => {
    if (known(value)) held.push(value);
    if (held.length > width) held.shift();
    return held.length ? held.reduce((sum, one) => sum + one, 0) / held.length : null;
  });
}
