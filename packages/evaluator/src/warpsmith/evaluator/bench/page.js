"use strict";
// Sorts the table of answers by the column whose heading is clicked; numbers by value, missing ones last.
document.querySelectorAll("table.sortable").forEach((table) => {
  const headings = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const valueOf = (row, column) => row.cells[column].dataset.value;
  const compare = (one, other, sign) => {
    if (one === other) return 0;
    if (one === "") return 1;
    if (other === "") return -1;
    const numbers = [Number(one), Number(other)];
    const both = numbers.every((number) => !Number.isNaN(number));
    return sign * (both ? numbers[0] - numbers[1] : one.localeCompare(other));
  };
  headings.forEach((heading, column) => {
    const button = heading.querySelector("button");
    if (!button) return;
    button.addEventListener("click", () => {
      const sign = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
      const rows = [...body.rows];
      rows.sort((one, other) => compare(valueOf(one, column), valueOf(other, column), sign));
      body.append(...rows);
    });
  });
});
