// One trajectory: its turns side by side, with kernel, diff, tokens, prompt and verdict.

const MODES = { __proto__: null, kernel: "Kernel", diff: "Diff", completion: "Completion", tokens: "Tokens", prompt: "Prompt", verdict: "Verdict" };

function readerView(run) {
  const { params } = route(), key = params.get("key");
  const view = h("div", { class: "main wide reader" });
  let t = run.byKey.get(key);
  if (!t) {
    replace(view, h("h1", null, "No such trajectory"), h("p", null, key || "No key is given."));
    view.update = (fresh) => { if (fresh.byKey.has(key)) show(); };
    return view;
  }
  const mode = params.get("mode") in MODES ? params.get("mode") : "kernel";
  const move = (by) => {
    const order = chosen(run, params), next = order[order.indexOf(t) + by];
    if (next) go("trajectory", { ...Object.fromEntries(params), key: next.key });
  };
  view.keys = { j: () => move(1), k: () => move(-1), ArrowRight: () => move(1), ArrowLeft: () => move(-1), Escape: () => back(params) };
  Object.keys(MODES).forEach((name, n) => { view.keys[n + 1] = () => setMode(name); });
  const setMode = (name) => go("trajectory", { ...Object.fromEntries(params), mode: name });
  const head = h("div"), body = h("div", { class: "turns", "aria-busy": "true" }, h("p", { class: "soft" }, "Reading ..."));
  const showHead = () => replace(head, readerHead(run, t, params, mode, move, setMode));
  // Answers can arrive in another order than the questions; only the last question counts.
  let asked = 0;
  const load = () => {
    const mine = ++asked;
    return app.source.trajectory(run.id, key).then((found) => {
      if (mine !== asked) return;
      body.removeAttribute("aria-busy");
      if (found) inPlace(body, () => replace(body, problemPanel(found), found.turns.map((turn, n) => turnColumn(run, t, found, turn, n, mode))));
      else replace(body, leftOut(run, t));
    }).catch((error) => replace(body, h("p", { class: "note" }, "The trajectory cannot be read: " + error.message)));
  };
  view.update = (fresh) => {
    const before = stateOf(run, t);
    run = fresh;
    t = fresh.byKey.get(key) || t;
    showHead();
    if (stateOf(run, t) !== before) load();
  };
  replace(view, head, body);
  showHead();
  load();
  return view;
}

const SHOWN_STATE = ["turn", "status", "valid", "reward", "return", "advantage", "tokens"];

// What of a trajectory can change while its run writes: another state means that its texts are to be read again.
function stateOf(run, t) {
  return JSON.stringify(t.rows.map((row) => SHOWN_STATE.map((name) => run.turns.get(name, row))));
}

// Fills an element again; what was open and scrolled in it stays so, since new turns come at the end.
function inPlace(element, fill) {
  const left = element.scrollLeft, top = scrollY, open = [...element.querySelectorAll("details")].map((one) => one.open);
  const scrolled = [...element.querySelectorAll("pre")].map((one) => [one.scrollLeft, one.scrollTop]);
  fill();
  element.querySelectorAll("details").forEach((one, n) => { one.open = open[n] ?? one.open; });
  element.querySelectorAll("pre").forEach((one, n) => { if (scrolled[n]) [one.scrollLeft, one.scrollTop] = scrolled[n]; });
  element.scrollLeft = left;
  scrollTo(0, top);
}

function back(params) {
  const kept = Object.fromEntries(params);
  delete kept.key;
  delete kept.mode;
  go("trajectories", kept);
}

