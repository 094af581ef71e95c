// Highlighting of Python and CUDA C++ in one pass; each alternative matches without backtracking into another.

const KEYWORDS = new Set(("and as assert async await break class continue def del elif else except finally for from global if import in is " +
  "lambda nonlocal not or pass raise return try while with yield None True False self const void int float double char bool auto template " +
  "typename static struct extern inline switch case default unsigned long short size_t __global__ __device__ __shared__ __restrict__").split(" "));
const TOKEN = /(#(?!include|define|pragma|if|endif)[^\n]*|\/\/[^\n]*)|("""|'''|["'])|([A-Za-z_]\w*)|(@[\w.]+)|(\d[\w.]*)|([^\w"'#@\/]+|[\s\S])/gy;

function highlighted(text) {
  const found = document.createDocumentFragment();
  const add = (kind, part) => found.append(kind ? h("span", { class: "hl-" + kind }, part) : document.createTextNode(part));
  TOKEN.lastIndex = 0;
  let at = 0;
  while (at < text.length) {
    TOKEN.lastIndex = at;
    const [whole, comment, quote, word, decorator, digits] = TOKEN.exec(text);
    let end = at + whole.length;
    if (quote) end = endOfString(text, end, quote);
    const part = text.slice(at, end);
    add(comment ? "comment" : quote ? "string" : decorator ? "decorator" : digits ? "number" : word && KEYWORDS.has(word) ? "keyword"
      : word && text[end] === "(" ? "call" : "", part);
    at = end;
  }
  return found;
}

function endOfString(text, from, quote) {
  for (let at = from; at < text.length; at++) {
    if (text[at] === "\\") at++;
    else if (text.startsWith(quote, at)) return at + quote.length;
    else if (quote.length === 1 && text[at] === "\n") return at;
  }
  return text.length;
}
