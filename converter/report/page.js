"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const layers = data.layers;
const NAMES = ["not compared", "equal", "drifted", "wrong", "changed"];
const WIDTH = 190, HEIGHT = 36, GAP_X = 24, GAP_Y = 34;
const make = (tag, text, attributes = {}) => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
};
const number = (value) => (value === null || value === undefined ? "-" : Number(value).toPrecision(3));

// What a layer is shown as: itself, or the group of its scope that is closed.
let depth = 0;
const open = new Set();
const scopeOf = (name, levels) => name.split("/").filter((part) => part).slice(0, levels).join("/");
const boxOf = (index) => {
  const name = layers[index].n;
  const parts = name.split("/").filter((part) => part).length;
  for (let level = 1; level <= depth; level++) {
    const scope = scopeOf(name, level);
    if (level < depth && !(parts > level)) break;
    if (level === depth && parts > level && !open.has(scope)) return scope;
  }
  return null;
};

let boxes = [], edges = [], boxAt = [];
function layOut() {
  const byScope = new Map();
  boxes = []; boxAt = [];
  layers.forEach((layer, index) => {
    const scope = depth ? boxOf(index) : null;
    let box = scope === null ? undefined : byScope.get(scope);
    if (box === undefined) {
      box = { id: boxes.length, scope, members: [], rank: 0, into: new Set(), verdict: 0 };
      boxes.push(box);
      if (scope !== null) byScope.set(scope, box);
    }
    box.members.push(index);
    box.verdict = Math.max(box.verdict, layer.v);
    boxAt[index] = box;
  });
  edges = [];
  layers.forEach((layer, index) => {
    for (const source of layer.i) {
      const from = boxAt[source], to = boxAt[index];
      if (from !== to && from.id < to.id && !to.into.has(from.id)) {
        to.into.add(from.id);
        edges.push([from, to]);
      }
    }
  });
  const rows = [];
  for (const box of boxes) {
    for (const source of box.into) box.rank = Math.max(box.rank, boxes[source].rank + 1);
    (rows[box.rank] = rows[box.rank] || []).push(box);
  }
  const out = boxes.map(() => []);
  for (const [from, to] of edges) out[from.id].push(to);
  const place = (row) => row.forEach((box, at) => { box.x = (at - (row.length - 1) / 2) * (WIDTH + GAP_X); });
  rows.forEach(place);
  const mean = (list, fallback) => (list.length ? list.reduce((sum, box) => sum + box.x, 0) / list.length : fallback);
  for (let sweep = 0; sweep < 4; sweep++) {
    const order = sweep % 2 ? [...rows].reverse() : rows;
    for (const row of order) {
      for (const box of row) {
        box.wish = mean(sweep % 2 ? out[box.id] : [...box.into].map((id) => boxes[id]), box.x);
      }
      row.sort((a, b) => a.wish - b.wish || a.id - b.id);
      place(row);
    }
  }
  for (const box of boxes) box.y = box.rank * (HEIGHT + GAP_Y);
}

