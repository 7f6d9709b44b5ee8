// The whole graph in a corner, with a frame around what is seen.
const minimap = byId("minimap");
const small = { picture: null, of: null, scale: 1, left: 0, colours: "" };
function drawMinimap() {
  const isWhole = drawing.width * view.scale <= canvas.clientWidth && drawing.height * view.scale <= canvas.clientHeight;
  minimap.hidden = isWhole || !boxes.length;
  if (minimap.hidden) return;
  const size = minimap.width;
  if (small.of !== edges || small.colours !== colours.back) {
    small.of = edges;
    small.colours = colours.back;
    small.scale = size / Math.max(drawing.width, drawing.height);
    small.left = (size - drawing.width * small.scale) / 2;
    small.picture = document.createElement("canvas");
    small.picture.width = small.picture.height = size;
    const paint = small.picture.getContext("2d");
    paint.fillStyle = colours.panel;
    paint.fillRect(0, 0, size, size);
    const spot = (box, least) => {
      paint.fillStyle = box.verdict ? colourOf(box.verdict) : colours.soft;
      const w = Math.max(least, WIDTH * small.scale), h = Math.max(least, HEIGHT * small.scale);
      paint.fillRect(small.left + box.x * small.scale - w / 2, box.y * small.scale, w, h);
    };
    for (const box of boxes) spot(box, 1);
    for (const box of boxes) if (box.verdict > 2) spot(box, 4); // what is wrong is seen at any size
  }
  const paint = minimap.getContext("2d");
  paint.drawImage(small.picture, 0, 0);
  paint.strokeStyle = colours.focus;
  paint.lineWidth = 2;
  const x = small.left - (view.x / view.scale) * small.scale, y = (-view.y / view.scale) * small.scale;
  const w = (canvas.clientWidth / view.scale) * small.scale, h = (canvas.clientHeight / view.scale) * small.scale;
  paint.strokeRect(Math.max(1, x), Math.max(1, y), Math.max(3, Math.min(w, size - 2 - Math.max(0, x))), Math.max(3, Math.min(h, size - 2 - Math.max(0, y))));
}
function moveByMinimap(event) {
  if (!event.buttons) return;
  const ratio = minimap.width / minimap.clientWidth;
  const x = (event.offsetX * ratio - small.left) / small.scale, y = (event.offsetY * ratio) / small.scale;
  view.x = canvas.clientWidth / 2 - x * view.scale;
  view.y = canvas.clientHeight / 2 - y * view.scale;
  redraw();
}
if (minimap) for (const name of ["pointerdown", "pointermove"]) minimap.addEventListener(name, moveByMinimap);
