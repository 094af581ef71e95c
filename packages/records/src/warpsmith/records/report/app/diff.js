// Line diff of two texts by Myers' greedy algorithm, with a bound on its work.

const MOST_EDITS = 1000;

// Lines as [sign, text], sign one of " ", "-", "+". Texts with more edits than the bound are shown as replaced.
function lineDiff(before, after) {
  const [a, b] = [before.split("\n"), after.split("\n")];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const same = (lines) => lines.map((line) => [" ", line]);
  const middle = edits(a.slice(start, a.length - end), b.slice(start, b.length - end));
  return [...same(a.slice(0, start)), ...middle, ...same(a.slice(a.length - end))];
}

function edits(a, b) {
  const trace = [];
  let furthest = new Map([[1, 0]]);
  for (let d = 0; d <= Math.min(a.length + b.length, MOST_EDITS); d++) {
    trace.push(new Map(furthest));
    for (let k = -d; k <= d; k += 2) {
      let x = cameDown(furthest, k, d) ? furthest.get(k + 1) : furthest.get(k - 1) + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
      furthest.set(k, x);
      if (x >= a.length && x - k >= b.length) return walkedBack(a, b, trace);
    }
  }
  return [...a.map((line) => ["-", line]), ...b.map((line) => ["+", line])];
}

function walkedBack(a, b, trace) {
  const found = [];
  let [x, y] = [a.length, b.length];
  for (let d = trace.length - 1; d >= 0; d--) {
    const before = cameDown(trace[d], x - y, d) ? x - y + 1 : x - y - 1;
    const fromX = trace[d].get(before), fromY = fromX - before;
    for (; x > fromX && y > fromY; y--) found.push([" ", a[--x]]);
    if (d > 0) found.push(x === fromX ? ["+", b[y - 1]] : ["-", a[x - 1]]);
    [x, y] = [fromX, fromY];
  }
  return found.reverse();
}

function cameDown(furthest, k, d) {
  return k === -d || (k !== d && furthest.get(k - 1) < furthest.get(k + 1));
}