const canvas = document.getElementById("canvas");
const context = canvas.getContext("2d");
const view = { scale: 0.8, x: 0, y: 40 };
let chosen = -1, colours = {}, waiting = false;
function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["back", "front", "soft", "line", "panel", "focus", "good", "bad", "drift", "none", "mark"]) {
    colours[name] = style.getPropertyValue(`--${name}`).trim();
  }
}
const colourOf = (verdict) => [colours.none, colours.good, colours.drift, colours.bad, colours.mark][verdict];
function draw() {
  waiting = false;
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = colours.back;
  context.fillRect(0, 0, width, height);
  context.setTransform(ratio * view.scale, 0, 0, ratio * view.scale, ratio * (width / 2 + view.x), ratio * view.y);
  const left = (-width / 2 - view.x) / view.scale - WIDTH, right = (width / 2 - view.x) / view.scale + WIDTH;
  const top = -view.y / view.scale - HEIGHT, bottom = (height - view.y) / view.scale + HEIGHT;
  context.strokeStyle = colours.soft;
  context.globalAlpha = 0.55;
  context.lineWidth = 1;
  context.beginPath();
  for (const [from, to] of edges) {
    const y1 = from.y + HEIGHT, y2 = to.y;
    if (y2 < top || y1 > bottom || Math.max(from.x, to.x) < left || Math.min(from.x, to.x) > right) continue;
    const middle = (y1 + y2) / 2;
    context.moveTo(from.x, y1);
    context.bezierCurveTo(from.x, middle, to.x, middle, to.x, y2);
  }
  context.stroke();
  context.globalAlpha = 1;
  context.textBaseline = "middle";
  for (const box of boxes) {
    if (box.y < top || box.y > bottom || box.x < left || box.x > right) continue;
    const x = box.x - WIDTH / 2, layer = layers[box.members[0]];
    context.fillStyle = colours.panel;
    context.fillRect(x, box.y, WIDTH, HEIGHT);
    context.fillStyle = colourOf(box.verdict);
    context.fillRect(x, box.y, 6, HEIGHT);
    const isChosen = box.members.includes(chosen);
    context.strokeStyle = isChosen ? colours.focus : colourOf(box.verdict);
    context.lineWidth = isChosen ? 4 : 1.2;
    context.strokeRect(x, box.y, WIDTH, HEIGHT);
    if (view.scale > 0.35) {
      const title = box.scope === null ? layer.t : `${box.scope} (${box.members.length})`;
      const below = box.scope === null ? layer.n : "double click or Enter opens";
      context.fillStyle = colours.front;
      context.font = "13px system-ui, sans-serif";
      context.fillText(cut(title, 25), x + 14, box.y + 12);
      context.fillStyle = colours.soft;
      context.font = "10px system-ui, sans-serif";
      context.fillText(cut(below, 34, true), x + 14, box.y + 26);
    }
  }
}
const cut = (text, most, end = false) =>
  text.length <= most ? text : end ? `…${text.slice(text.length - most + 1)}` : `${text.slice(0, most - 1)}…`;
function redraw() {
  if (!waiting) { waiting = true; requestAnimationFrame(draw); }
}
function zoom(factor, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
  const scale = Math.min(4, Math.max(0.01, view.scale * factor)), change = scale / view.scale;
  view.x = x - canvas.clientWidth / 2 - (x - canvas.clientWidth / 2 - view.x) * change;
  view.y = y - (y - view.y) * change;
  view.scale = scale;
  redraw();
}
function fit() {
  if (!boxes.length) return;
  const xs = boxes.map((box) => box.x), least = Math.min(...xs), most = Math.max(...xs);
  const tall = Math.max(...boxes.map((box) => box.y)) + HEIGHT;
  view.scale = Math.min(1.2, canvas.clientWidth / (most - least + WIDTH + 40), canvas.clientHeight / (tall + 90));
  view.x = (-(least + most) / 2) * view.scale;
  view.y = 60;
  redraw();
}
function centre(box) {
  view.scale = Math.max(view.scale, 0.7);
  view.x = -box.x * view.scale;
  view.y = canvas.clientHeight / 2 - (box.y + HEIGHT / 2) * view.scale;
  redraw();
}

