// The first picture: what is wrong if anything is, else the whole graph in a few boxes.
const BOXES_AT_FIRST = 40;
function begin() {
  if (!layers.length) return;
  const again = () => { readColours(); redraw(); };
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  window.matchMedia("print").addEventListener("change", () => { readColours(); draw(); });
  new ResizeObserver(redraw).observe(canvas);
  readColours();
  plant();
  openUpTo(BOXES_AT_FIRST);
  fillList();
  chart();
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth !== width) { width = window.innerWidth; chart(); }
  });
  const worst = layers.reduce((found, layer, at) =>
    (layer.v > 2 && (found < 0 || SEVERITY[layer.v] > SEVERITY[layers[found].v]) ? at : found), -1);
  layOut();
  fitWidth();
  choose(leaves[Math.max(worst, 0)], worst >= 0);
}
begin();
