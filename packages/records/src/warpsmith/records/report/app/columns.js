// Tables as typed arrays. The form of a chunk is documented where Python writes it (columns.py).

const NULL_INT = -2147483648;
const ARRAYS = { i: Int32Array, s: Int32Array, f: Float32Array, d: Float64Array };

function decodeChunk(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  for (const column of head.columns) {
    column.data = new ARRAYS[column.kind](buffer, 4 + length + column.at, head.rows);
  }
  return head;
}

// Columns over all chunks of a table, by name. Strings are codes into `values` of their column.
class Frame {
  constructor(chunks) {
    this.rows = chunks.reduce((sum, chunk) => sum + chunk.rows, 0);
    this.columns = new Map();
    this.readers = { __proto__: null };
    for (const { name, kind } of chunks.length ? chunks[0].columns : []) this.columns.set(name, this.joined(chunks, name, kind));
  }

  joined(chunks, name, kind) {
    const data = new ARRAYS[kind](this.rows);
    const places = new Map();
    let at = 0;
    for (const chunk of chunks) {
      const column = chunk.columns.find((candidate) => candidate.name === name);
      if (!column) { data.fill(kind === "s" ? -1 : kind === "i" ? NULL_INT : NaN, at, at + chunk.rows); at += chunk.rows; continue; }
      if (kind === "s") {
        const codes = column.values.map((text) => {
          if (!places.has(text)) places.set(text, places.size);
          return places.get(text);
        });
        for (let row = 0; row < chunk.rows; row++) data[at + row] = column.data[row] < 0 ? -1 : codes[column.data[row]];
      } else data.set(column.data, at);
      at += chunk.rows;
    }
    return { kind, data, values: [...places.keys()] };
  }

  // A function from a row to the value of a cell, for loops over many rows.
  reader(name) {
    const column = this.columns.get(name);
    if (!column) return () => null;
    const { kind, data, values } = column;
    if (kind === "s") return (row) => (data[row] < 0 ? null : values[data[row]]);
    if (kind === "i") return (row) => (data[row] === NULL_INT ? null : data[row]);
    return (row) => (Number.isNaN(data[row]) ? null : data[row]);
  }

  // The value of a cell: number, text, or null.
  get(name, row) {
    return (this.readers[name] ||= this.reader(name))(row);
  }

  codes(name) {
    return this.columns.get(name) || { kind: "s", data: new Int32Array(this.rows).fill(-1), values: [] };
  }

  list(name) {
    const read = this.reader(name);
    return Array.from({ length: this.rows }, (_, row) => read(row));
  }
}