const fingers = new Map();
let moved = false, apart = 0;
canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  fingers.set(event.pointerId, [event.offsetX, event.offsetY]);
  moved = false; apart = 0;
});
canvas.addEventListener("pointermove", (event) => {
  const before = fingers.get(event.pointerId);
  if (!before) return;
  fingers.set(event.pointerId, [event.offsetX, event.offsetY]);
  if (fingers.size === 2) {
    const [a, b] = [...fingers.values()], now = Math.hypot(a[0] - b[0], a[1] - b[1]);
    if (apart) zoom(now / apart, (a[0] + b[0]) / 2, (a[1] + b[1]) / 2);
    apart = now; moved = true;
    return;
  }
  const dx = event.offsetX - before[0], dy = event.offsetY - before[1];
  if (Math.abs(dx) + Math.abs(dy) > 2) moved = true;
  view.x += dx; view.y += dy;
  redraw();
});
const released = (event) => {
  if (fingers.delete(event.pointerId) && !moved) {
    const box = boxUnder(event.offsetX, event.offsetY);
    if (box) choose(box.members[0], false);
  }
};
canvas.addEventListener("pointerup", released);
canvas.addEventListener("pointercancel", (event) => fingers.delete(event.pointerId));
canvas.addEventListener("dblclick", (event) => {
  const box = boxUnder(event.offsetX, event.offsetY);
  if (box) toggle(box);
});
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY);
}, { passive: false });
canvas.addEventListener("keydown", (event) => {
  const step = 60;
  const keys = {
    ArrowLeft: () => { view.x += step; }, ArrowRight: () => { view.x -= step; },
    ArrowUp: () => { view.y += step; }, ArrowDown: () => { view.y -= step; },
    "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8), 0: fit,
    Enter: () => { if (chosen >= 0) toggle(boxAt[chosen]); },
  };
  if (!keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
  redraw();
});
function boxUnder(px, py) {
  const x = (px - canvas.clientWidth / 2 - view.x) / view.scale, y = (py - view.y) / view.scale;
  return boxes.find((box) => Math.abs(box.x - x) <= WIDTH / 2 && y >= box.y && y <= box.y + HEIGHT);
}
function toggle(box) {
  const scope = box.scope === null ? scopeOf(layers[box.members[0]].n, depth) : box.scope;
  if (!depth) return;
  if (open.has(scope)) open.delete(scope); else open.add(scope);
  const first = box.members[0];
  layOut();
  centre(boxAt[first]);
}

const list = document.getElementById("layers"), search = document.getElementById("search");
const MOST = 400;
let shown = [];
function fillList() {
  const wanted = search.value.trim().toLowerCase();
  const found = [];
  layers.forEach((layer, index) => {
    if (!wanted || `${layer.n} ${layer.t} ${layer.o || ""} ${NAMES[layer.v]}`.toLowerCase().includes(wanted)) found.push(index);
  });
  shown = found.slice(0, MOST);
  list.replaceChildren(...shown.map((index) => {
    const layer = layers[index];
    return make("li", `${layer.t}  ${layer.n}`, {
      role: "option", id: `layer${index}`, class: `v${layer.v}`, "aria-selected": String(index === chosen),
    });
  }));
  document.getElementById("count").textContent =
    found.length > MOST ? `${MOST} of ${found.length} layers shown` : `${found.length} layers`;
}
list.addEventListener("click", (event) => {
  const item = event.target.closest("li");
  if (item) choose(Number(item.id.slice(5)), true);
});
list.addEventListener("keydown", (event) => {
  const at = shown.indexOf(chosen);
  const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: shown.length - 1, PageDown: at + 10, PageUp: at - 10 }[event.key];
  if (event.key === "Enter" && chosen >= 0) { centre(boxAt[chosen]); return; }
  if (next === undefined || !shown.length) return;
  event.preventDefault();
  choose(shown[Math.min(shown.length - 1, Math.max(0, next))], true);
});
search.addEventListener("input", fillList);
search.addEventListener("keydown", (event) => {
  if ((event.key === "Enter" || event.key === "ArrowDown") && shown.length) {
    event.preventDefault();
    list.focus();
    choose(shown[0], true);
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !["INPUT", "SELECT"].includes(document.activeElement.tagName)) {
    event.preventDefault();
    search.focus();
  }
});

