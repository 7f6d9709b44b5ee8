// The tree of what is drawn: blocks, which are open or closed, and layers.
const root = { block: true, title: "", parent: null, parts: [], open: true, depth: 0 };
const blocks = groups.map((group, at) => ({
  block: true, at, title: group.t, counts: group.c, repeats: group.r || 0, parts: [], open: false, inside: [],
  verdict: 0, first: Infinity, parent: null, depth: 0,
}));
const leaves = layers.map((layer, at) => ({ block: false, at, verdict: layer.v, first: at, parent: null, depth: 0 }));
function plant() {
  groups.forEach((group, at) => {
    blocks[at].parent = group.p < 0 ? root : blocks[group.p];
    blocks[at].depth = blocks[at].parent.depth + 1;
  });
  leaves.forEach((leaf) => {
    const group = layers[leaf.at].g;
    leaf.parent = group < 0 ? root : blocks[group];
    leaf.depth = leaf.parent.depth + 1;
    leaf.parent.parts.push(leaf);
    for (let block = leaf.parent; block !== root; block = block.parent) {
      block.inside.push(leaf.at);
      block.verdict = worse(block.verdict, leaf.verdict);
      block.first = Math.min(block.first, leaf.at);
    }
  });
  blocks.forEach((block) => block.parent.parts.push(block));
  for (const one of [root, ...blocks]) one.parts.sort((a, b) => a.first - b.first);
}
// The box that a layer is seen in: its own, or the outermost closed block around it.
function seenAs(layer) {
  let found = leaves[layer];
  for (let block = found.parent; block !== root; block = block.parent) if (!block.open) found = block;
  return found;
}
const MOST_OF_ALL = 0.6, FEW = 4;
// Open blocks from the outside in, as long as no more than so many boxes are seen; stacks only where all layers are.
function openUpTo(most) {
  if (layers.length <= most) {
    for (const block of blocks) block.open = true;
    return;
  }
  let seen = root.parts.length;
  const pending = root.parts.filter((part) => part.block);
  for (let at = 0; at < pending.length; at++) {
    const block = pending[at];
    // A block around nearly everything tells nothing while it is closed.
    const isMost = block.inside.length > layers.length * MOST_OF_ALL && block.parts.length <= 4 * most;
    if ((block.repeats && !(isMost && block.repeats <= FEW)) || (!isMost && seen - 1 + block.parts.length > most)) continue;
    block.open = true;
    seen += block.parts.length - 1;
    pending.push(...block.parts.filter((part) => part.block));
  }
}
// Open what lies around a layer; whether anything was closed.
function reveal(layer) {
  let changed = false;
  for (let block = leaves[layer].parent; block !== root; block = block.parent) {
    changed = changed || !block.open;
    block.open = true;
  }
  return changed;
}
const titleOf = (part) => (part.block ? part.title : layers[part.at].n);
