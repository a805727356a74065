// Sorting and filtering for tables that are already there; without this script the page is whole, and only still.
"use strict";
const FILTER_FROM = 8; // rows; fewer are seen at a glance

const words = new Intl.Collator("en", { numeric: true });

// What a cell is sorted by. Numbers come before words, and what was not measured is last, in both directions.
function key(cell) {
  if (cell.dataset.number !== undefined) return { rank: 0, value: Number(cell.dataset.number) };
  const text = cell.textContent;
  const size = /^([0-9.]+)(B|KiB|MiB|GiB)$/.exec(text);
  if (size) return { rank: 0, value: Number(size[1]) * 1024 ** ["B", "KiB", "MiB", "GiB"].indexOf(size[2]) };
  return { rank: text === "–" ? 2 : 1, text };
}

function compare(one, other, sign) {
  if (one.rank !== other.rank) return one.rank - other.rank;
  return sign * (one.rank ? words.compare(one.text, other.text) : one.value - other.value);
}

function sortable(table) {
  const heads = [...table.querySelectorAll("tr.heads > th:not(.plain)")];
  const body = table.tBodies[0];
  heads.forEach((head) => {
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("aria-label", "Sort by " + head.textContent.trim());
    head.append(button);
    head.addEventListener("click", () => {
      const rising = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", rising ? "ascending" : "descending");
      const place = head.cellIndex, sign = rising ? 1 : -1;
      const keyed = [...body.rows].map((row) => ({ row, key: key(row.cells[place]) }));
      body.append(...keyed.sort((a, b) => compare(a.key, b.key, sign)).map((each) => each.row));
    });
  });
}

function filterable(table) {
  const rows = [...table.tBodies[0].rows];
  if (rows.length < FILTER_FROM) return;
  const label = document.createElement("label"), input = document.createElement("input");
  const count = document.createElement("output");
  label.className = "filter";
  input.type = "search";
  input.setAttribute("aria-label", "Filter the rows of: " + table.caption.textContent.slice(0, 80));
  input.placeholder = "every word must occur";
  label.append("Filter", input, count);
  table.parentElement.before(label);
  const texts = rows.map((row) => [...row.cells].map((cell) => cell.textContent).join(" ").toLowerCase());
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, place) => {
      row.hidden = !wanted.every((word) => texts[place].includes(word));
      shown += !row.hidden;
    });
    count.value = wanted.length ? `${shown} of ${rows.length} rows` : "";
  });
}

document.querySelectorAll("table.data").forEach((table) => {
  sortable(table);
  filterable(table);
});

// What is linked to must be seen, whatever is folded, and whatever its table was filtered by.
function show() {
  const target = document.getElementById(location.hash.slice(1));
  if (!target) return;
  target.querySelectorAll(":scope > details").forEach((each) => { each.open = true; });
  for (let each = target; each; each = each.parentElement) if (each.tagName === "DETAILS") each.open = true;
  if (target.hidden) {
    const input = target.closest("section").querySelector(".filter input");
    input.value = "";
    input.dispatchEvent(new Event("input"));
  }
  target.scrollIntoView();
}
addEventListener("hashchange", show);
show();
