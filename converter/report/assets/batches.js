"use strict";
const body = document.querySelector(".models tbody");
const lines = [...body.rows];
const heads = [...document.querySelectorAll(".models thead th")];
const search = document.getElementById("search"), verdict = document.getElementById("verdict");
const order = document.getElementById("order"), turn = document.getElementById("turn");
let largest = false;

// Rows without a number come last, whichever way the others are sorted.
function compare(a, b, column) {
  const [one, other] = [a.cells[column], b.cells[column]];
  if (one.dataset.value === undefined) return (largest ? -1 : 1) * one.textContent.localeCompare(other.textContent);
  if (!one.dataset.value || !other.dataset.value) return (one.dataset.value ? 0 : 1) - (other.dataset.value ? 0 : 1);
  return (largest ? -1 : 1) * (number(one.dataset.value) - number(other.dataset.value) || 0);
}
const number = (text) => (text === "inf" ? Number.MAX_VALUE : text === "nan" ? Number.MAX_VALUE : Number(text));

function show() {
  const wanted = search.value.trim().toLowerCase();
  const column = order.value === "" ? -1 : Number(order.value);
  const sorted = column < 0 ? (largest ? [...lines].reverse() : lines) : [...lines].sort((a, b) => compare(a, b, column));
  let count = 0;
  for (const line of sorted) {
    line.hidden = !((!verdict.value || line.dataset.verdict === verdict.value) &&
      (!wanted || line.cells[0].textContent.toLowerCase().includes(wanted)));
    count += line.hidden ? 0 : 1;
  }
  body.append(...sorted);
  heads.forEach((head, at) =>
    head.setAttribute("aria-sort", at !== column ? "none" : largest ? "descending" : "ascending"));
  turn.setAttribute("aria-pressed", String(largest));
  document.getElementById("count").textContent = `${count} of ${lines.length} shown`;
}

heads.forEach((head, at) => head.firstChild.addEventListener("click", () => {
  largest = order.value === String(at) ? !largest : at > 1;
  order.value = String(at);
  show();
}));
turn.addEventListener("click", () => { largest = !largest; show(); });
for (const control of [search, verdict, order]) control.addEventListener("input", show);
show();
