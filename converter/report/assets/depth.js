// The difference of each tensor, over the depth of the graph.
function chart() {
  const place = byId("depth");
  if (!place) return;
  const points = [], chosenAt = chosen && !chosen.block ? chosen.at : -1;
  layers.forEach((layer, at) => { if (layer.e !== undefined) points.push([at, layer.e, layer.l]); });
  // As wide as it is seen, so that its texts are as large as all others.
  const W = Math.max(280, place.clientWidth || 1000), H = 240, least = -9;
  place.setAttribute("viewBox", `0 0 ${W} ${H}`);
  place.replaceChildren();
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
    const layer = layers[point[0]];
    const dot = shape("circle", { cx: x(at), cy: y(point[2]), r: point[0] === chosenAt ? 7 : 3, fill: `var(${COLOURS[layer.v]})`, class: "dot" });
    dot.dataset.layer = point[0];
    dot.append(shape("title", {}, `${layer.n}: ${number(point[2])} from right inputs, ${number(point[1])} in the whole run`));
    dot.addEventListener("click", () => choose(leaves[point[0]], true));
    place.append(dot);
  });
}
