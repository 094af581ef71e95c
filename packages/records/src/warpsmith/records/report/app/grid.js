// Problems by steps, on one canvas: only the cells in view are drawn.

const CELL = 20, WIDEST_CELL = 56, LABELS = 230, HEAD = 74;
const GRID_METRICS = { __proto__: null,
  solved: { title: "solved", of: (cell) => cell.solved / cell.count, scale: (value) => value, text: percent },
  speedup: { title: "best speedup", of: (cell) => cell.speedup, scale: (value) => Math.min(1, Math.max(0, Math.log2(Math.max(value, 0.5)) / 3 + 1 / 3)), text: times },
  return: { title: "mean aggregated return", of: (cell) => (cell.returns ? cell.sum / cell.returns : NaN), scale: null, text: number },
};

function gridCells(run) {
  const columns = columnsOf(run.trajectories), place = new Map(columns.map((column, n) => [column.name, n]));
  const rows = new Map();
  for (const t of run.trajectories) {
    if (!rows.has(t.problem)) rows.set(t.problem, { problem: t.problem, level: t.level, cells: new Map(), solved: 0, count: 0 });
    const row = rows.get(t.problem), at = place.get(t.column);
    if (!row.cells.has(at)) row.cells.set(at, { count: 0, solved: 0, speedup: NaN, sum: 0, returns: 0, keys: [] });
    const cell = row.cells.get(at);
    cell.count++; row.count++;
    cell.keys.push(t.key);
    if (t.solvedAt) { cell.solved++; row.solved++; }
    if (t.speedup > (cell.speedup || 0)) cell.speedup = t.speedup;
    if (known(t.return)) { cell.sum += t.return; cell.returns++; }
  }
  return { columns, rows: [...rows.values()] };
}

const GRID_ORDERS = { __proto__: null,
  "first seen": null,
  name: (one, other) => one.problem.localeCompare(other.problem),
  "most solved": (one, other) => other.solved / other.count - one.solved / one.count,
  "least solved": (one, other) => one.solved / one.count - other.solved / other.count,
};

function gridView(run) {
  const params = route().params, { columns, rows } = gridCells(run);
  if (!rows.length) return h("div", { class: "main" }, h("h1", null, "Problems by step"), h("p", null, "No turns are recorded yet."));
  const metric = GRID_METRICS[params.get("metric")] ? params.get("metric") : "solved", order = params.get("order") || "first seen";
  if (GRID_ORDERS[order]) rows.sort(GRID_ORDERS[order]);
  const change = (name, value) => go("grid", { ...Object.fromEntries(params), [name]: value });
  const grid = new Grid(run, columns, rows, GRID_METRICS[metric]);
  return h("div", { class: "main wide" }, h("h1", null, "Problems by step"), h("div", { class: "bar" },
    picker("Value", Object.entries(GRID_METRICS).map(([name, { title }]) => [name, title]), metric, (value) => change("metric", value)),
    picker("Order", Object.keys(GRID_ORDERS).map((name) => [name, name]), order, (value) => change("order", value)),
    h("span", { class: "soft" }, `${number(rows.length)} problems, ${number(columns.length)} steps and evaluations`), grid.legend()), grid.element, grid.says);
}

function picker(title, options, value, change) {
  return h("label", null, title, " ", h("select", { on: { change: (event) => change(event.target.value) } }, options.map(([name, text]) => h("option", { value: name, selected: name === value }, text))));
}

class Grid {
  constructor(run, columns, rows, metric) {
    Object.assign(this, { run, columns, rows, metric, at: [0, 0] });
    const values = rows.flatMap((row) => [...row.cells.values()].map(metric.of)).filter((value) => !Number.isNaN(value));
    const low = values.reduce((a, b) => Math.min(a, b), Infinity), high = values.reduce((a, b) => Math.max(a, b), -Infinity);
    this.scale = metric.scale || ((value) => (high > low ? (value - low) / (high - low) : 0.5));
    this.canvas = h("canvas");
    this.labels = innerWidth < 600 ? 120 : LABELS;
    this.cell = CELL;
    this.space = h("div", { class: "grid-space", style: { height: HEAD + rows.length * CELL + "px" } }, this.canvas);
    this.says = h("p", { class: "soft grid-says", "aria-live": "polite" }, "Point at a cell, or use the arrow keys and Enter.");
    this.element = h("div", { class: "grid", tabindex: "0", role: "application", "aria-label": "Problems by step", on: {
      scroll: () => this.draw(), mousemove: (event) => this.point(event), click: (event) => { this.point(event); this.open(); }, keydown: (event) => this.key(event) } }, this.space);
    new ResizeObserver(() => { this.fit(); this.draw(); }).observe(this.element);
  }

  // Few columns share the width of the window.
  fit() {
    const room = this.element.clientWidth - this.labels - 60;
    this.cell = Math.max(CELL, Math.min(WIDEST_CELL, Math.floor(room / this.columns.length)));
    this.space.style.width = this.labels + this.columns.length * this.cell + 60 + "px";
  }

  colour(value) {
    if (Number.isNaN(value)) return css("--empty");
    const share = Math.max(0, Math.min(1, this.scale(value)));
    return `color-mix(in oklab, ${css("--good-cell")} ${Math.round(100 * share)}%, ${css("--bad-cell")})`;
  }

