// The first screen: the result, four figures, then curves, verdicts, tables and what to read.

function overviewView(run) {
  const about = run.overview;
  const parts = [
    section("curves", "Course of the training", h("div", { class: "charts" }, about.trends.map((trend) =>
      chart(trend.title, () => curves(trend.curves, trend), { rate: trend.rate, legend: trend.curves.length > 1 })), mainMetrics(run))),
    section("turns", "What more turns bring", endsOf(about.parts).filter((part) => part.multi_turn).map((part) => h("p", null, h("b", null, part.label), ": ", part.multi_turn)), withMiddle(about.parts, progressTable)),
    section("verdicts", "Verdicts by step", verdictCharts(run)),
    section("parts", "Figures by part", partsTable(about.parts), withMiddle(about.parts, byTurnTable)),
    about.by ? section("by", "Figures by " + about.by, partsTable(about.parts_by), byTurnTable(about.parts_by), progressTable(about.parts_by)) : null,
    about.held_out.length ? section("held-out", "Held-out figures before and after training", heldOutTable(about.held_out)) : null,
    section("readings", "Trajectories to read", h("div", { class: "readings" }, readings(run))),
    section("configuration", "Configuration", about.config.length ? h("details", null, h("summary", null, `${about.config.length} keys`), table(["key", "value"], about.config)) : h("p", { class: "soft" }, "config.json was not found in the run's directory.")),
  ].filter(Boolean);
  return h("div", { class: "with-contents" }, contents(parts), h("div", { class: "main" }, first(run), parts));
}

function first(run) {
  const about = run.overview;
  const notes = [...about.damage.map((text) => "Left out as damaged: " + text), ...about.torn.map((text) => "Not recorded, left by a kill or being written: " + text)];
  return h("section", { id: "result", class: "part first" },
    h("h1", null, about.name), h("p", { class: "headline " + about.headline.tone }, about.headline.text),
    h("div", { class: "figures" }, about.figures.map((figure) => h("div", { class: "figure" }, h("span", null, figure.label), h("b", null, figure.value), h("small", null, figure.note)))),
    h("dl", { class: "facts" }, about.facts.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value)))),
    h("p", { class: "soft" }, `${number(about.turns)} turns in ${number(about.trajectories)} trajectories. ${textsSentence(about)} Made by warpsmith-records ${about.records_version}, ${about.made_at}.`),
    notes.map((text) => h("p", { class: "note" }, text)));
}

// A report has room for some texts only, and says so.
function textsSentence(about) {
  if (about.texts === undefined) return "";
  if (about.texts >= about.trajectories) return "This file has the texts of all of them.";
  return `This file has the figures of all of them and the texts of ${number(about.texts)}; the texts of ${number(about.trajectories - about.texts)} are left out: the chosen ones below come first, then a random sample until the file is full.`;
}

function contents(parts) {
  const link = (part) => h("a", { href: "#", "data-anchor": part.id, on: { click: (event) => { event.preventDefault(); part.scrollIntoView({ behavior: "smooth" }); } } }, part.querySelector("h2").textContent);
  return h("nav", { class: "contents", "aria-label": "Contents" }, parts.map(link));
}

const MAIN_METRICS = ["loss", "aggregated_return_mean", "turn_return_mean", "entropy", "grad_norm", "kl", "sampler_kl", "staleness_mean"];

function mainMetrics(run) {
  return MAIN_METRICS.map((name) => metricOf(run, name)).filter((metric) => metric && !metric.flat).map((metric) =>
    metricChart(metric.name, [{ ...metric, name: run.name }]));
}

const shareOf = (counts, total) => (total ? counts / total : 0);

