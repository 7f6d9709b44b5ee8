// Tables that are sorted by a click on a heading, and filtered by words.
const FILTERED_FROM = 6;
const numeric = (text) => {
  const value = text.replaceAll(",", "");
  return value !== "" && (value === "inf" || value === "nan" || Number.isFinite(Number(value)));
};
const valueOf = (text) => (text === "inf" ? Infinity : text === "nan" ? Infinity : Number(text.replaceAll(",", "")));
function sortable(holder) {
  const body = holder.querySelector("tbody"), lines = [...body.rows], heads = [...holder.querySelectorAll("thead th")];
  const texts = lines.map((line) => [...line.cells].map((cell) => cell.textContent));
  const place = new Map(lines.map((line, at) => [line, at]));
  const isNumeric = heads.map((_, column) => texts.some((cells) => numeric(cells[column])) &&
    texts.every((cells) => numeric(cells[column]) || ["", "-"].includes(cells[column])));
  const sortBy = (column, falls) => {
    const compared = (a, b) => {
      const [one, other] = [texts[place.get(a)][column], texts[place.get(b)][column]];
      if (!isNumeric[column]) return one.localeCompare(other, "en", { numeric: true });
      // Rows without a number come last, whichever way the others are sorted.
      if (!numeric(one) || !numeric(other)) return (numeric(one) ? 0 : 1) * (falls ? -1 : 1) - (numeric(other) ? 0 : 1) * (falls ? -1 : 1);
      const [x, y] = [valueOf(one), valueOf(other)];
      return x < y ? -1 : x > y ? 1 : 0;
    };
    const sorted = [...lines].sort((a, b) => (falls ? -1 : 1) * compared(a, b) || place.get(a) - place.get(b));
    body.append(...sorted);
    heads.forEach((head, at) => head.setAttribute("aria-sort", at !== column ? "none" : falls ? "descending" : "ascending"));
  };
  heads.forEach((head, column) => {
    if (isNumeric[column]) {
      head.classList.add("number");
      for (const line of lines) line.cells[column].classList.add("number");
    }
    head.firstChild.addEventListener("click", () => {
      const before = head.getAttribute("aria-sort");
      sortBy(column, before === "none" ? isNumeric[column] : before === "ascending");
    });
  });
  if (lines.length < FILTERED_FROM) return;
  const tools = make("div", undefined, { class: "filter" }), label = make("label", "Filter "), count = make("span", "", { class: "soft", "aria-live": "polite" });
  const input = make("input", undefined, { type: "search", autocomplete: "off" });
  label.append(input);
  const order = make("select");
  order.append(make("option", "order of the page", { value: "" }), ...heads.map((head, at) => make("option", head.textContent, { value: at })));
  const sorting = make("label", "Sort by ", { class: "narrow" });
  sorting.append(order);
  tools.append(label, sorting, count);
  holder.querySelector(".scroll").before(tools);
  order.addEventListener("input", () => {
    if (order.value === "") body.append(...lines); else sortBy(Number(order.value), isNumeric[Number(order.value)]);
  });
  input.addEventListener("input", () => {
    const words = input.value.trim().toLowerCase().split(/\s+/).filter((word) => word);
    let found = 0;
    lines.forEach((line, at) => {
      const text = texts[at].join(" ").toLowerCase();
      line.hidden = !words.every((word) => text.includes(word));
      found += line.hidden ? 0 : 1;
    });
    count.textContent = words.length ? `${found} of ${lines.length} shown` : "";
  });
}
for (const holder of document.querySelectorAll("details.table")) sortable(holder);
