// The drawing of what is in view. Texts have at least 11 pixels, or are left out.
const SMALLEST = 11;
const fitted = new Map();
let labels = [];
// As much of a text as fits; the end of a name, the beginning of anything else.
function fitText(text, width, font, end) {
  const key = `${font}|${Math.round(width)}|${end}|${text}`;
  let found = fitted.get(key);
  if (found !== undefined) return found;
  context.font = font;
  found = text;
  if (context.measureText(text).width > width) {
    let least = 0, most = text.length;
    const cut = (length) => (end ? `…${text.slice(text.length - length)}` : `${text.slice(0, length)}…`);
    while (least < most) {
      const middle = (least + most + 1) >> 1;
      if (context.measureText(cut(middle)).width <= width) least = middle; else most = middle - 1;
    }
    found = least > 2 ? cut(least) : "";
  }
  if (fitted.size > 30000) fitted.clear();
  fitted.set(key, found);
  return found;
}
function write(text, x, y, width, size, colour, { bold = false, end = false, halo = false } = {}) {
  const font = `${bold ? "600 " : ""}${size}px system-ui, sans-serif`;
  const shown = fitText(text, width, font, end);
  if (!shown) return 0;
  context.font = font;
  if (halo) {
    context.strokeStyle = colours.back;
    context.lineWidth = 4;
    context.lineJoin = "round";
    context.strokeText(shown, x, y);
  }
  context.fillStyle = colour;
  context.fillText(shown, x, y);
  return context.measureText(shown).width;
}

function draw() {
  waiting = false;
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = colours.back;
  context.fillRect(0, 0, width, height);
  const area = {
    left: -view.x / view.scale, right: (width - view.x) / view.scale,
    top: -view.y / view.scale, bottom: (height - view.y) / view.scale,
  };
  context.textBaseline = "middle";
  labels = [];
  for (const frame of frames) drawFrame(frame, area);
  drawEdges(area);
  const seen = boxes.filter((box) => box.y <= area.bottom && box.y + HEIGHT >= area.top &&
    box.x - WIDTH / 2 <= area.right && box.x + WIDTH / 2 >= area.left);
  if (view.scale >= 0.62) for (const box of seen) drawLabel(box);
  for (const box of seen) drawBox(box);
  if (chosen && chosen.open && chosen.block) ring(chosen.x - chosen.w / 2, chosen.y, chosen.w, chosen.h);
  drawMinimap();
}

const onScreen = (x, y) => [x * view.scale + view.x, y * view.scale + view.y];
function drawFrame(frame, area) {
  const left = frame.x - frame.w / 2;
  if (frame.y > area.bottom || frame.y + frame.h < area.top || left > area.right || left + frame.w < area.left) return;
  const [x, y] = onScreen(left, frame.y), w = frame.w * view.scale, h = frame.h * view.scale, head = HEAD * view.scale;
  context.fillStyle = frame.depth % 2 ? colours.panel : colours.back;
  context.strokeStyle = frame.verdict ? colourOf(frame.verdict) : colours.line;
  context.lineWidth = 1;
  context.beginPath();
  context.roundRect(x, y, w, h, 8 * view.scale);
  context.fill();
  context.stroke();
  if (head < SMALLEST + 2) return;
  const size = Math.max(SMALLEST, 13 * view.scale), shown = Math.max(x, 0) + 10 * view.scale;
  const room = x + w - shown - 8;
  if (room > 40) write(`− ${frame.title}`, shown, y + head / 2, room, size, colours.front, { bold: true });
}

function drawEdges(area) {
  context.setTransform(...scaled());
  context.lineWidth = 1.2 / Math.max(view.scale, 0.4);
  const near = [], other = new Path2D();
  for (const edge of edges) {
    if (edge.lower < area.top || edge.upper > area.bottom || edge.high < area.left || edge.low > area.right) continue;
    if (chosen && (edge.from === chosen || edge.to === chosen)) { near.push(edge); continue; }
    trace(other, edge.points, area);
  }
  context.strokeStyle = colours.soft;
  context.globalAlpha = 0.5;
  context.stroke(other);
  context.globalAlpha = 1;
  context.strokeStyle = colours.focus;
  context.lineWidth *= 1.8;
  const path = new Path2D();
  for (const edge of near) trace(path, edge.points, area);
  context.stroke(path);
  context.setTransform(...plain());
}
const plain = () => { const ratio = window.devicePixelRatio || 1; return [ratio, 0, 0, ratio, 0, 0]; };
const scaled = () => {
  const ratio = window.devicePixelRatio || 1;
  return [ratio * view.scale, 0, 0, ratio * view.scale, ratio * view.x, ratio * view.y];
};
function trace(path, points, area) {
  let [x, y] = points[0];
  path.moveTo(x, y);
  for (let at = 1; at < points.length; at++) {
    const [nextX, nextY] = points[at];
    if (Math.max(y, nextY) < area.top || Math.min(y, nextY) > area.bottom) path.moveTo(nextX, nextY);
    else if (Math.abs(nextX - x) < 0.5) path.lineTo(nextX, nextY);
    else path.bezierCurveTo(x, (y + nextY) / 2, nextX, (y + nextY) / 2, nextX, nextY);
    x = nextX; y = nextY;
  }
}

