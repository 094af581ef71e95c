// All trajectories: search, filters, sort. The address holds them, so a view can be shared.

// Columns of the list; without those of which nothing is known in this run.
const LIST_COLUMNS = (run) => ALL_COLUMNS(run).filter(({ of }) => !of || run.trajectories.some((t) => known(t[of])));

const ALL_COLUMNS = (run) => [
  { name: "problem", title: "problem", width: "minmax(150px, 2.2fr)", cell: (t) => t.problem },
  { name: "turns", title: "turns", width: "minmax(72px, .6fr)", cell: (t) => turnMarks(run, t) },
  { name: "column", title: "step", width: "minmax(150px, 1fr)", cell: (t) => t.column },
  { name: "level", of: "level", title: "level", width: "70px", cell: (t) => number(t.level) },
  { name: "stage", of: "stage", title: "stage", width: "70px", cell: (t) => number(t.stage) },
  { name: "solved", title: "solved at", width: "96px", cell: (t) => (t.solvedAt ? "turn " + t.solvedAt : DASH) },
  { name: "speedup", of: "speedup", title: "speedup", width: "94px", cell: (t) => times(t.speedup) },
  { name: "return", title: "aggregated return", width: "172px", cell: (t) => number(t.return) },
  { name: "advantage", of: "advantage", title: "advantage", width: "110px", cell: (t) => number(t.advantage) },
  { name: "tokens", title: "tokens", width: "84px", cell: (t) => number(t.tokens) },
  { name: "status", title: "last status", width: "minmax(110px, 1fr)", cell: (t) => h("span", { class: "status" }, t.status) },
];

function trajectoriesView(run) {
  const { params } = route();
  const set = (changes) => {
    const all = { ...Object.fromEntries(params), ...changes };
    go("trajectories", all);
  };
  const sort = (name) => set({ sort: params.get("sort") === name ? "-" + name : name });
  const open = (t) => go("trajectory", { ...Object.fromEntries(params), key: t.key });
  const list = new VirtualList(LIST_COLUMNS(run), { open, sort, sorted: params.get("sort") || "" });
  const count = h("span", { class: "soft", id: "count", "aria-live": "polite" });
  let typed = 0;
  const show = () => {
    const found = chosen(run, params);
    count.textContent = `${number(found.length)} of ${number(run.trajectories.length)} trajectories`;
    list.show(found);
  };
  const search = h("input", { type: "search", id: "search", placeholder: "Search problem, key, status, error, flag", "aria-label": "Search", value: params.get("q") || "", on: { input: (event) => {
    // The address follows the typing without a new entry of the history.
    event.target.value ? params.set("q", event.target.value) : params.delete("q");
    history.replaceState(null, "", address("trajectories", Object.fromEntries(params)));
    // Fast typing is searched once.
    clearTimeout(typed);
    typed = setTimeout(show, 40);
  } } });
  const view = h("div", { class: "main wide fill" }, h("h1", null, "Trajectories"), h("div", { class: "bar" }, search, filterControls(run, params, set), count,
    [...params.keys()].some((name) => FILTERS.includes(name)) ? h("button", { on: { click: () => go("trajectories", { run: params.get("run") }) } }, "Clear filters") : null), list.element);
  show();
  view.update = (fresh) => { run = fresh; list.setColumns(LIST_COLUMNS(run)); show(); };
  view.list = list;
  return view;
}

// Filters whose values are bare numbers.
const NUMBERED = ["turn", "level", "stage"];

function filterControls(run, params, set) {
  const values = (name) => [...new Set(run.turns.codes(name).values)].sort();
  const statuses = new Set(), flags = new Set(), levels = new Set(), stages = new Set();
  let turns = 0;
  for (let row = 0; row < run.turns.rows; row++) {
    statuses.add(statusOf(run.turns, row));
    if (known(run.turns.get("level", row))) levels.add(run.turns.get("level", row));
    if (known(run.turns.get("stage", row))) stages.add(run.turns.get("stage", row));
    turns = Math.max(turns, run.turns.get("turn", row) + 1);
  }
  for (const joined of run.turns.codes("flags").values) for (const flag of joined.split(" ")) if (flag) flags.add(flag);
  const select = (name, title, options) => (options.length > 1 || params.get(name) ? h("select", { "aria-label": title, name, on: { change: (event) => set({ [name]: event.target.value }) } },
    h("option", { value: "" }, `any ${title}`), options.map((value) => h("option", { value, selected: params.get(name) === String(value) }, NUMBERED.includes(name) ? `${name} ${value}` : value))) : null);
  return [
    select("problem", "problem", values("problem")), select("column", "step", columnsOf(run.trajectories).map((column) => column.name)), select("role", "role", values("role")),
    select("level", "level", [...levels].sort((one, other) => one - other)), select("stage", "stage", [...stages].sort((one, other) => one - other)), select("outcome", "outcome", ["solved", "not solved"]), select("status", "status", [...statuses].sort()),
    select("turn", "turn", Array.from({ length: turns }, (_, n) => n + 1)), select("flag", "flag", [...flags].sort()),
    !run.trajectories.some((t) => known(t.speedup)) && !params.get("speedup") ? null : h("input", { type: "number", step: "0.1", min: "0", class: "short", placeholder: "speedup ≥", "aria-label": "least speedup", name: "speedup", value: params.get("speedup") || "", on: { change: (event) => set({ speedup: event.target.value }) } }),
  ];
}
