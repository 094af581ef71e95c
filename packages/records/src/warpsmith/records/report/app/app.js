// Navigation, keys, colours, and following a live run.

const VIEWS = { __proto__: null, overview: "Overview", grid: "Grid", trajectories: "Trajectories", timeline: "Timeline", metrics: "Metrics", compare: "Compare" };
const MAKE = { __proto__: null, overview: overviewView, grid: gridView, trajectories: trajectoriesView, trajectory: readerView, timeline: timelineView, metrics: metricsView, compare: compareView };
const page = { shown: null, main: h("main", { id: "main" }), nav: h("nav", { class: "top", "aria-label": "Views" }), live: h("span", { class: "live" }) };

async function start() {
  setTheme(remembered("theme"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => remembered("theme") || showTheme());
  app.source = document.getElementById("data-manifest") ? new EmbeddedSource() : new HttpSource();
  try {
    const found = await app.source.runs();
    app.runs = await Promise.all(found.map(async ({ id, name }) => new Run(id, name, await app.source.load(id))));
  } catch (error) {
    replace(document.getElementById("app"), h("p", { class: "note" }, "The data cannot be read: " + error.message));
    throw error;
  }
  replace(document.getElementById("app"), page.nav, page.main);
  addEventListener("hashchange", show);
  addEventListener("keydown", keys);
  if (app.source.live) app.source.watch(refresh, (lost) => { page.live.textContent = lost ? "no connection" : "live"; page.live.classList.toggle("lost", lost); });
  show();
  document.documentElement.dataset.ready = "true";
  // Before the first chart is asked for, since its script takes long to compile.
  setTimeout(plotlyReady, 200);
}

function show() {
  const { view, params } = route();
  app.run = Math.min(Number(params.get("run") || 0), app.runs.length - 1) || 0;
  const run = app.runs[app.run], make = MAKE[view] || MAKE.overview;
  document.title = `${run.name} · ${VIEWS[view] || "Trajectory"} · Warpsmith`;
  replace(page.nav, navigation(view, run));
  page.shown = make(run);
  replace(page.main, page.shown);
  page.main.dataset.view = view;
  if (view !== "trajectory") scrollTo(0, 0);
}

function navigation(view, run) {
  const kept = { run: app.run || null };
  const names = Object.keys(VIEWS).filter((name) => name !== "compare" || app.runs.length > 1);
  const links = names.map((name) => h("a", { href: address(name, kept), "aria-current": name === view || (view === "trajectory" && name === "trajectories") ? "page" : null }, VIEWS[name]));
  const runs = app.runs.length > 1 ? h("select", { "aria-label": "Run", on: { change: (event) => go(view === "trajectory" ? "trajectories" : view, { run: event.target.value }) } }, app.runs.map(({ id, name }) => h("option", { value: id, selected: id === run.id }, name))) : h("b", { class: "name" }, run.name);
  return [runs, h("div", { class: "links" }, links), h("span", { class: "right" }, app.source.live ? page.live : null, h("button", { title: "Keys (?)", "aria-label": "Keys", on: { click: help } }, "?"),
    h("button", { title: "Light or dark (t)", "aria-label": "Light or dark", on: { click: toggleTheme } }, "◐"))];
}

// A live view keeps its place: views that can update do, and others are made again where they were scrolled to.
async function refresh(grown) {
  for (const id of grown) app.runs[id] = new Run(id, app.runs[id].name, await app.source.load(id));
  const { view } = route();
  if (page.shown.update) page.shown.update(app.runs[app.run]);
  else if (view !== "trajectory" && grown.includes(app.run)) {
    const top = scrollY, old = page.main.querySelector(".grid"), places = old ? [old.scrollLeft, old.scrollTop] : null;
    const open = [...page.main.querySelectorAll("details")].map((element) => element.open);
    replace(page.main, page.shown = MAKE[view] ? MAKE[view](app.runs[app.run]) : overviewView(app.runs[app.run]));
    [...page.main.querySelectorAll("details")].forEach((element, n) => { element.open = open[n] || element.open; });
    scrollTo(0, top);
    const grid = page.main.querySelector(".grid");
    if (grid && places) [grid.scrollLeft, grid.scrollTop] = places;
  }
}

const GO = { __proto__: null, o: "overview", g: "grid", l: "trajectories", i: "timeline", m: "metrics", c: "compare" };

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (typing) { if (event.key === "Escape") event.target.blur(); return; }
  const dialog = document.querySelector("dialog[open]");
  if (dialog) { if (event.key === "?" || event.key === "Escape") dialog.close(); return; }
  const own = page.shown && page.shown.keys && page.shown.keys[event.key];
  if (own) own();
  else if (event.key === "/") { const search = page.main.querySelector("input[type=search]"); if (search) search.focus(); else go("trajectories", { run: app.run || null }); }
  else if (event.key === "t") toggleTheme();
  else if (event.key === "?") help();
  else if (GO[event.key] && (event.key !== "c" || app.runs.length > 1)) go(GO[event.key], { run: app.run || null });
  else if (page.shown.list && "jk".includes(event.key)) { page.shown.list.element.focus(); page.shown.list.move(event.key === "j" ? 1 : -1); }
  else return;
  event.preventDefault();
}

const KEYS = [["o g l i m c", "overview, grid, trajectories, timeline, metrics, compare"], ["/", "search"], ["j k", "next, previous trajectory or step"], ["1 to 6", "kernel, diff, completion, tokens, prompt, verdict"], ["Enter", "open"], ["Esc", "back to the list"], ["t", "light or dark"], ["?", "this list"]];

function help() {
  const dialog = h("dialog", { on: { close: () => dialog.remove(), click: (event) => event.target === dialog && dialog.close() } }, h("h2", null, "Keys"), h("dl", null, KEYS.map(([key, does]) => [h("dt", null, key), h("dd", null, does)])), h("button", { on: { click: () => dialog.close() } }, "Close"));
  document.body.append(dialog);
  dialog.showModal();
}

function setTheme(name) {
  const dark = name ? name === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
}

function toggleTheme() {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  remember("theme", next);
  showTheme(next);
}

function showTheme(name) {
  setTheme(name);
  redrawCharts();
  const grid = page.main.querySelector(".grid");
  if (grid) grid.dispatchEvent(new Event("scroll"));
}

start();
