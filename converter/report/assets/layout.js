// Where everything stands: layers in rows from inputs to outputs, open blocks as frames with rows of their own.
const WIDTH = 176, HEIGHT = 42, GAP_X = 22, GAP_Y = 46, HEAD = 30, PAD = 16;
const MOST_IN_ROW = 8, MOST_BENDS = 30000, LONGEST_BENT = 12, SWEEPS = 6;
let boxes = [], frames = [], edges = [], drawing = { width: 1, height: 1 };

function layOut() {
  boxes = []; frames = [];
  const seen = new Array(layers.length);
  const visit = (container) => {
    container.links = new Map();
    container.parts.forEach((part, at) => {
      part.index = at;
      if (part.block && part.open) { frames.push(part); visit(part); return; }
      part.id = boxes.length;
      boxes.push(part);
      for (const layer of part.block ? part.inside : [part.at]) seen[layer] = part;
    });
  };
  visit(root);
  edges = [...edgesBetween(seen)];
  for (const edge of edges) edge.link = linkOf(edge.from, edge.to);
  arrange(root);
  place(root, 0, 0);
  drawing = { width: root.w, height: root.h };
  for (const edge of edges) route(edge);
}

function edgesBetween(seen) {
  const found = new Map();
  layers.forEach((layer, at) => {
    for (const [source, output] of layer.i) {
      const from = seen[source], to = seen[at];
      if (from === to) continue;
      const key = from.id * boxes.length + to.id;
      let edge = found.get(key);
      if (!edge) found.set(key, (edge = { from, to, tensors: [] }));
      if (!edge.tensors.some(([one, other]) => one === source && other === output)) edge.tensors.push([source, output]);
    }
  });
  return found.values();
}

// The connection of two parts of one container that an edge belongs to.
function linkOf(from, to) {
  let a = from, b = to;
  while (a.depth > b.depth) a = a.parent;
  while (b.depth > a.depth) b = b.parent;
  while (a.parent !== b.parent) { a = a.parent; b = b.parent; }
  const links = a.parent.links, key = a.index * a.parent.parts.length + b.index;
  let link = links.get(key);
  if (!link) links.set(key, (link = { a, b, bends: [], container: a.parent }));
  return link;
}

function arrange(container) {
  const parts = container.parts;
  for (const part of parts) {
    if (part.block && part.open) arrange(part);
    else { part.w = WIDTH; part.h = HEIGHT; }
  }
  const links = [...container.links.values()];
  orderParts(parts, links);
  const forward = links.filter((link) => link.a.order < link.b.order).sort((one, other) => one.a.order - other.a.order);
  rankParts(parts, forward);
  const items = itemsOf(parts, forward);
  const rows = wrapped(ordered(items));
  align(rows);
  let top = container === root ? PAD : HEAD + PAD / 2, least = Infinity, most = -Infinity;
  for (const row of rows) {
    const tall = Math.max(...row.map((item) => item.h));
    for (const item of row) {
      item.y = top; item.tall = tall;
      least = Math.min(least, item.x - item.w / 2);
      most = Math.max(most, item.x + item.w / 2);
    }
    top += tall + GAP_Y;
  }
  for (const row of rows) for (const item of row) {
    item.x += PAD - least;
    if (item.part) { item.part.x = item.x; item.part.y = item.y; }
  }
  container.w = Math.max(most - least + 2 * PAD, WIDTH);
  container.h = top - GAP_Y + PAD;
}

// The order of parts in which each comes after those that it reads. Where blocks read each other, the one that begins
// first comes first.
function orderParts(parts, links) {
  for (const part of parts) { part.unread = 0; part.next = []; part.order = -1; }
  for (const { a, b } of links) { a.next.push(b); b.unread++; }
  const ready = parts.filter((part) => !part.unread);
  let order = 0, stuck = 0;
  while (order < parts.length) {
    let part = ready.pop();
    if (!part) {
      while (parts[stuck].order >= 0) stuck++;
      part = parts[stuck];
    }
    if (part.order >= 0) continue;
    part.order = order++;
    for (const next of part.next) if (!--next.unread && next.order < 0) ready.push(next);
  }
}

// Each part one row below the lowest that it reads; what reads nothing stands above its first reader.
function rankParts(parts, links) {
  for (const part of parts) { part.rank = 0; part.sources = 0; part.above = Infinity; }
  for (const { a, b } of links) { b.rank = Math.max(b.rank, a.rank + 1); b.sources++; }
  for (const { a, b } of links) if (!a.sources) a.above = Math.min(a.above, b.rank - 1);
  for (const part of parts) if (!part.sources && part.above < Infinity) part.rank = Math.max(0, part.above);
}

