// The list of layers, its search, and the choice of a layer.
const list = byId("layers"), search = byId("search");
const MOST_LISTED = 400;
let found = [], shown = [];
const texts = layers.map((layer) => {
  const held = layer.w.map((at) => `${constants[at].n} ${constants[at].v || ""}`).join(" ");
  const scope = layer.g >= 0 ? blocks[layer.g].title : "";
  return [layer.n, layer.t, layer.o, NAMES[layer.v], layer.r, (layer.f || []).join(" "), (layer.names || []).flat().join(" "),
    layer.s.join(" "), held, scope, (layer.p || []).join(" ")].join(" ").toLowerCase();
});
function fillList() {
  const wanted = search.value.trim().toLowerCase().split(/\s+/).filter((word) => word);
  // A verdict asked for by its name is that verdict alone, and not a word in some reason.
  const verdict = wanted.length === 1 ? NAMES.indexOf(wanted[0]) : -1;
  const isFound = (place) => wanted.every((word) => texts[place].includes(word));
  found = layers.map((_, place) => place).filter(isFound);
  if (verdict >= 0 && found.some((place) => layers[place].v === verdict)) {
    found = found.sort((a, b) => (layers[b].v === verdict) - (layers[a].v === verdict) || a - b);
    if (verdict !== NAMES.indexOf("changed")) found = found.filter((place) => layers[place].v === verdict);
  }
  showAround(0);
}
// Of very many the list has those around one of them.
function showAround(at) {
  const first = Math.max(0, Math.min(at - MOST_LISTED / 2, found.length - MOST_LISTED));
  shown = found.slice(first, first + MOST_LISTED);
  list.replaceChildren(...shown.map((place) => {
    const layer = layers[place];
    const item = make("li", undefined, {
      role: "option", id: `layer${place}`, class: `v${layer.v}`, "aria-selected": String(chosen === leaves[place]),
    });
    item.append(make("b", layer.t), " ", breakable(layer.n));
    if (layer.v > 2) item.append(make("span", ` ${NAMES[layer.v]}`, { class: "bad" }));
    return item;
  }));
  byId("count").textContent = found.length > MOST_LISTED
    ? `${first + 1} to ${first + shown.length} of ${counted(found.length, "layer")}` : counted(found.length, "layer");
}
function choose(part, moveThere, output = null) {
  const before = list.querySelector("[aria-selected='true']");
  if (before) before.setAttribute("aria-selected", "false");
  chosen = part;
  tensor = part.block ? null : output;
  if (!part.block) {
    if (reveal(part.at)) layOut();
    if (!byId(`layer${part.at}`) && found.includes(part.at)) showAround(found.indexOf(part.at));
    const item = byId(`layer${part.at}`);
    if (item) {
      item.setAttribute("aria-selected", "true");
      // The list alone is moved, and not the page.
      const top = item.offsetTop - list.offsetTop;
      if (top < list.scrollTop || top + item.offsetHeight > list.scrollTop + list.clientHeight) {
        list.scrollTop = top - list.clientHeight / 2;
      }
      list.setAttribute("aria-activedescendant", item.id);
    }
    for (const dot of document.querySelectorAll("#depth .dot")) {
      dot.setAttribute("r", Number(dot.dataset.layer) === part.at ? 7 : 3);
    }
  }
  showDetails();
  if (moveThere) centre(part); else redraw();
}
if (list) {
  list.addEventListener("click", (event) => {
    const item = event.target.closest("li");
    if (item) choose(leaves[Number(item.id.slice(5))], true);
  });
  list.addEventListener("keydown", (event) => {
    const at = chosen && !chosen.block ? found.indexOf(chosen.at) : -1;
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: found.length - 1, PageDown: at + 10, PageUp: at - 10 }[event.key];
    if (event.key === "Enter" && chosen) { centre(chosen); return; }
    if (next === undefined || !found.length) return;
    event.preventDefault();
    choose(leaves[found[Math.min(found.length - 1, Math.max(0, next))]], true);
  });
  search.addEventListener("input", fillList);
  search.addEventListener("keydown", (event) => {
    if ((event.key === "Enter" || event.key === "ArrowDown") && shown.length) {
      event.preventDefault();
      list.focus();
      choose(leaves[shown[0]], true);
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !["INPUT", "SELECT"].includes(document.activeElement.tagName)) {
      event.preventDefault();
      search.focus();
    }
  });
}
for (const link of document.querySelectorAll(".go")) {
  link.addEventListener("click", () => {
    choose(leaves[Number(link.dataset.layer)], true);
    canvas.scrollIntoView({ block: "center" });
    canvas.focus({ preventScroll: true });
  });
}