// Stacked bars: outcomes, and error categories of turns that are not correct, by step and evaluation.
function verdictCharts(run) {
  const columns = columnsOf(run.trajectories);
  if (!columns.length) return h("p", null, "No turns are recorded yet.");
  const by = (name) => new Map(columns.map((column) => [column.name, new Map([[name, 0]])]));
  const outcomes = by("solved"), categories = by("");
  const count = (counts, key) => counts.set(key, (counts.get(key) || 0) + 1);
  const correct = run.turns.reader("correct"), category = run.turns.reader("error_category");
  for (const t of run.trajectories) {
    const [ended, failed] = [outcomes.get(t.column), categories.get(t.column)];
    for (const row of t.rows) {
      if (correct(row)) { count(ended, "correct"); continue; }
      const status = statusOf(run.turns, row);
      count(ended, status);
      count(failed, category(row) || status);
    }
  }
  const draw = (title, counts) => chart(title, () => stacked(columns, counts), { x: "", rate: true, wide: true, height: 260, hover: "closest", xaxis: { type: "category", nticks: 12 },
    click: (point) => go("trajectories", { column: columns[point.pointNumber].name }) });
  return h("div", { class: "charts" }, draw("Status of turns", outcomes), draw("Error categories of turns that are not correct", categories));
}

const GOOD_COLOURS = { __proto__: null, correct: "#2a9d5c", solved: "#2a9d5c" };
const STACK = ["#d4483f", "#d9822b", "#b5962b", "#a45bd0", "#3b7dd8", "#1a9aa8", "#7a8a99", "#c2577e", "#5b6abf", "#8f6a4a", "#6b8e23", "#e08fb0", "#3f8f7f", "#c9a27a", "#4a5a6a", "#9fb3d9"];

// Beyond so many steps a category is one stepped area, since thousands of bars take long to draw.
const MOST_BARS = 60;

function stacked(columns, counts) {
  const totals = new Map();
  for (const at of counts.values()) for (const [name, n] of at) if (n) totals.set(name, (totals.get(name) || 0) + n);
  // What is correct is the base of each bar, so that its course can be read off.
  const base = (name) => Number(name in GOOD_COLOURS);
  const names = [...totals].sort(([a, one], [b, other]) => base(b) - base(a) || other - one).map(([name]) => name);
  let next = 0;
  return names.map((name) => {
    const own = columns.map((column) => counts.get(column.name).get(name) || 0);
    const whole = columns.map((column) => [...counts.get(column.name).values()].reduce((sum, n) => sum + n, 0));
    const colour = GOOD_COLOURS[name] || STACK[next++ % STACK.length];
    const shape = columns.length > MOST_BARS ? { type: "scatter", mode: "lines", stackgroup: "all", line: { shape: "hvh", width: 0, color: colour }, fillcolor: colour } : { type: "bar", marker: { color: colour }, textposition: "none" };
    return { ...shape, name: label(name), x: columns.map((column) => label(column.name)), y: own.map((n, at) => shareOf(n, whole[at])),
      text: own.map((n, at) => `${n} of ${whole[at]} turns`), hovertemplate: "%{x}: %{text}<extra>" + label(name) + "</extra>" };
  });
}

// The first and the last part of each role: what a run of many evaluations is judged by.
const endsOf = (parts) => parts.filter((part) => {
  const own = parts.filter((other) => other.role === part.role);
  return part === own[0] || part === own[own.length - 1];
});

// A table of those, and one of the parts in between, folded.
function withMiddle(parts, make) {
  const ends = endsOf(parts), middle = parts.filter((part) => !ends.includes(part)), more = middle.length ? make(middle) : null;
  return [make(ends), more ? h("details", null, h("summary", null, `${middle.length} evaluations in between`), more) : null];
}

function partsTable(parts) {
  if (!parts.length) return h("p", null, "No turns are recorded yet.");
  const headings = ["part", "trajectories", "turns", "invalid", "solved", "solved by turn 1", "last turn correct", "improved", "aggregated return", "mean speedup"];
  return knownColumns(headings, parts.map((part) => [part.label, number(part.trajectories), number(part.turns), number(part.invalid_turns), percent(part.solved), percent(part.solved_by_turn[0]),
    percent(part.final_correct_rate), percent(part.improvement_rate), number(part.aggregated_return_mean), times(part.speedup_mean)]));
}

