// Elements, numbers, colours and the address. Text reaches the page through textContent alone: it is hostile.

function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, call] of Object.entries(value)) element.addEventListener(event, call);
    else if (name === "style") for (const [key, set] of Object.entries(value)) element.style.setProperty(key, set);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

function replace(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

const DASH = "–";
const known = (value) => value !== null && value !== undefined && !Number.isNaN(value);

// Integers as integers, everything else with three or four significant digits.
function number(value) {
  if (!known(value)) return DASH;
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "-∞";
  if (Number.isInteger(value)) return value.toLocaleString("en-US");
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString("en-US");
  if (size >= 1) return value.toFixed(size >= 100 ? 1 : 2);
  return size < 1e-4 ? value.toExponential(2) : String(Number(value.toPrecision(3)));
}

const percent = (share) => (known(share) ? (100 * share).toFixed(1) + "%" : DASH);
const times = (value) => (known(value) ? value.toFixed(2) + "x" : DASH);
const seconds = (value) => (known(value) ? (value >= 100 ? value.toFixed(0) : number(value)) + " s" : DASH);

function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

const SERIES = ["#3b7dd8", "#d9822b", "#2a9d5c", "#a45bd0", "#d4483f", "#7a8a99", "#1a9aa8", "#b5962b"];
const STATUS_COLOURS = { solved: "#2a9d5c", "not correct": "#d9822b", "no verdict": "#7a8a99" };

// The address: #view?name=value. Everything that can be shared is in it.
function route() {
  const [view, query] = location.hash.replace(/^#/, "").split("?");
  return { view: view || "overview", params: new URLSearchParams(query || "") };
}

function address(view, params) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params || {})) if (value !== "" && known(value)) query.set(name, value);
  const text = query.toString();
  return "#" + view + (text ? "?" + text : "");
}

function go(view, params) {
  location.hash = address(view, params);
}

// The browser may forbid storage for files.
function remembered(name) {
  try { return localStorage.getItem(name); } catch { return null; }
}

function remember(name, value) {
  try { localStorage.setItem(name, value); } catch { /* The choice then lasts as long as the page. */ }
}

function mark(yes) {
  return h("span", { class: yes ? "good" : "bad", role: "img", "aria-label": yes ? "yes" : "no" }, yes ? "✓" : "✗");
}

// The same without columns in which nothing is known: an untimed run has no speedups.
function knownColumns(headings, rows) {
  const shown = headings.map((_, n) => n).filter((n) => rows.some((cells) => cells[n] !== DASH));
  return table(shown.map((n) => headings[n]), rows.map((cells) => shown.map((n) => cells[n])));
}

function table(headings, rows, attributes) {
  const head = h("tr", null, headings.map((text) => h("th", { scope: "col" }, text)));
  const body = rows.map((cells) => h("tr", null, cells.map((cell) => h("td", null, cell))));
  return h("div", { class: "scroll", tabindex: "0" }, h("table", attributes, h("thead", null, head), h("tbody", null, body)));
}

function section(id, title, ...children) {
  const shown = children.flat(Infinity).filter((child) => child);
  return shown.length ? h("section", { id, class: "part" }, h("h2", null, title), shown) : null;
}