  legend() {
    const ends = this.metric.title === "best speedup" ? ["≤ 0.5x", "≥ 4x"] : this.metric.title === "solved" ? ["none", "all"] : ["least", "most"];
    return h("span", { class: "legend" }, ends[0], h("span", { class: "ramp" }), ends[1], h("span", { class: "swatch" }), "no value");
  }

  draw() {
    const { clientWidth: width, clientHeight: height, scrollLeft: left, scrollTop: top } = this.element, ratio = devicePixelRatio || 1;
    Object.assign(this.canvas, { width: width * ratio, height: height * ratio });
    this.canvas.style.width = width + "px"; this.canvas.style.height = height + "px";
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = "11px system-ui, sans-serif";
    const colours = new Map();
    const firstRow = Math.floor(top / CELL), lastRow = Math.min(this.rows.length, Math.ceil((top + height - HEAD) / CELL));
    const firstColumn = Math.floor(left / this.cell), lastColumn = Math.min(this.columns.length, Math.ceil((left + width - this.labels) / this.cell));
    pen.save();
    pen.beginPath(); pen.rect(this.labels, HEAD, width, height); pen.clip();
    for (let row = firstRow; row < lastRow; row++) for (let column = firstColumn; column < lastColumn; column++) {
      const cell = this.rows[row].cells.get(column), x = this.labels + column * this.cell - left, y = HEAD + row * CELL - top;
      if (!cell) continue;
      const value = this.metric.of(cell);
      if (!colours.has(value)) colours.set(value, this.colour(value));
      pen.fillStyle = colours.get(value);
      pen.fillRect(x + 1, y + 1, this.cell - 2, CELL - 2);
      if (row === this.at[0] && column === this.at[1]) { pen.strokeStyle = css("--ink"); pen.lineWidth = 2; pen.strokeRect(x + 1, y + 1, this.cell - 2, CELL - 2); }
    }
    pen.restore();
    this.names(pen, firstRow, lastRow, top, height);
    this.heads(pen, firstColumn, lastColumn, left, width);
  }

  names(pen, first, last, top, height) {
    pen.save();
    pen.beginPath(); pen.rect(0, HEAD, this.labels - 6, height); pen.clip();
    pen.textBaseline = "middle";
    for (let row = first; row < last; row++) {
      pen.fillStyle = css(row === this.at[0] ? "--ink" : "--soft");
      pen.fillText(fitted(pen, this.rows[row].problem, this.labels - 14), 6, HEAD + row * CELL - top + CELL / 2);
    }
    pen.restore();
  }

  heads(pen, first, last, left, width) {
    pen.save();
    pen.beginPath(); pen.rect(this.labels, 0, width, HEAD); pen.clip();
    for (let column = first; column < last; column++) {
      pen.save();
      pen.translate(this.labels + column * this.cell - left + this.cell / 2 + 3, HEAD - 6);
      pen.rotate(-Math.PI / 3);
      pen.fillStyle = css(column === this.at[1] || this.columns[column].role !== "train" ? "--ink" : "--soft");
      pen.fillText(fitted(pen, this.columns[column].name.replace(/^step /, "").replace(/^.* (?=after \d+$)/, ""), 74), 0, 0);
      pen.restore();
    }
    pen.restore();
  }

  point(event) {
    const box = this.element.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    if (x < this.labels || y < HEAD) return;
    this.to(Math.floor((y - HEAD + this.element.scrollTop) / CELL), Math.floor((x - this.labels + this.element.scrollLeft) / this.cell));
  }

  to(row, column) {
    if (row < 0 || column < 0 || row >= this.rows.length || column >= this.columns.length) return;
    this.at = [row, column];
    const cell = this.rows[row].cells.get(column);
    this.says.textContent = `${this.rows[row].problem}, ${this.columns[column].name}: ` + (cell ? `${cell.solved} of ${cell.count} solved, best speedup ${times(cell.speedup)}, mean aggregated return ${number(cell.returns ? cell.sum / cell.returns : NaN)}` : "not sampled");
    this.draw();
  }

  key(event) {
    const by = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key];
    if (event.key === "Enter") this.open();
    else if (by) { this.to(this.at[0] + by[0], this.at[1] + by[1]); this.reveal(); }
    else return;
    event.preventDefault();
  }

  reveal() {
    const box = this.element, [row, column] = this.at;
    const fit = (start, size, room) => (value) => Math.min(Math.max(value, start + size - room), start);
    box.scrollTop = fit(row * CELL, CELL, box.clientHeight - HEAD - 16)(box.scrollTop);
    box.scrollLeft = fit(column * this.cell, this.cell, box.clientWidth - this.labels - 16)(box.scrollLeft);
  }

  open() {
    const row = this.rows[this.at[0]], cell = row.cells.get(this.at[1]);
    if (!cell) return;
    const filter = { problem: row.problem, column: this.columns[this.at[1]].name, run: app.run || null };
    if (cell.keys.length === 1) go("trajectory", { key: cell.keys[0], ...filter });
    else go("trajectories", filter);
  }
}

function fitted(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let length = Math.min(text.length, 60);
  while (length > 1 && pen.measureText(text.slice(0, length) + "…").width > width) length--;
  return text.slice(0, length) + "…";
}