// The types of what leaves a box, below it.
function drawLabel(box) {
  const outputs = box.block ? outputsOf(box) : layers[box.at].s.map((_, output) => [box.at, output]);
  if (!outputs.length || !isRead(box)) return;
  const [layer, output] = outputs[0];
  const more = outputs.length > 1 ? ` and ${outputs.length - 1} more` : "";
  const [x, y] = onScreen(box.x, box.y + HEIGHT), size = Math.max(SMALLEST, 11 * view.scale);
  const middle = y + size / 2 + 5, room = (WIDTH + GAP_X) * view.scale - 8;
  context.textAlign = "center";
  const wide = write(`${layers[layer].s[output]}${more}`, x, middle, room, size, colours.soft, { halo: true });
  context.textAlign = "left";
  if (wide) labels.push({ left: x - wide / 2 - 4, right: x + wide / 2 + 4, top: y, bottom: y + size + 8, layer, output });
}
const isRead = (box) => { if (box.readAt !== edges) markRead(); return box.isRead; };
function markRead() {
  for (const box of boxes) { box.readAt = edges; box.isRead = false; }
  for (const edge of edges) edge.from.isRead = true;
}
// The tensors of a block that layers outside it read.
function outputsOf(block) {
  if (block.leaving) return block.leaving;
  const inside = new Set(block.inside), found = new Map();
  layers.forEach((layer, at) => {
    if (inside.has(at)) return;
    for (const [source, output] of layer.i) if (inside.has(source)) found.set(`${source}:${output}`, [source, output]);
  });
  block.leaving = [...found.values()];
  return block.leaving;
}

function drawBox(box) {
  const [x, y] = onScreen(box.x - WIDTH / 2, box.y), w = WIDTH * view.scale, h = HEIGHT * view.scale;
  const colour = colourOf(box.verdict), round = Math.min(6, 6 * view.scale);
  const rectangle = (dx, dy) => { context.beginPath(); context.roundRect(x + dx, y + dy, w, h, round); };
  context.lineWidth = box.verdict > 1 ? 2.4 : 1.2;
  context.strokeStyle = colour;
  context.fillStyle = colours.panel;
  if (box.block && h > 8) {
    for (const away of box.repeats ? [7, 3.5] : [3.5]) {
      rectangle(away * view.scale, away * view.scale);
      context.fill(); context.stroke();
    }
  }
  rectangle(0, 0);
  context.fill();
  context.stroke();
  context.fillStyle = colour;
  context.fillRect(x, y + round / 2, Math.max(2, 6 * view.scale), h - round);
  if (box === chosen) ring(x, y, w, h, true);
  if (h < SMALLEST + 3) return;
  const left = x + 6 * view.scale + 6, room = w - 6 * view.scale - 12;
  const two = h >= 2 * SMALLEST + 5, size = Math.max(SMALLEST, 13 * view.scale), small = Math.max(SMALLEST, 11 * view.scale);
  const title = box.block ? box.title : layers[box.at].t, line = y + (two ? h * 0.31 : h / 2);
  const fused = !box.block && layers[box.at].f && two ? `${layers[box.at].f.length} → 1` : "";
  const taken = write(title, left, line, room, size, colours.front, { bold: true });
  if (!two) return;
  // How many layers of the file a fused one stands for, where there is room.
  if (fused && room - taken > 4 * small) {
    context.textAlign = "right";
    write(fused, left + room, line, room - taken - 6, small, colours.focus);
    context.textAlign = "left";
  }
  const below = box.block ? counted(box.inside.length, "layer") : layers[box.at].n;
  write(below, left, y + h * 0.72, room, small, colours.soft, { end: !box.block });
}
// The selection is an outer ring, so that the verdict's colour stays.
function ring(x, y, w, h, isOnScreen = false) {
  if (!isOnScreen) { [x, y] = onScreen(x, y); w *= view.scale; h *= view.scale; }
  context.strokeStyle = colours.focus;
  context.lineWidth = 3;
  context.beginPath();
  context.roundRect(x - 5, y - 5, w + 10, h + 10, 9);
  context.stroke();
}
