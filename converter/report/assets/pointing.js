// The mouse, fingers and keys in the drawing.
const fingers = new Map();
let moved = false, apart = 0;
const inBox = (x, y, box, w, h) => Math.abs(box.x - x) <= w / 2 && y >= box.y && y <= box.y + h;
// What lies under a point: a box, the head of an open block, or the label of a tensor.
function under(px, py) {
  const x = (px - view.x) / view.scale, y = (py - view.y) / view.scale;
  const box = boxes.find((one) => inBox(x, y, one, WIDTH, HEIGHT));
  if (box) return { part: box };
  const label = labels.find((one) => px >= one.left && px <= one.right && py >= one.top && py <= one.bottom);
  if (label) return { part: leaves[label.layer], output: label.output };
  const heads = frames.filter((one) => inBox(x, y, one, one.w, HEAD));
  if (heads.length) return { part: heads[heads.length - 1], head: true };
  return null;
}
function pointAt(px, py) {
  const found = under(px, py);
  if (!found) return;
  const { part, output } = found;
  if (part.block) { toggle(part); choose(part, false); return; }
  choose(part, false, output === undefined ? null : output);
}
// The box nearest in a direction: what reads the chosen one, what it reads, its neighbours.
function neighbour(key) {
  const at = chosen && boxes.includes(chosen) ? chosen : chosen && !chosen.block ? seenAs(chosen.at) : boxes[0];
  if (!at) return null;
  const nearest = (found) => found.sort((a, b) => Math.hypot(a.x - at.x, a.y - at.y) - Math.hypot(b.x - at.x, b.y - at.y))[0];
  if (key === "ArrowDown") return nearest(edges.filter((edge) => edge.from === at).map((edge) => edge.to));
  if (key === "ArrowUp") return nearest(edges.filter((edge) => edge.to === at).map((edge) => edge.from));
  const sign = key === "ArrowRight" ? 1 : -1;
  return nearest(boxes.filter((box) => Math.abs(box.y - at.y) < HEIGHT / 2 && sign * (box.x - at.x) > 1));
}
function press(event) {
  const step = 60, isArrow = event.key.startsWith("Arrow");
  const keys = {
    "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8), 0: fit,
    Enter: () => {
      const block = chosen && (chosen.block ? chosen : chosen.parent);
      if (block && block !== root) { toggle(block); choose(block, false); }
    },
  };
  if (isArrow && event.shiftKey) {
    view.x += { ArrowLeft: step, ArrowRight: -step }[event.key] || 0;
    view.y += { ArrowUp: step, ArrowDown: -step }[event.key] || 0;
  } else if (isArrow) {
    const next = neighbour(event.key);
    if (next) choose(next, true);
  } else if (keys[event.key]) keys[event.key]();
  else return;
  event.preventDefault();
  redraw();
}
if (canvas) {
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, [event.offsetX, event.offsetY]);
    moved = false; apart = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (!before) {
      const found = under(event.offsetX, event.offsetY);
      canvas.style.cursor = found ? "pointer" : "grab";
      canvas.title = found ? (found.output === undefined ? titleOf(found.part) : nameOf(found.part.at, found.output)) : "";
      return;
    }
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
  canvas.addEventListener("pointerup", (event) => {
    if (fingers.delete(event.pointerId) && !moved) pointAt(event.offsetX, event.offsetY);
  });
  canvas.addEventListener("pointercancel", (event) => fingers.delete(event.pointerId));
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY);
  }, { passive: false });
  canvas.addEventListener("keydown", press);
  const all = (open) => () => {
    for (const block of blocks) block.open = open;
    layOut();
    fitWidth();
  };
  byId("in").addEventListener("click", () => zoom(1.25));
  byId("out").addEventListener("click", () => zoom(0.8));
  byId("fit").addEventListener("click", fit);
  byId("open").addEventListener("click", all(true));
  byId("close").addEventListener("click", all(false));
  if (!blocks.length) for (const id of ["open", "close"]) byId(id).hidden = true;
}