function readerHead(run, t, params, mode, move, setMode) {
  const order = chosen(run, params), place = order.indexOf(t);
  return h("header", { class: "reader-head" },
    h("div", { class: "bar" }, h("button", { on: { click: () => back(params) }, title: "Esc" }, "← All trajectories"),
      h("button", { on: { click: () => move(-1) }, title: "k", disabled: place <= 0 }, "Previous"), h("button", { on: { click: () => move(1) }, title: "j", disabled: place >= order.length - 1 }, "Next"),
      h("span", { class: "soft" }, `${number(place + 1)} of ${number(order.length)}`)),
    h("h1", null, t.problem), h("p", { class: "soft" }, `${t.column} · ${known(t.level) ? `level ${t.level} · ` : ""}${known(t.stage) ? `stage ${t.stage} · ` : ""}sample ${t.sample} · ${t.key} · aggregated return ${number(t.return)}`),
    h("div", { class: "tabs", role: "tablist" }, Object.entries(MODES).map(([name, title], n) => h("button", { role: "tab", "aria-selected": String(name === mode), title: String(n + 1), on: { click: () => setMode(name) } }, title))));
}

// The figures of a trajectory whose texts this file does not have.
function leftOut(run, t) {
  const rows = t.rows.map((row) => [number(run.turns.get("turn", row) + 1), statusOf(run.turns, row), run.turns.get("error_category", row) || DASH, times(run.turns.get("speedup", row)), number(run.turns.get("reward", row)), number(run.turns.get("advantage", row)), number(run.turns.get("tokens", row))]);
  return [h("p", { class: "note" }, app.source.live ? "The server has no texts for this trajectory: its records are damaged." : "The texts of this trajectory are left out of this file. `warpsmith-records serve` shows all of them."),
    table(["turn", "status", "error category", "speedup", "reward", "advantage", "tokens"], rows)];
}

function problemPanel(found) {
  const [prompt] = found.turns;
  const source = found.problem_source, text = source ?? prompt.messages.map((message) => message.content).join("\n\n");
  return h("details", { class: "problem" }, h("summary", null, source === null ? "The problem, as the first prompt gives it" : "The problem's source"), code(text),
    found.solution === null ? h("p", { class: "soft" }, "No known solution is recorded.") : [h("h4", null, "Known solution"), code(found.solution)]);
}

const code = (text) => h("pre", { class: "code", tabindex: "0" }, highlighted(text));

function turnColumn(run, t, found, turn, n, mode) {
  const verdict = turn.verdict, row = t.rows[n];
  const gain = turn.agent === "optimizer" ? [["over start", times(turn.speedup_over_start)]] : [];
  const figures = [["speedup", times(verdict && verdict.speedup)], ...gain, ["reward", number(turn.reward)], ["return", number(turn.return)], ["advantage", number(row === undefined ? null : run.turns.get("advantage", row))],
    ["tokens", number(turn.tokens.ids.length)], ["generated", seconds(turn.generate_s)], ["judged", seconds(turn.evaluate_s)]];
  return h("article", { class: "turn" }, h("h3", null, `Turn ${turn.turn + 1} `, turn.agent ? `${turn.agent} ` : null, h("span", { class: "badge " + (verdict && verdict.correct ? "yes" : verdict && verdict.compiled ? "half" : "no") }, turn.valid ? (verdict ? verdict.status : "no verdict") : "invalid")),
    h("dl", { class: "turn-figures" }, figures.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value)))),
    turn.valid ? null : h("p", { class: "bad" }, "Invalid: " + turn.invalid_reason),
    n > 0 ? feedback(turn) : null,
    verdict && verdict.flags && verdict.flags.length ? h("p", { class: "flags" }, verdict.flags.map((flag) => h("span", { class: "badge" }, flag))) : null,
    verdict && verdict.error_message ? h("details", { class: "error", open: true }, h("summary", null, verdict.error_category || verdict.status), h("pre", { tabindex: "0" }, verdict.error_message)) : null,
    SHOW[mode](turn, found.turns[n - 1]));
}

function feedback(turn) {
  const last = turn.messages[turn.messages.length - 1];
  return last && last.role !== "assistant" ? h("details", { class: "feedback" }, h("summary", null, "Feedback before this turn"), h("pre", { tabindex: "0" }, last.content)) : null;
}

