// What the views share about one run: its turns, grouped into trajectories.

class Run {
  constructor(id, name, loaded) {
    Object.assign(this, { id, name }, loaded);
    this.trajectories = grouped(this.turns);
    this.byKey = new Map(this.trajectories.map((trajectory) => [trajectory.key, trajectory]));
  }
}

// One entry per trajectory, in the order of recording; `rows` are its turns in `turns`.
function grouped(turns) {
  const keys = turns.codes("key");
  const rows = new Map();
  for (let row = 0; row < turns.rows; row++) {
    const code = keys.data[row];
    if (rows.has(code)) rows.get(code).push(row);
    else rows.set(code, [row]);
  }
  return [...rows].map(([code, own]) => trajectoryOf(turns, keys.values[code], own));
}

function trajectoryOf(turns, key, rows) {
  const get = (name, row) => turns.get(name, row);
  rows.sort((one, other) => get("turn", one) - get("turn", other));
  const [first, last] = [rows[0], rows[rows.length - 1]];
  const solving = rows.find((row) => get("valid", row) && get("correct", row));
  let speedup = NaN, tokens = 0, flags = "";
  for (const row of rows) {
    const fast = get("speedup", row);
    if (get("correct", row) && known(fast) && !(speedup >= fast)) speedup = fast;
    tokens += get("tokens", row) || 0;
    const more = get("flags", row);
    if (more) flags += " " + more;
  }
  const role = get("role", first), after = get("after_step", first), step = get("rollout_step", first);
  return {
    key, rows, first, last, role, after, step, speedup, tokens, flags: flags.trim(),
    column: columnOf(role, after, step), problem: get("problem", first), level: get("level", first), stage: get("stage", first),
    sample: get("sample", first), turns: rows.length, solvedAt: solving === undefined ? 0 : get("turn", solving) + 1,
    valid: rows.some((row) => get("valid", row)), status: statusOf(turns, last), return: get("turn", first) === 0 ? get("return", first) : null,
    advantage: get("advantage", first), started: get("started", first),
  };
}

// The grid's column: the training step, or an evaluation after some steps.
function columnOf(role, after, step) {
  if (known(step)) return "step " + step;
  return known(after) ? role + " after " + after : role;
}

function statusOf(turns, row) {
  if (!turns.get("valid", row)) return "invalid";
  return turns.get("status", row) || "no verdict";
}

// Columns in the order of training: an evaluation after k steps stands before step k + 1.
function columnsOf(trajectories) {
  const found = new Map();
  for (const { column, role, after, step } of trajectories) {
    if (!found.has(column)) found.set(column, { name: column, role, after, at: known(step) ? step - 0.5 : known(after) ? after : Infinity });
  }
  return [...found.values()].sort((one, other) => one.at - other.at || one.name.localeCompare(other.name));
}

const FILTERS = ["q", "problem", "column", "role", "level", "stage", "status", "turn", "flag", "speedup", "outcome"];

// Whether a trajectory passes the filters of an address; `turn` restricts status and flag to that turn.
function filterOf(run, params) {
  const want = Object.fromEntries(FILTERS.map((name) => [name, params.get(name) || ""]));
  const words = want.q.toLowerCase().split(/\s+/).filter(Boolean).map((word) => wordFilter(run, word));
  const least = want.speedup === "" ? null : Number(want.speedup);
  const turn = want.turn === "" ? null : Number(want.turn) - 1;
  const { turns } = run;
  return (t) => {
    if (want.problem && t.problem !== want.problem) return false;
    if (want.column && t.column !== want.column) return false;
    if (want.role && t.role !== want.role) return false;
    if (want.level && String(t.level) !== want.level) return false;
    if (want.stage && String(t.stage) !== want.stage) return false;
    if (want.outcome && (want.outcome === "solved") !== t.solvedAt > 0) return false;
    if (least !== null && !(t.speedup >= least)) return false;
    if (turn !== null || want.status || want.flag) {
      const fits = (row) => (turn === null || turns.get("turn", row) === turn)
        && (!want.status || statusOf(turns, row) === want.status)
        && (!want.flag || (turns.get("flags", row) || "").split(" ").includes(want.flag));
      if (!t.rows.some(fits)) return false;
    }
    return words.every((fits) => fits(t));
  };
}

const SEARCHED = ["key", "problem", "status", "error_category", "flags"];

// Whether a trajectory has a word somewhere: each distinct text is looked at once, whatever the number of turns.
function wordFilter({ turns }, word) {
  const has = (text) => text.toLowerCase().includes(word);
  const found = new Uint8Array(turns.rows);
  for (const { data, values } of SEARCHED.map((name) => turns.codes(name))) {
    const hits = Uint8Array.from(values, has);
    if (hits.includes(1)) for (let row = 0; row < turns.rows; row++) if (data[row] >= 0 && hits[data[row]]) found[row] = 1;
  }
  const names = new Map();
  const inColumn = (name) => { if (!names.has(name)) names.set(name, has(name)); return names.get(name); };
  return (t) => inColumn(t.column) || t.rows.some((row) => found[row]);
}

const SORTS = { __proto__: null,
  order: (t) => t.rows[0], problem: (t) => t.problem, column: (t) => (known(t.after) ? t.after : -1), turns: (t) => t.turns,
  solved: (t) => t.solvedAt || 99, speedup: (t) => t.speedup, return: (t) => t.return, advantage: (t) => t.advantage,
  tokens: (t) => t.tokens, status: (t) => t.status, level: (t) => t.level, stage: (t) => t.stage,
};

// Trajectories that fit an address, in its order; missing values last.
function chosen(run, params) {
  const found = run.trajectories.filter(filterOf(run, params));
  if (!params.get("sort")) return found;
  const name = params.get("sort").replace(/^-/, "");
  const down = params.get("sort").startsWith("-") ? -1 : 1;
  const value = SORTS[name] || SORTS.order;
  const ordered = found.map((t) => [value(t), t]);
  ordered.sort(([one], [other]) => {
    if (!known(one) || !known(other)) return known(one) ? -1 : known(other) ? 1 : 0;
    return down * (one < other ? -1 : one > other ? 1 : 0);
  });
  return ordered.map(([, t]) => t);
}
