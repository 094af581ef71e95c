// Where the page's data comes from: elements of this file, or the server that sent the page.

async function unpacked(id) {
  const text = document.getElementById("data-" + id).textContent;
  const stream = new Blob([decoded(text)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

// Browsers of 2025 and later decode base64 themselves, several times faster.
function decoded(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const letters = atob(text), bytes = new Uint8Array(letters.length);
  for (let at = 0; at < letters.length; at++) bytes[at] = letters.charCodeAt(at);
  return bytes;
}

const asText = (buffer) => new TextDecoder().decode(buffer);

class EmbeddedSource {
  live = false;
  blocks = new Map();

  async runs() {
    this.manifest = JSON.parse(asText(await unpacked("manifest")));
    return [{ id: 0, name: this.manifest.overview.name }];
  }

  async load() {
    const read = (name) => {
      const count = document.querySelectorAll(`[id^="data-${name}-"]`).length;
      return Promise.all(Array.from({ length: count }, async (_, n) => decodeChunk(await unpacked(`${name}-${n}`))));
    };
    const [turns, steps] = await Promise.all([read("turns"), read("steps")]);
    return { overview: this.manifest.overview, turns: new Frame(turns), steps: new Frame(steps) };
  }

  has(run, key) { return Object.hasOwn(this.manifest.index, key); }

  async trajectory(run, key) {
    if (!this.has(run, key)) return null;
    const place = this.manifest.index[key];
    if (!this.blocks.has(place)) this.blocks.set(place, unpacked(`block-${place}`).then((data) => {
      const block = JSON.parse(asText(data));
      return withTexts(block.trajectories, block.texts);
    }));
    return (await this.blocks.get(place)).find((entry) => entry.key === key);
  }

  async plotlyScript() {
    // Allowed by its hash; an inline script runs when it is added.
    document.head.append(h("script", null, asText(await unpacked("plotly"))));
  }
}

function withTexts(value, texts) {
  if (Array.isArray(value)) return typeof value[0] === "number" ? value : value.map((entry) => withTexts(entry, texts));
  if (value === null || typeof value !== "object") return value;
  if ("$" in value && Object.keys(value).length === 1) return texts[value.$];
  return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, withTexts(entry, texts)]));
}

const POLL_MS = 2000;

class HttpSource {
  live = true;
  chunks = new Map();
  overviews = new Map();

  async json(path) {
    const answer = await fetch(path);
    if (!answer.ok) throw new Error(`${path}: the server answered ${answer.status}.`);
    return answer.json();
  }

  async runs() {
    this.state = await this.json("api/state");
    return this.state.runs;
  }

  // Fetches only the chunks whose version changed.
  async load(run) {
    const state = this.state.runs[run];
    const read = (name) => Promise.all(state[name].map(async (version, n) => {
      const place = `${run}/${name}/${n}`;
      const held = this.chunks.get(place);
      if (held && held.version === version) return held.chunk;
      const answer = await fetch(`api/runs/${place}?version=${version}`);
      if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
      const chunk = decodeChunk(await answer.arrayBuffer());
      this.chunks.set(place, { version, chunk });
      return chunk;
    }));
    const [overview, turns, steps] = await Promise.all([this.json(`api/runs/${run}/overview`), read("turns"), read("steps")]);
    return { overview, turns: new Frame(turns), steps: new Frame(steps) };
  }

  has() { return true; }

  async trajectory(run, key) {
    const answer = await fetch(`api/runs/${run}/trajectory?key=${encodeURIComponent(key)}`);
    return answer.ok ? answer.json() : null;
  }

  compare() { return this.json("api/compare"); }

  plotlyScript() {
    return new Promise((resolve, reject) => document.head.append(h("script", { src: "assets/plotly.js", on: { load: resolve, error: reject } })));
  }

  // Calls `changed` with the numbers of the runs that recorded something, and `lost` with whether the server answers.
  watch(changed, lost) {
    const look = async () => {
      try {
        const next = await this.json("api/state");
        const grown = next.runs.filter((run) => run.version !== this.state.runs[run.id].version).map((run) => run.id);
        this.state = next;
        lost(false);
        if (grown.length) await changed(grown);
      } catch (error) { lost(true, error); }
      setTimeout(look, POLL_MS);
    };
    setTimeout(look, POLL_MS);
  }
}