const SHOW = { __proto__: null,
  kernel: (turn) => (turn.kernel === null ? h("p", { class: "soft" }, "No kernel was found in the completion.") : code(turn.kernel)),
  diff: (turn, before) => (before ? diffOf(before.kernel ?? "", turn.kernel ?? "") : SHOW.kernel(turn)),
  completion: (turn) => [h("p", { class: "soft" }, turn.finish_reason || "nothing generated"), h("pre", { tabindex: "0" }, turn.completion)],
  prompt: (turn) => turn.messages.map((message) => [h("h4", null, message.role), h("pre", { tabindex: "0" }, message.content)]),
  tokens: (turn) => tokensOf(turn),
  verdict: (turn) => (turn.verdict ? table(["field", "value"], Object.entries(turn.verdict).filter(([, value]) => value !== null && value !== "").map(([name, value]) => [name, spoken(value)])) : h("p", { class: "soft" }, "Nothing was evaluated.")),
};

function spoken(value) {
  if (Array.isArray(value)) return value.map((entry) => (entry !== null && typeof entry === "object" ? `${entry.name} ${number(entry.value)}` : String(entry))).join(", ") || DASH;
  if (typeof value === "object") return Object.entries(value).map(([name, entry]) => `${name} ${number(entry)}`).join(", ");
  return typeof value === "number" ? number(value) : String(value);
}

function diffOf(before, after) {
  if (before === after) return h("p", { class: "soft" }, "The kernel is that of the turn before.");
  const lines = lineDiff(before, after);
  const count = (sign) => lines.filter(([own]) => own === sign).length;
  const kinds = { "+": "added", "-": "removed", " ": "same" };
  return [h("p", { class: "soft" }, `${count("+")} ${count("+") === 1 ? "line" : "lines"} added, ${count("-")} removed`), h("pre", { class: "code diff", tabindex: "0" }, folded(lines).map(([sign, line]) =>
    h("span", { class: "line " + (kinds[sign] || "fold") }, sign === "…" ? line : [sign + " ", highlighted(line)])))];
}

const CONTEXT = 4;

// Long stretches of equal lines become one line that says how many there are.
function folded(lines) {
  const near = lines.map(() => false);
  lines.forEach(([sign], at) => { if (sign !== " ") for (let n = Math.max(0, at - CONTEXT); n <= Math.min(lines.length - 1, at + CONTEXT); n++) near[n] = true; });
  const found = [];
  for (let at = 0; at < lines.length; at++) {
    let end = at;
    while (end < lines.length && !near[end]) end++;
    if (end - at > 2) { found.push(["…", `… ${end - at} equal lines`]); at = end - 1; } else found.push(lines[at]);
  }
  return found;
}

// Each token with the probability with which it was sampled: the less likely, the stronger its colour.
function tokensOf({ completion, tokens }) {
  const { ids, logprobs, ends } = tokens;
  if (!ids.length) return h("p", { class: "soft" }, "No tokens were sampled.");
  const finite = logprobs.filter(known), mean = finite.reduce((sum, value) => sum + value, 0) / finite.length;
  const facts = h("p", { class: "soft" }, `${number(ids.length)} tokens after a prompt of ${number(tokens.prompt)}, mean log-probability ${number(mean)}, weight version${tokens.versions.length > 1 ? "s" : ""} ${tokens.versions.join(", ")}.`,
    ends ? "" : " No tokenizer of the run fits these tokens, so ids stand for texts.");
  const piece = (n) => (ends ? completion.slice(n ? ends[n - 1] : 0, ends[n]) : `${ids[n]} `);
  const colour = (n) => `color-mix(in oklab, var(--unlikely) ${Math.round(Math.min(1, known(logprobs[n]) ? -logprobs[n] / 4 : 1) * 80)}%, transparent)`;
  return [facts, h("pre", { class: "tokens", tabindex: "0" }, ids.map((id, n) => h("span", { style: { background: colour(n) }, title: `${id}: log-probability ${number(logprobs[n])}, probability ${percent(known(logprobs[n]) ? Math.exp(logprobs[n]) : 0)}` }, piece(n))))];
}
