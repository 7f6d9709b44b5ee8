// Which part of the drawing is seen, and how large.
const canvas = byId("canvas");
const context = canvas ? canvas.getContext("2d") : null;
const view = { scale: 1, x: 0, y: 0 };
const LEAST = 0.01, MOST = 4, READABLE = 0.72;
let chosen = null, tensor = null, waiting = false;
const colours = {};
function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["back", "front", "soft", "line", "panel", "focus", "good", "bad", "drift", "none", "mark"]) {
    colours[name] = style.getPropertyValue(`--${name}`).trim();
  }
}
const colourOf = (verdict) => colours[COLOURS[verdict].slice(2)];
function redraw() {
  if (!waiting && canvas) { waiting = true; requestAnimationFrame(draw); }
}
// A point of the drawing is seen at its place times the scale, plus the view's own place.
function zoom(factor, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
  const scale = Math.min(MOST, Math.max(LEAST, view.scale * factor)), change = scale / view.scale;
  view.x = x - (x - view.x) * change;
  view.y = y - (y - view.y) * change;
  view.scale = scale;
  redraw();
}
function fit() {
  const wide = canvas.clientWidth, high = canvas.clientHeight - 56;
  view.scale = Math.max(LEAST, Math.min(1.1, wide / drawing.width, high / drawing.height));
  view.x = (wide - drawing.width * view.scale) / 2;
  view.y = 52;
  redraw();
}
// As large as can be read: the whole width if that is possible, from the inputs on.
function fitWidth() {
  fit();
  if (view.scale >= READABLE) return;
  view.scale = Math.min(1, Math.max(READABLE, canvas.clientWidth / drawing.width));
  const first = boxes[0];
  view.x = drawing.width * view.scale <= canvas.clientWidth
    ? (canvas.clientWidth - drawing.width * view.scale) / 2 : canvas.clientWidth / 2 - first.x * view.scale;
  view.y = 52 - (drawing.width * view.scale <= canvas.clientWidth ? 0 : Math.max(0, first.y - 40) * view.scale);
  redraw();
}
function centre(part) {
  view.scale = Math.max(view.scale, 0.85);
  view.x = canvas.clientWidth / 2 - part.x * view.scale;
  view.y = canvas.clientHeight / 2 - (part.y + HEIGHT / 2) * view.scale;
  redraw();
}
function toggle(block) {
  const x = block.x * view.scale + view.x, y = block.y * view.scale + view.y;
  block.open = !block.open;
  layOut();
  view.x = x - block.x * view.scale;
  view.y = y - block.y * view.scale;
  redraw();
}