// Parts and the bends of long connections, each with its neighbours in the rows above and below.
function itemsOf(parts, links) {
  const items = parts.map((part) => (part.item = { part, w: part.w, h: part.h, row: part.rank, up: [], down: [], bends: null }));
  let bends = 0;
  const reach = new Map();
  for (const { a, b } of links) reach.set(a, Math.max(reach.get(a) || 0, b.rank - a.rank - 1));
  for (const rows of reach.values()) bends += rows;
  const longest = bends > MOST_BENDS ? LONGEST_BENT : Infinity;
  const join = (above, below) => { above.down.push(below); below.up.push(above); };
  for (const link of links) {
    const from = link.a.item, to = link.b.item;
    link.bends = [];
    if (to.row - from.row - 1 > longest) continue;
    from.bends = from.bends || [];
    let last = from;
    for (let row = from.row + 1, at = 0; row < to.row; row++, at++) {
      if (!from.bends[at]) {
        from.bends[at] = { part: null, w: 6, h: 0, row, up: [], down: [] };
        items.push(from.bends[at]);
        join(last, from.bends[at]);
      }
      last = from.bends[at];
      link.bends.push(last);
    }
    join(last, to);
  }
  return items;
}

// Rows of items, ordered so that few connections cross.
function ordered(items) {
  const rows = [];
  for (const item of items) (rows[item.row] = rows[item.row] || []).push(item);
  const count = (row) => row.forEach((item, at) => { item.at = at + 0.5 - row.length / 2; });
  const found = rows.filter((row) => row);
  found.forEach(count);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const upwards = sweep % 2;
    for (const row of upwards ? [...found].reverse() : found) {
      for (const item of row) item.wish = mean(upwards ? item.down : item.up, "at", item.at);
      row.sort((a, b) => a.wish - b.wish || a.at - b.at);
      count(row);
    }
  }
  return found;
}
function mean(items, field, otherwise) {
  if (!items.length) return otherwise;
  let sum = 0;
  for (const item of items) sum += item[field];
  return sum / items.length;
}

// Rows with too many boxes become several, each as wide as the whole.
function wrapped(rows) {
  const found = [];
  for (const row of rows) {
    const real = row.filter((item) => item.part).length, lines = Math.ceil(real / MOST_IN_ROW);
    if (lines < 2) { found.push(row); continue; }
    const split = Array.from({ length: lines }, () => []);
    let at = 0;
    for (const item of row) split[item.part ? at++ % lines : 0].push(item);
    found.push(...split);
  }
  return found;
}

function align(rows) {
  for (const row of rows) { row.forEach((item) => { item.wish = item.at * (WIDTH + GAP_X) * 0.5; }); spread(row); }
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const upwards = sweep % 2;
    for (const row of upwards ? [...rows].reverse() : rows) {
      for (const item of row) {
        const near = upwards ? item.down : item.up;
        item.wish = mean(near.length ? near : upwards ? item.up : item.down, "x", item.x);
      }
      spread(row);
    }
  }
}
// The positions nearest to the wishes at which a row's items keep their order and distance.
function spread(row) {
  const pools = [];
  let offset = 0;
  row.forEach((item, at) => {
    if (at) offset += (row[at - 1].w + item.w) / 2 + (item.part && row[at - 1].part ? GAP_X : GAP_X / 2);
    item.offset = offset;
    const weight = item.part ? 1 : 3;
    let pool = { sum: (item.wish - offset) * weight, weight, first: at };
    while (pools.length && pools[pools.length - 1].sum / pools[pools.length - 1].weight > pool.sum / pool.weight) {
      const before = pools.pop();
      pool = { sum: before.sum + pool.sum, weight: before.weight + pool.weight, first: before.first };
    }
    pools.push(pool);
  });
  pools.forEach((pool, at) => {
    const end = at + 1 < pools.length ? pools[at + 1].first : row.length;
    for (let one = pool.first; one < end; one++) row[one].x = pool.sum / pool.weight + row[one].offset;
  });
}

// Positions in the whole drawing: x is the middle of a part, y its upper end.
function place(container, left, top) {
  container.left = left; container.top = top;
  for (const part of container.parts) {
    part.x += left; part.y += top;
    if (part.block && part.open) place(part, part.x - part.w / 2, part.y);
  }
}
function route(edge) {
  const { from, to, link } = edge, { left, top } = link.container;
  const points = [[from.x, from.y + HEIGHT]];
  for (const bend of link.bends) {
    points.push([bend.x + left, bend.y + top]);
    if (bend.tall > 0) points.push([bend.x + left, bend.y + top + bend.tall]);
  }
  points.push([to.x, to.y]);
  edge.points = points;
  edge.low = Math.min(...points.map((point) => point[0])); edge.high = Math.max(...points.map((point) => point[0]));
  edge.upper = Math.min(...points.map((point) => point[1])); edge.lower = Math.max(...points.map((point) => point[1]));
}