function choose(index, moveThere) {
  const before = document.getElementById(`layer${chosen}`);
  if (before) before.setAttribute("aria-selected", "false");
  chosen = index;
  const item = document.getElementById(`layer${index}`);
  if (item) {
    item.setAttribute("aria-selected", "true");
    // The list alone is moved, and not the page.
    const top = item.offsetTop - list.offsetTop;
    if (top < list.scrollTop || top + item.offsetHeight > list.scrollTop + list.clientHeight) {
      list.scrollTop = top - list.clientHeight / 2;
    }
    list.setAttribute("aria-activedescendant", item.id);
  }
  showDetails(layers[index]);
  if (moveThere) centre(boxAt[index]); else redraw();
  for (const dot of document.querySelectorAll("#depth .dot")) {
    dot.setAttribute("r", Number(dot.dataset.layer) === index ? 7 : 3);
  }
}
function rows(pairs) {
  const found = make("dl");
  for (const [name, value] of pairs) {
    if (value === undefined || value === null || value === "") continue;
    found.append(make("dt", name), value instanceof Node ? value : make("dd", String(value)));
  }
  return found;
}
function showDetails(layer) {
  const panel = document.getElementById("details");
  const from = make("dd");
  layer.i.forEach((source) => {
    const link = make("button", layers[source].n, { class: "from", type: "button" });
    link.addEventListener("click", () => choose(source, true));
    from.append(link, document.createElement("br"));
  });
  panel.replaceChildren(make("h3", layer.n), rows([
    ["type", layer.t], ["verdict", NAMES[layer.v]], ["because", layer.r], ["output", layer.s], ["tensors", (layer.names || []).join(", ")],
    ["ONNX node", layer.o], ["whole run, apart", layer.e === undefined ? "" : number(layer.e)],
    ["from right inputs", layer.l === undefined ? "" : number(layer.l)], ["reads", layer.i.length ? from : ""],
  ]));
  if (layer.a && layer.a.length) panel.append(make("strong", "attributes"), rows(layer.a));
  if (layer.w && layer.w.length) panel.append(make("strong", "constants"), rows(layer.w));
  if (layer.h) {
    const key = make("div", undefined, { class: "key" });
    for (const [colour, said] of [["--focus", "reference"], ["--drift", "IR"]]) {
      const entry = make("span");
      entry.append(make("i", "", { style: `background:var(${colour})` }), said);
      key.append(entry);
    }
    panel.append(make("strong", "values"), key, histogram(layer.h));
  }
}
const SVG = "http://www.w3.org/2000/svg";
const shape = (tag, attributes, text) => {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
};
function histogram([low, high, expected, actual]) {
  const picture = shape("svg", { viewBox: "0 0 300 130", role: "img", "aria-label": "Histogram of the values on both sides" });
  const most = Math.max(1, ...expected, ...actual), step = 300 / expected.length;
  expected.forEach((count, at) => {
    const tall = (100 * count) / most, theirs = (100 * actual[at]) / most;
    picture.append(shape("rect", { x: at * step, y: 105 - tall, width: step * 0.45, height: tall, fill: "var(--focus)" }));
    picture.append(shape("rect", { x: at * step + step * 0.45, y: 105 - theirs, width: step * 0.45, height: theirs, fill: "var(--drift)" }));
  });
  picture.append(shape("text", { x: 0, y: 122 }, number(low)), shape("text", { x: 300, y: 122, "text-anchor": "end" }, number(high)));
  return picture;
}

function chart() {
  const points = [];
  layers.forEach((layer, index) => { if (layer.e !== undefined) points.push([index, layer.e, layer.l]); });
  const place = document.getElementById("depth");
  if (!points.length) { place.parentElement.remove(); return; }
  const W = 1000, H = 240, least = -9;
  const log = (value) => (value > 0 ? Math.max(least, Math.log10(value)) : least);
  const top = Math.max(0, Math.ceil(Math.max(...points.map((point) => Math.max(log(point[1]), log(point[2]))))));
  const x = (at) => 50 + (at * (W - 60)) / Math.max(1, points.length - 1);
  const y = (value) => 12 + ((top - log(value)) * (H - 40)) / (top - least);
  for (let power = least; power <= top; power += 3) {
    const at = y(10 ** power);
    place.append(shape("line", { x1: 46, x2: W, y1: at, y2: at, stroke: "var(--line)" }));
    place.append(shape("text", { x: 42, y: at + 4, "text-anchor": "end" }, power === least ? "≤1e-9" : `1e${power}`));
  }
  const path = points.map((point, at) => `${at ? "L" : "M"}${x(at)} ${y(point[1])}`).join("");
  place.append(shape("path", { d: path, fill: "none", stroke: "var(--soft)", "stroke-width": 1 }));
  points.forEach((point, at) => {
    const verdict = ["--none", "--good", "--drift", "--bad", "--mark"][layers[point[0]].v];
    const dot = shape("circle", { cx: x(at), cy: y(point[2]), r: 3, fill: `var(${verdict})`, class: "dot" });
    dot.dataset.layer = point[0];
    dot.append(shape("title", {}, `${layers[point[0]].n}: ${number(point[2])} from right inputs, ${number(point[1])} in the whole run`));
    dot.addEventListener("click", () => choose(point[0], true));
    place.append(dot);
  });
}

document.getElementById("in").addEventListener("click", () => zoom(1.25));
document.getElementById("out").addEventListener("click", () => zoom(0.8));
document.getElementById("fit").addEventListener("click", fit);
document.getElementById("collapse").addEventListener("change", (event) => {
  depth = Number(event.target.value);
  open.clear();
  layOut();
  fit();
});
const again = () => { readColours(); redraw(); };
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
new ResizeObserver(redraw).observe(canvas);
readColours();
layOut();
fillList();
chart();
fit();
const worst = layers.findIndex((layer) => layer.v >= 3);
// What is wrong is seen at once; a deep graph begins where its inputs are, and not as a thin line.
if (layers.length) choose(Math.max(worst, 0), worst >= 0 || view.scale < 0.3);
