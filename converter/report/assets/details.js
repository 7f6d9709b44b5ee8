// What is told about the chosen layer, block or tensor.
const panel = byId("details");
function rows(pairs) {
  const found = make("dl");
  for (const [name, value] of pairs) {
    if (value === undefined || value === null || value === "") continue;
    const shown = make("dd");
    shown.append(value instanceof Node ? value : breakable(value));
    found.append(make("dt", name), shown);
  }
  return found;
}
function linkTo(text, act) {
  const link = make("button", undefined, { class: "from", type: "button" });
  link.append(breakable(text));
  link.addEventListener("click", act);
  return link;
}
function linksTo(places) {
  const found = make("div");
  for (const place of places) found.append(linkTo(layers[place].n, () => choose(leaves[place], true)));
  return found;
}
const section = (title, ...content) => {
  const head = make("h4");
  head.append(breakable(title));
  panel.append(head, ...content);
};
const nameOf = (layer, output) => (layers[layer].names || [])[output]?.[0] || `${layers[layer].n}, output ${output}`;
const readersOf = (place, output) => layers.flatMap((layer, at) =>
  (layer.i.some(([source, index]) => source === place && (output === undefined || index === output)) ? [at] : []));

function showDetails() {
  if (!chosen) return;
  if (chosen.block) showBlock(chosen);
  else if (tensor !== null) showTensor(chosen.at, tensor);
  else showLayer(layers[chosen.at], chosen.at);
  panel.scrollTop = 0;
}
function heading(text) {
  const found = make("h3");
  found.append(breakable(text));
  return found;
}
function showLayer(layer, place) {
  panel.replaceChildren(heading(layer.n), rows([
    ["type", layer.t], ["verdict", verdictOf(layer.v)], ["because", layer.r], ["ONNX node", layer.o],
    ["whole run, apart", layer.e === undefined ? "" : number(layer.e)],
    ["from right inputs", layer.l === undefined ? "" : number(layer.l)],
    ["made by", (layer.p || []).join(", ")],
  ]));
  if (layer.f) section("in the place of", replaced(layer));
  const outputs = make("div");
  layer.s.forEach((type, output) => outputs.append(linkTo(`${nameOf(place, output)}: ${type}`, () => choose(leaves[place], false, output))));
  if (layer.s.length) section("outputs", outputs);
  const sources = [...new Set(layer.i.map(([source]) => source))], readers = readersOf(place);
  if (sources.length) section("reads", linksTo(sources));
  if (readers.length) section("read by", linksTo(readers));
  if (layer.a && layer.a.length) section("attributes", rows(layer.a));
  if (layer.w.length) section("constants", ...layer.w.map((at) => constantOf(constants[at])));
  showHistograms(layer.h);
}
// What a fused layer stands for: the layers before, and the one after.
function replaced(layer) {
  const found = make("div", undefined, { class: "before" });
  for (const name of layer.f) {
    const box = make("span", undefined, { title: name });
    box.append(breakable(name.slice(name.lastIndexOf("/") + 1)));
    found.append(box);
  }
  found.append(make("b", "→", { class: "becomes" }), make("span", layer.t, { class: "after" }));
  return found;
}
function showHistograms(found) {
  for (const [name, ...values] of found || []) section(`values of ${name}`, sides(), histogram(values));
}
function sides() {
  const key = make("div", undefined, { class: "key" });
  for (const [colour, side] of [["--focus", "reference"], ["--drift", "IR"]]) {
    const entry = make("span");
    entry.append(make("i", "", { style: `background:var(${colour})` }), side);
    key.append(entry);
  }
  return key;
}
function constantOf(constant) {
  const found = make("details", undefined, { class: "constant" }), summary = make("summary");
  summary.append(breakable(constant.n), make("span", ` ${constant.s}`, { class: "soft" }));
  if (constant.v) summary.append(make("span", ` ${constant.v}`, { class: constant.v.startsWith("changed") ? "bad" : "soft" }));
  found.append(summary, rows([
    ["bytes", constant.b.toLocaleString("en")], ["values", constant.x],
    ["counted", constant.of ? `65,536 of ${constant.of.toLocaleString("en")} values` : ""],
  ]));
  if (constant.h) found.append(histogram(constant.h)); else if (!constant.x) found.append(make("p", "Its values are not in this page.", { class: "soft" }));
  found.open = Boolean(constant.v && constant.v.startsWith("changed"));
  return found;
}
function showTensor(place, output) {
  const layer = layers[place];
  panel.replaceChildren(heading(nameOf(place, output)), rows([
    ["type", layer.s[output]], ["names", ((layer.names || [])[output] || []).join(", ")],
  ]));
  section("made by", linksTo([place]));
  const readers = readersOf(place, output);
  if (readers.length) section("read by", linksTo(readers));
  const names = (layer.names || [])[output] || [];
  const found = (layer.h || []).filter(([name]) => names.includes(name) || layer.s.length === 1);
  showHistograms(found);
  if (!found.length) panel.append(make("p", "Its values are not in this page: verify compares them.", { class: "soft" }));
}
function showBlock(block) {
  const action = linkTo(block.open ? "Close it" : "Open it", () => { toggle(block); showDetails(); });
  action.classList.add("act");
  const counts = new Map();
  for (const place of block.inside) counts.set(layers[place].t, (counts.get(layers[place].t) || 0) + 1);
  panel.replaceChildren(heading(block.title), action, rows([
    ["layers", block.inside.length.toLocaleString("en")], ["blocks that are alike", block.repeats || ""],
    ["worst verdict", verdictOf(block.verdict)],
  ]));
  const wrong = block.inside.filter((place) => layers[place].v > 2);
  if (wrong.length) section("what is wrong", linksTo(wrong));
  section("types", rows([...counts].sort((a, b) => b[1] - a[1])));
  const leaving = make("div");
  for (const [place, output] of outputsOf(block)) {
    leaving.append(linkTo(`${nameOf(place, output)}: ${layers[place].s[output]}`, () => choose(leaves[place], true, output)));
  }
  if (leaving.children.length) section("outputs", leaving);
}
function histogram([low, high, ...counts]) {
  const what = counts.length > 1 ? "Histogram of the values on both sides" : "Histogram of the values";
  const picture = shape("svg", { viewBox: "0 0 300 130", role: "img", "aria-label": `${what}, from ${number(low)} to ${number(high)}` });
  const most = Math.max(1, ...counts.flat()), step = 300 / counts[0].length, wide = (step * 0.9) / counts.length;
  counts.forEach((side, one) => side.forEach((count, at) => {
    const tall = (100 * count) / most;
    picture.append(shape("rect", {
      x: at * step + one * wide, y: 105 - tall, width: wide, height: tall, fill: one ? "var(--drift)" : "var(--focus)",
    }));
  }));
  picture.append(shape("text", { x: 0, y: 122 }, number(low)), shape("text", { x: 300, y: 122, "text-anchor": "end" }, number(high)));
  return picture;
}
