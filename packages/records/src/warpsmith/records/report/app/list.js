// A table of any length: only the rows in view are elements. Rows have one height, so that a row's place is known.

const ROW_HEIGHT = 32;

class VirtualList {
  // `columns`: [{name, title, width, cell(item)}]; `open(item, index)` is called on click and Enter.
  constructor(columns, { open, sort, sorted }) {
    Object.assign(this, { open, sort, sorted, items: [], cursor: -1, drawn: new Map() });
    this.head = h("div", { class: "row head", role: "row" });
    this.setColumns(columns);
    this.body = h("div", { class: "rows", role: "rowgroup" });
    this.space = h("div", { class: "space" }, this.body);
    this.element = h("div", { class: "list", tabindex: "0", role: "table", "aria-label": "Trajectories", on: { scroll: () => this.draw(), keydown: (event) => this.key(event) } }, this.head, this.space);
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  setColumns(columns) {
    this.columns = columns;
    this.template = columns.map((column) => column.width).join(" ");
    this.head.style.setProperty("grid-template-columns", this.template);
    replace(this.head, columns.map(({ name, title }) =>
      h("button", { class: "cell", role: "columnheader", "aria-sort": ariaSort(this.sorted, name), on: { click: () => this.sort(name) } }, title, arrow(this.sorted, name))));
  }

  show(items) {
    this.items = items;
    this.drawn.clear();
    this.body.replaceChildren();
    this.element.setAttribute("aria-rowcount", items.length);
    this.space.style.height = items.length * ROW_HEIGHT + "px";
    this.draw();
  }

  draw() {
    const first = Math.max(0, Math.floor(this.element.scrollTop / ROW_HEIGHT) - 6);
    const count = Math.ceil(this.element.clientHeight / ROW_HEIGHT) + 12;
    const last = Math.min(first + count, this.items.length);
    // Rows that stay in view are left alone: to insert them again would lay all of them out again.
    for (const [index, row] of this.drawn) if (index < first || index >= last) { row.remove(); this.drawn.delete(index); }
    for (let index = first; index < last; index++) {
      if (this.drawn.has(index)) continue;
      const row = this.row(this.items[index], index);
      this.drawn.set(index, row);
      this.body.append(row);
    }
  }

  row(item, index) {
    const cells = this.columns.map((column) => h("div", { class: "cell c-" + column.name, role: "cell" }, column.cell(item)));
    const classes = "row" + (index === this.cursor ? " cursor" : "") + (index % 2 ? " odd" : "");
    return h("div", { class: classes, role: "row", "aria-rowindex": index + 1, style: { "grid-template-columns": this.template, top: index * ROW_HEIGHT + "px" },
      on: { click: () => this.open(item, index) } }, cells);
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / ROW_HEIGHT) - 2);
    const moves = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key === "Enter" && this.cursor >= 0) this.open(this.items[this.cursor], this.cursor);
    else if (event.key in moves) this.move(moves[event.key]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  move(by) {
    for (const row of this.drawn.values()) row.classList.remove("cursor");
    this.cursor = Math.max(0, Math.min(this.items.length - 1, this.cursor + by));
    const top = this.cursor * ROW_HEIGHT, room = this.element.clientHeight - ROW_HEIGHT * 2;
    if (top < this.element.scrollTop) this.element.scrollTop = top;
    if (top > this.element.scrollTop + room) this.element.scrollTop = top - room;
    this.draw();
    const row = this.drawn.get(this.cursor);
    if (row) row.classList.add("cursor");
  }
}

const ariaSort = (sorted, name) => (sorted === name ? "ascending" : sorted === "-" + name ? "descending" : null);
const arrow = (sorted, name) => (sorted === name ? " ↑" : sorted === "-" + name ? " ↓" : "");