function byTurnTable(parts) {
  const rows = parts.flatMap((part) => part.by_turn.map((turn) => [part.label, number(turn.turn_number), number(turn.trajectories), number(turn.reward_mean), percent(turn.compiled_rate),
    percent(turn.correct_rate), percent(part.solved_by_turn[turn.turn_number - 1]), times(turn.speedup_mean)]));
  return rows.length ? [h("h3", null, "By turn"), knownColumns(["part", "turn", "trajectories", "mean reward", "compiled", "correct", "solved by", "mean speedup"], rows)] : null;
}

// When trajectories are solved first, and how rewards change to the next turn; only of parts that have several turns.
function progressTable(parts) {
  const gain = ({ trajectories, mean }) => (known(mean) ? `${mean > 0 ? "+" : ""}${number(mean)} (${number(trajectories)})` : DASH);
  const rows = parts.filter((part) => part.progress.length > 1).flatMap((part) => part.progress.map((turn) => [part.label, number(turn.turn_number), percent(turn.first_solved), percent(turn.solved_by),
    gain(turn.improvement), gain(turn.improvement_solved), gain(turn.improvement_unsolved)]));
  const headings = ["part", "turn", "first solved", "solved by", "reward to next turn", "if solved", "if not solved"];
  return rows.length ? [h("h3", null, "Progress by turn"), table(headings, rows, { class: "progress" }),
    h("p", { class: "soft" }, "Mean change of the reward from this turn to the next, of all trajectories that have both (their number is in brackets), and of those with and without a correct turn up to this one.")] : null;
}

const HELD_OUT_FIRST = ["solved_rate", "correct", "correct_rate", "compiled_rate", "reward_mean", "aggregated_return_mean", "best_score_mean", "speedup_mean", "speedup_p50", "completion_length_mean"];

// Other figures, and those that did not change, are folded away.
function heldOutTable(figures) {
  const signed = (value, write) => (known(value) ? (value > 0 ? "+" : "") + write(value) : DASH);
  const row = ({ metric, before, after, difference, interval }) => {
    const rate = unitOf(metric) === "rate", change = (value) => signed(value, (it) => (rate ? (100 * it).toFixed(1) : number(it)));
    return [metric, measured(metric, before), measured(metric, after), change(difference) + (rate && known(difference) ? " points" : ""), interval ? `${change(interval[0])} to ${change(interval[1])}` : DASH];
  };
  const same = figures.filter((figure) => figure.before === figure.after), other = figures.filter((figure) => figure.before !== figure.after);
  // First what the run is judged by; figures by turn are in the tables above.
  const first = other.filter((figure) => figure.interval || HELD_OUT_FIRST.includes(figure.metric)), rest = other.filter((figure) => !first.includes(figure));
  const place = (figure) => HELD_OUT_FIRST.length * !figure.interval + HELD_OUT_FIRST.indexOf(figure.metric);
  first.sort((one, two) => place(one) - place(two));
  const headings = ["figure", "before", "after", "difference", "interval of the difference"];
  const folded = (list, what) => (list.length ? h("details", null, h("summary", null, `${list.length} ${what}`), table(headings, list.map(row))) : null);
  return [other.length ? table(headings, (first.length ? first : rest).map(row)) : h("p", null, "No figure changed."), first.length ? folded(rest, "more figures that changed") : null, folded(same, "figures that did not change")];
}

function readings(run) {
  return (run.overview.readings || []).map(({ part, heading, keys }) => h("div", { class: "reading" }, h("h3", null, `${part}: ${heading}`), h("ul", null, keys.map((key) => {
    const t = run.byKey.get(key);
    return t ? h("li", null, h("a", { href: address("trajectory", { key, run: app.run || null }) }, t.problem), " ", turnMarks(run, t), h("small", { class: "line-below" }, `aggregated return ${number(t.return)} · ${t.column} · ${key}`)) : null;
  }))));
}

function turnMarks(run, t) {
  return h("span", { class: "marks" }, t.rows.map((row) => {
    const status = statusOf(run.turns, row), good = run.turns.get("correct", row);
    return h("span", { class: "dot " + (good ? "yes" : run.turns.get("compiled", row) ? "half" : "no"), title: `turn ${run.turns.get("turn", row) + 1}: ${status}` }, good ? "✓" : "");
  }));
}
